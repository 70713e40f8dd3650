"""Measure one subject on sets of items: where its jobs lie, what is asked first, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tuneloop.core.errors import SetupError
from tuneloop.core.files import digest
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.run import SandboxKind
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.tools.backend import choose_backend
from tuneloop.tools.disk import remove
from tuneloop.tools.evaluating.asked import Decoding
from tuneloop.tools.evaluating.desk import Desk, carry_out
from tuneloop.tools.evaluating.replies import from_file
from tuneloop.tools.evaluating.served import ask
from tuneloop.tools.evaluating.subjects import Subject
from tuneloop.tools.evaluation import How, ItemSet, Weights
from tuneloop.tools.judge import check_judge, find_judge
from tuneloop.tools.llm_proxy.access import upstreams
from tuneloop.tools.llm_proxy.probe import check_endpoint
from tuneloop.tools.models import Progress
from tuneloop.tools.pipeline import Evaluation, Folder, decided

AS_DECLARED = Decoding()


@dataclass(frozen=True)
class Measurement:
    """Scores by set. `place`: the evaluation's folder; `key`: hash of all that decides the answers to a set, by set."""

    subject: Subject
    sets: tuple[ItemSet, ...]
    scores: dict[str, Score]
    place: Path
    keys: dict[str, str]
    how: How
    engine: str
    notes: tuple[str, ...] = field(default=())


def measure(
    subject: Subject,
    sets: tuple[ItemSet, ...],
    settings: Settings,
    say: Progress,
    *,
    device: str,
    decoding: Decoding = AS_DECLARED,
    seed: int = 1,
    sandbox: SandboxKind = "auto",
) -> Measurement:
    """Every item answered, scored and verified. Asked again after a kill it goes on, for each benchmark.

    Raises SetupError before anything costs, WorldError where a job failed.
    """
    benchmarks = tuple(one.benchmark for one in sets)
    judge = find_judge(settings, benchmarks)
    if subject.served:  # weights behind a name may change: nothing of it is taken from an earlier evaluation
        settings = settings.model_copy(update={"enable_cache": False, "eval_api_base": subject.base})
        check_endpoint(
            upstreams(settings)["served"], subject.served, "the model's endpoint", "--endpoint, TUNELOOP_EVAL_API_KEY"
        )
    desk = Desk(folder_of(subject, sets, settings, device, decoding, seed), settings, sandbox, device, say)
    desk.run.root.mkdir(parents=True, exist_ok=True)
    with exclusive(desk.run.lock):
        weights, notes = replied(desk, subject, sets, seed, say)
        how = how_of(desk, weights, decoding, seed)
        e = Evaluation(Folder(desk, desk.run.root, benchmarks, judge), (weights,), sets, how, retry=True)
        if judge is not None and decided(e).missing:
            check_judge(settings, judge)
        scores = {name: score for (_, name), score in carry_out(e, say).items()}
        if any(one.split == "test" for one in sets):
            for name in ("work", "jobs"):  # nothing of a sealed test stays
                remove(desk.run.root / name)
    if judge is None and (by_rule := [one.name for one in sets if one.benchmark.judge]):
        notes = (*notes, f"no judge (FT_JUDGE_MODEL): the rule alone decides on {', '.join(by_rule)}")
    keys = {name: key for (_, name), key in e.keys.items()}
    return Measurement(subject, sets, scores, desk.run.root, keys, how, e.engine.identity, notes)


def replied(
    desk: Desk, subject: Subject, sets: tuple[ItemSet, ...], seed: int, say: Progress
) -> tuple[Weights, tuple[str, ...]]:
    """What the engine measures, and what there is to say of it."""
    if subject.served:
        weights, missing = ask(desk, subject.name, subject.served, sets, seed, say)
        note = f"{missing} questions were refused by the endpoint: their replies are empty, and wrong"
        return weights, (note,) if missing else ()
    if subject.replies:
        return from_file(subject.name, subject.replies, sets, desk.run.root / "work" / "replies"), ()
    assert subject.weights is not None, "a subject is one of these"
    return subject.weights, ()


def how_of(desk: Desk, weights: Weights, decoding: Decoding, seed: int) -> How:
    """Device, backend and batches. Raises SetupError."""
    adapters = [weights.adapter] if weights.adapter else []
    engine = desk.engine("opencompass")
    backend = "hf" if weights.replies else choose_backend(desk.settings.eval_backend, engine, desk.device, adapters)
    device: Literal["cpu", "cuda"] = "cuda" if desk.device == "cuda" else "cpu"
    files = desk.settings.scorer_folder
    own = {"batch_size": decoding.batch_size, "longest": decoding.max_seq_len}
    return How(device=device, backend=backend, seed=seed, files=files, **own)


def folder_of(
    subject: Subject, sets: Sequence[ItemSet], settings: Settings, device: str, decoding: Decoding, seed: int
) -> RunFolder:
    """Where this very question is answered, also when it is asked again. Raises SetupError for two sets of one name."""
    names = [one.name for one in sets]
    if len(set(names)) != len(names):
        raise SetupError(f"two benchmarks of one name in {', '.join(names)}")
    asked = [[one.name, one.split, [item.id for item in one.items]] for one in sets]
    bases = [
        upstreams(settings)[purpose].base for purpose in ("judge", "served")
    ]  # a proxy keeps to those of its start
    own = digest(subject.described, *bases, json.dumps([asked, device, seed, vars(decoding)]))
    return RunFolder(settings.home.evaluations / f"eval-{subject.name[:60]}-{own}")
