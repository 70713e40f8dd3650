"""Pruning by rule: evidence stays, the incumbent stays, and a kill anywhere leaves what the next call finishes."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.errors import InvalidRequestError, RecipeError
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis, Journal
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.score import Score
from tuneloop.core.settings import load_settings
from tuneloop.tools.housekeeping.pruning import check_there, kept_experiments, prune_experiment, prune_run, read_note

EVIDENCE = (
    "hypothesis.json", "process_data.py", "train.yaml", "training.json", "scores.json", "experiment.json",
    "forecast.json", "data/data.json", "data/report.json", "answers/critic.0.json", "answers/critic.0.md",
    "jobs/train.1/log.txt", "jobs/train.1/exit.json", "model/trainer_state.json", "model/trainer_log.jsonl",
    "model/.key", "model/config.json", "model/adapter_config.json", "work/train/config.yaml",
    "work/evaluate/results.json",
)  # fmt: skip
WEIGHTS = (
    "model/model.safetensors", "model/finished.json", "model/broken-checkpoint-20/optimizer.pt",
    "model/tokenizer.json", "model/training_args.bin",
    "model/checkpoint-40/optimizer.pt", "model/checkpoint-40/trainer_state.json",
)  # fmt: skip
SCRATCH = ("work/train/hf/x.arrow", "work/smoke_run_model/model.safetensors", "work/smoke_run_data/data.json")
RAW = ("work/build_data-0123/data.json",)
OUTCOMES = ("promoted", "not promoted", "failed")


def journal(*outcomes: str) -> Journal:
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=9, parsed=100)
    return Journal(
        experiments=tuple(
            Experiment(
                number=number,
                hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
                score=None if outcome == "failed" else score,
                feedback=Feedback(promoted=outcome == "promoted", critique=Critique(explanation="e", lesson="l")),
            )
            for number, outcome in enumerate(outcomes, 1)
        )
    )


def fill(folder: ExperimentFolder) -> ExperimentFolder:
    for name in (*EVIDENCE, *WEIGHTS, *SCRATCH, *RAW):
        (folder.root / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.root / name).write_text(name * 100)
    return folder


def a_run(root: Path, *outcomes: str) -> tuple[RunFolder, Journal]:
    run = RunFolder(root / "run")
    for number in range(1, len(outcomes) + 1):
        fill(run.experiment(number))
    return run, journal(*outcomes)


def there(folder: ExperimentFolder, names: tuple[str, ...]) -> bool:
    found = [(folder.root / name).is_file() for name in names]
    assert all(found) or not any(found), dict(zip(names, found, strict=True))
    return all(found)


@given(
    outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=5),
    keep=st.sampled_from(["best,last", "best", "all"]),
)
@settings(max_examples=12)
def test_evidence_and_the_incumbent_stay(tmp_path_factory: pytest.TempPathFactory, outcomes: list[str], keep) -> None:
    run, done = a_run(tmp_path_factory.mktemp("prune"), *outcomes)
    # As it happens: one experiment is closed after the other.
    for n in range(1, len(outcomes) + 1):
        prune_run(run, Journal(experiments=done.experiments[:n]), keep)
    best = done.best.number if done.best else None
    for n in range(1, len(outcomes) + 1):
        folder = run.experiment(n)
        stays = keep == "all" or n == best or (keep == "best,last" and n == len(outcomes))
        assert there(folder, EVIDENCE)
        assert there(folder, WEIGHTS) is stays
        assert not there(folder, SCRATCH)
        assert there(folder, RAW) is (n == best)
        assert read_note(folder).weights is not stays


def test_the_rule() -> None:
    done = journal("promoted", "not promoted", "failed")
    assert kept_experiments(done, "best,last") == {1, 3}
    assert kept_experiments(done, "best") == {1}
    assert kept_experiments(done, "all") == {1, 2, 3}
    assert kept_experiments(journal("failed"), "best") == set()


@pytest.mark.parametrize(("again", "stage", "stays"), [(2, "grpo", True), (0, "grpo", False), (2, "sft", False)])
def test_what_a_grpo_began_with_stays_where_further_seeds_need_it(
    tmp_path: Path, again: int, stage: str, stays: bool
) -> None:
    run, done = a_run(tmp_path, "promoted", "promoted")
    first, second = done.experiments
    second = second.model_copy(update={"hypothesis": second.hypothesis.model_copy(update={"parent": 1})})
    run.experiment(2).config.write_text(f"stage: {stage}\n")
    prune_run(run, Journal(experiments=(first, second)), "best,last", again)
    assert there(run.experiment(1), WEIGHTS) is stays
    assert there(run.experiment(2), WEIGHTS)


def test_who_asks_for_a_pruned_model_gets_one_sentence(tmp_path: Path) -> None:
    run, done = a_run(tmp_path, "not promoted", "promoted")
    prune_run(run, done, "best")
    with pytest.raises(RecipeError, match=r"experiment 1's weights were pruned \(FT_KEEP_MODELS=best\)"):
        check_there(run.experiment(1))
    check_there(run.experiment(2))
    note = read_note(run.experiment(1))
    assert note.done and "model/model.safetensors" in note.removed and note.bytes > 0


class Killed(BaseException):
    """Stands for kill -9 between two system calls."""


def test_a_kill_anywhere_is_finished_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rename and every deletion is a place to die."""
    deaths = 0
    for fatal in range(60):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        run, done = a_run(tmp_path, "not promoted", "not promoted")
        with monkeypatch.context() as patch:
            count = iter(range(1000))

            def mortal(real, count=count, fatal=fatal):
                def call(*args, **kwargs):
                    if next(count) == fatal:
                        raise Killed
                    return real(*args, **kwargs)

                return call

            for owner, name in ((shutil, "rmtree"), (Path, "rename"), (Path, "unlink"), (Path, "replace")):
                patch.setattr(owner, name, mortal(getattr(owner, name)))
            try:
                prune_run(run, done, "best,last")
            except Killed:
                deaths += 1
            else:
                break
        if not all((run.experiment(1).root / name).exists() for name in WEIGHTS):
            with pytest.raises(RecipeError, match="pruned"):
                check_there(run.experiment(1))
        prune_run(run, done, "best,last")
        assert there(run.experiment(1), EVIDENCE) and not there(run.experiment(1), (*WEIGHTS, *SCRATCH))
        assert there(run.experiment(2), (*EVIDENCE, *WEIGHTS))
        left = [p for p in run.root.rglob(".*.part") if p.name != f".pruned.json.{os.getpid()}.part"]
        assert left == []
    assert 10 < deaths < 59, "every place was reached"


