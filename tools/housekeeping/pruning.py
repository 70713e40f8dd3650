"""Prune closed experiments: scratch at once, weights when an experiment is neither best nor last (`FT_KEEP_MODELS`).

Never the evidence: answers, recipe, data and its report, jobs with their logs, the trainer's state and log, scores.
What went is noted in the experiment's `pruned.json` before it goes, so that no half-removed model is believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Journal
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import ExperimentFolder, ExtraTrainingFolder, RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.setting_values import KeepModels
from tuneloop.tools.housekeeping.disk import TRASH, bytes_below, is_trash, remove_path

NOTE = "pruned.json"
BY_USER = "the user's command"  # a rule beside those of `FT_KEEP_MODELS`
BY_CLEAN = "tuneloop clean"
RECIPES = 2  # the last so many that were promoted are trained with further seeds
TOKENIZER = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "chat_template*")
BROKEN = tuple(f"broken-checkpoint-*/*.{kind}" for kind in ("safetensors", "bin", "pt", "pth"))
MODEL = (
    "finished.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "*.bin",
    "*.pt",
    "*.pth",
    "checkpoint-*",
    *TOKENIZER,
    *BROKEN,
)
SCRATCH = ("smoke_run_model", "smoke_run_data", "sample", "dry_run-*", "left_out", "*/hf", "*/cache")
# What the script wrote before the gate; the report of the best experiment quotes rows that the gate dropped.
RAW = ("build_data-*",)


class Pruned(BaseModel):
    """What was removed of an experiment, by which rule, and whether it is all gone."""

    model_config = ConfigDict(frozen=True)

    weights: bool = False
    raw: bool = False
    removed: tuple[str, ...] = ()
    bytes: int = 0
    rule: str = ""
    done: bool = False


def prune_run(
    run: RunFolder, journal: Journal, keep: KeepModels, again: int = 0, needed: frozenset[int] = frozenset()
) -> None:
    """Apply the rule to every experiment that is over; what an interrupted call left is finished.

    `again`: so many recipes, the last promoted, are trained once more at the end; what a GRPO of them began with stays.
    `needed`: experiments whose weights stay in any case.
    """
    stays = needed | kept_experiments(journal, keep) | grpo_parents(run, journal, again)
    best = journal.best
    for e in journal.experiments:
        is_best = best is not None and best.number == e.number
        prune_experiment(run.experiment(e.number), weights=e.number not in stays, raw=not is_best, rule=keep)


def kept_experiments(journal: Journal, keep: KeepModels) -> frozenset[int]:
    """Numbers of the experiments whose weights stay; the incumbent's always do."""
    numbers = [e.number for e in journal.experiments]
    if keep == "all":
        return frozenset(numbers)
    last = numbers[-1:] if keep == "best,last" else []
    return frozenset([*last, *([journal.best.number] if journal.best else [])])


def grpo_parents(run: RunFolder, journal: Journal, recipes: int) -> frozenset[int]:
    """Numbers of the experiments whose weights the GRPOs among the last promoted recipes began with."""
    from tuneloop.tools.config.config_text import readable_train_config  # reads YAML: commands that list runs need none
    from tuneloop.tools.config.grpo_config import is_grpo

    promoted = journal.promoted[:recipes]
    grpo = (e for e in promoted if is_grpo(readable_train_config(run.experiment(e.number)).values))
    return frozenset(e.hypothesis.parent for e in grpo if e.hypothesis.parent)


def prune_experiment(folder: ExperimentFolder, *, weights: bool, raw: bool, rule: str) -> None:
    """Note what goes, remove it, note that it is gone. An experiment with a job that still lives waits."""
    note = read_note(folder)
    if note.done and note.weights >= weights and note.raw >= raw:
        return
    if any(has_live_job(one.jobs) for one in (folder, *extra_trainings(folder))):
        return
    targets = prunable_entries(folder, weights=weights, raw=raw)
    names = (str(p.relative_to(folder.root)) for p in targets if not is_trash(p))
    after = Pruned(
        weights=weights or note.weights,
        raw=raw or note.raw,
        removed=tuple(dict.fromkeys((*note.removed, *names))),
        bytes=note.bytes + sum(map(bytes_below, targets)),
        rule=rule,
    )
    write_json(folder.root / NOTE, after.model_dump())
    for path in targets:
        remove_path(path)
    write_json(folder.root / NOTE, after.model_copy(update={"done": True}).model_dump())


def prunable_entries(folder: ExperimentFolder, *, weights: bool, raw: bool) -> list[Path]:
    """What may go now, by name: nothing that is not listed on top of this file is ever touched."""
    found = {*matching_entries(folder.root, ()), *matching_entries(folder.work, (*SCRATCH, *(RAW if raw else ())))}
    if weights:
        found |= set(matching_entries(folder.model, MODEL))
    return sorted(found)


def extra_trainings(folder: ExperimentFolder) -> list[ExperimentFolder]:
    """The experiment's trainings with other seeds."""
    return [ExtraTrainingFolder(place, folder) for place in matching_entries(folder.root, ("seeds/[0-9]*",))]


def matching_entries(place: Path, patterns: Iterable[str]) -> list[Path]:
    """Entries of `place` by pattern, and what an interrupted removal left; a `place` that is a link holds nothing."""
    if place.is_symlink():
        return []
    return [
        p for pattern in (*patterns, f".*{TRASH}", f"*/.*{TRASH}") for p in place.glob(pattern) if _inside(p, place)
    ]


def _inside(path: Path, place: Path) -> bool:
    """No folder on the way from `place` to `path` is a link."""
    return not any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(place))


def has_live_job(jobs: Path) -> bool:
    """Whether a job of this folder lives."""
    return any(is_locked(job / "lock") for job in jobs.glob("*.[0-9]*"))


def read_note(folder: ExperimentFolder) -> Pruned:
    """What was pruned so far; nothing where there is no note."""
    file = folder.root / NOTE
    return read_model(file, Pruned) if file.is_file() else Pruned()


def check_there(folder: ExperimentFolder) -> None:
    """Raises RecipeError with one sentence when the experiment's weights were pruned."""
    note = read_note(folder)
    if note.weights:
        why = note.rule if note.rule in (BY_USER, BY_CLEAN) else f"FT_KEEP_MODELS={note.rule}"
        raise RecipeError(
            f"experiment {folder.number}'s weights were pruned ({why}); its recipe, scores and "
            "logs are there: train the recipe again in a new experiment",
            culprit="environment",
        )