def test_a_removal_of_a_whole_model_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    """Another recipe's output goes before its training begins; who was killed meanwhile does not come back to it."""
    run, done = a_run(tmp_path, "promoted")
    away = run.experiment(1).root / ".model.7.part"
    away.mkdir()
    (away / "model.safetensors").touch()
    prune_run(run, done, "best")
    assert not away.exists()
    assert there(run.experiment(1), (*EVIDENCE, *WEIGHTS))


def test_a_living_job_is_waited_for(tmp_path: Path) -> None:
    run, done = a_run(tmp_path, "not promoted", "not promoted")
    with (run.experiment(1).jobs / "train.1" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prune_run(run, done, "best")
        assert there(run.experiment(1), WEIGHTS)
        assert not there(run.experiment(2), WEIGHTS)
    prune_run(run, done, "best")
    assert not there(run.experiment(1), WEIGHTS)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "model.safetensors").write_text("precious")
    run, done = a_run(tmp_path, "not promoted", "not promoted")
    shutil.rmtree(run.experiment(1).model)
    run.experiment(1).model.symlink_to(outside)
    (run.experiment(2).model / "linked.safetensors").symlink_to(outside / "model.safetensors")
    prune_run(run, done, "best")
    assert (outside / "model.safetensors").read_text() == "precious"
    assert not (run.experiment(2).model / "linked.safetensors").is_symlink()


def test_pruning_again_costs_little_and_changes_nothing(tmp_path: Path) -> None:
    run, done = a_run(tmp_path, "not promoted", "promoted")
    prune_run(run, done, "best")
    before = {p: p.stat().st_mtime_ns for p in run.root.rglob("*")}
    prune_run(run, done, "best")
    assert {p: p.stat().st_mtime_ns for p in run.root.rglob("*")} == before


@pytest.mark.parametrize(
    ("said", "meant"),
    [("", "best,last"), ("last, best", "best,last"), ("last", "best,last"), ("ALL", "all"), ("best", "best")],
)
def test_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, meant: str) -> None:
    monkeypatch.setenv("FT_KEEP_MODELS", said)
    assert load_settings(tmp_path / "none").keep_models == meant


def test_a_wrong_setting_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FT_KEEP_MODELS", "some")
    with pytest.raises(InvalidRequestError, match=r"FT_KEEP_MODELS='some': .*'best,last', 'best' or 'all'"):
        load_settings(tmp_path / "none")


def test_a_training_with_another_seed_is_pruned_by_itself_only(tmp_path: Path) -> None:
    """It may be what is delivered, also when its experiment's own model is not kept."""
    run, done = a_run(tmp_path, "promoted", "promoted")
    again = fill(RunFolder(run.root, training=2).experiment(1))
    prune_run(run, done, "best")
    assert not there(run.experiment(1), WEIGHTS)
    assert there(again, WEIGHTS)
    with (again.jobs / "train.1" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prune_experiment(again, weights=True, raw=True, rule="seeds")
        assert there(again, WEIGHTS), "its job lives"
    prune_experiment(again, weights=True, raw=True, rule="seeds")
    assert there(run.experiment(2), WEIGHTS)
    assert not there(again, (*WEIGHTS, *SCRATCH, *RAW)) and there(again, EVIDENCE)
