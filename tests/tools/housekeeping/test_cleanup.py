"""What may go goes, what must stay stays: on random homes, with links out, with owners that live, after kills."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis, Journal
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.score import Score
from tuneloop.tools.engines.engine import Engine
from tuneloop.tools.engines.engine import write_manifest as write_engine_manifest
from tuneloop.tools.engines.find import link_engine
from tuneloop.tools.housekeeping.cleanup import find_removables
from tuneloop.tools.housekeeping.removable import CleanupRequest, Removable, remove_found
from tuneloop.tools.runs.manifest import write_manifest

OLD = time.time() - 40 * 86400
BIG = "x" * 200_000
EVIDENCE = (
    "hypothesis.json", "process_data.py", "train.yaml", "training.json", "scores.json", "data/data.json",
    "data/report.json", "answers/critic.0.json", "jobs/train.1/log.txt", "jobs/train.1/exit.json",
    "jobs/train.1/command.json", "model/trainer_state.json", "model/trainer_log.jsonl", "work/train/config.yaml",
)  # fmt: skip
OF_RUN = (
    "run.yaml", "setup.json", "events.jsonl", "checkpoint.sqlite", "directives.jsonl", "baseline/scores.json",
    "baseline/jobs/evaluate.1/exit.json", "final/test.json", "best/model.safetensors", "best/manifest.json",
)  # fmt: skip
SHARED = (
    "models/org/name/model.safetensors", "models/org/name/manifest.json", "models/tiny/manifest.json",
    "models/by_hand/model.safetensors", "datasets/d/manifest.json", "datasets/d/x.jsonl",
    "benchmarks/b/sealed/test.jsonl", "benchmarks/b/sealed/validation.jsonl", "benchmarks/b/validation.jsonl",
    "benchmarks/reads.jsonl",
    "benchmarks/.half.part/sealed/test.jsonl", "notes.txt",
)  # fmt: skip
GOES = (
    "models/.gone.part/model.safetensors",
    "models/org/.name2.part/x",
    "datasets/half/x.jsonl",
    "models/.tiny.work/c.jsonl",
)


def put(path: Path, text: str = BIG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (OLD, OLD))
    return path


def age(root: Path) -> None:
    """Everything was written long ago."""
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (OLD, OLD), follow_symlinks=False)


def experiment(number: int, outcome: str) -> Experiment:
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=9, parsed=100)
    return Experiment(
        number=number,
        hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
        score=None if outcome == "failed" else score,
        feedback=Feedback(promoted=outcome == "promoted", critique=Critique(explanation="e", lesson="l")),
    )


def read_journal(run: RunFolder) -> Journal:
    files = sorted(run.experiments.glob("*/experiment.json"))
    return Journal(experiments=tuple(Experiment.model_validate_json(f.read_text()) for f in files))


def make_run(home: Home, name: str, outcomes: list[str], *, over: bool, **asked: int) -> RunFolder:
    """Closed experiments by their outcomes, and one that is open."""
    run = home.run(name)
    for file in (
        *OF_RUN,
        *(["report.json"] if over else []),
        "baseline/work/evaluate/hf/x",
        "final/merged/m.safetensors",
    ):
        put(run.root / file)
    for number, outcome in enumerate([*outcomes, "open"], 1):
        folder = run.experiment(number)
        for file in (
            *EVIDENCE,
            "model/model.safetensors",
            "work/train/hf/x",
            "work/smoke_run_model/m",
            "work/build_data-1/d",
        ):
            put(folder.root / file)
        put(folder.root / ".scores.json.1.part")
        put(folder.jobs / "train.1" / "lock", "")
        if outcome == "open":
            idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="first")
            put(folder.hypothesis, idea.model_dump_json())
        else:
            put(folder.result, experiment(number, outcome).model_dump_json())
    put(run.lock, "")
    run.spec.unlink()
    write_manifest(run, RunSpec.model_validate({"benchmark": "b", "base_model": "m", **asked}))
    age(run.root)
    return run


def make_home(root: Path) -> Home:
    home = Home(root / "home")
    for file in (*SHARED, *GOES):
        put(home.root / file)
    put(home.datasets / ".half.lock", "")
    put(home.root / "cache" / "evaluations" / "ab" / "1.json")
    age(home.root)
    return home


@contextmanager
def holding(path: Path) -> Iterator[None]:
    with path.open("r+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def snapshot(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() or p.is_symlink()}


def clean(home: Home, **wanted: object) -> list[Removable]:
    found = find_removables(home, CleanupRequest(**wanted), read_journal)  # type: ignore[arg-type]
    for find in found:
        remove_found(find)
    return found


def test_weights_that_open_and_coming_experiments_begin_with_stay(tmp_path: Path) -> None:
    """Window 3: the next idea after 5 and the open 6 knows 1 to 4."""
    home = make_home(tmp_path)
    outcomes = ["promoted", "promoted", "not promoted", "promoted", "promoted"]
    run = make_run(home, "r", outcomes, over=False, parallel=2)
    idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="first", parent=1)
    put(run.experiment(6).hypothesis, idea.model_dump_json())
    clean(home)
    assert [n for n in range(1, 6) if (run.experiment(n).model / "model.safetensors").is_file()] == [1, 2, 4, 5]


def test_weights_that_a_recipe_begins_with_again_stay(tmp_path: Path) -> None:
    """With further seeds the last two promoted are trained once more: the second is a GRPO that began with the first."""
    home = make_home(tmp_path)
    run = make_run(home, "r", ["promoted", "promoted", "not promoted"], over=False, seeds=2)
    put(run.experiment(2).config, "stage: grpo\n")
    closed = experiment(2, "promoted")
    begun = closed.model_copy(update={"hypothesis": closed.hypothesis.model_copy(update={"parent": 1})})
    put(run.experiment(2).result, begun.model_dump_json())
    age(run.root)
    clean(home)
    assert [n for n in range(1, 4) if (run.experiment(n).model / "model.safetensors").is_file()] == [1, 2, 3]


RUN = st.fixed_dictionaries(
    {
        "outcomes": st.lists(st.sampled_from(["promoted", "not promoted", "failed"]), max_size=3),
        "over": st.booleans(),
        "alive": st.sampled_from(["no", "no", "orchestrator", "job"]),
    }
)


@given(runs=st.lists(RUN, max_size=3))
@settings(max_examples=15)
def test_what_must_stay_stays_on_any_home(tmp_path_factory: pytest.TempPathFactory, runs: list[dict[str, Any]]) -> None:
    root = tmp_path_factory.mktemp("clean")
    home = make_home(root)
    outside = put(root / "outside" / "model.safetensors")
    (home.models / "linked").symlink_to(outside.parent)
    stays, goes = {home.root / f for f in SHARED}, {home.root / f for f in GOES}
    with ExitStack() as held:
        for place, given_ in enumerate(runs):
            run = make_run(home, f"r{place}", given_["outcomes"], over=given_["over"])
            (run.root / "datasets").mkdir()
            (run.root / "datasets" / "d").symlink_to(outside.parent)
            everything = {home.root / f for f in snapshot(home.root) if f.startswith(f"runs/r{place}/")}
            if given_["alive"] == "orchestrator":
                held.enter_context(holding(run.lock))
            if given_["alive"] == "job":
                held.enter_context(holding(run.experiment(1).jobs / "train.1" / "lock"))
            lost = set() if given_["alive"] != "no" else may_go(run, given_["outcomes"], given_["over"])
            stays, goes = stays | everything - lost, goes | lost
        if all(given_["alive"] == "no" for given_ in runs):
            goes.add(home.root / "cache" / "evaluations" / "ab" / "1.json")
        clean(home)
        assert {p for p in stays if not p.exists() and not p.is_symlink()} == set()
        assert {p for p in goes if p.exists()} == set()
        assert clean(home) == [], "nothing is left to be found"
    assert outside.read_text() == BIG


def may_go(run: RunFolder, outcomes: list[str], over: bool) -> set[Path]:
    """Written down independently of the code: what the documents say goes."""
    best = max((n for n, o in enumerate(outcomes, 1) if o == "promoted"), default=0)
    last = 0 if over else len(outcomes)
    lost = {run.root / "final/merged/m.safetensors", run.root / "baseline/work/evaluate/hf/x"}
    for n in range(1, len(outcomes) + 2):
        folder = run.experiment(n).root
        lost |= {folder / ".scores.json.1.part", folder / "work/train/hf/x"}
        if n <= len(outcomes):
            lost.add(folder / "work/smoke_run_model/m")
            if n not in (best, last):
                lost |= {folder / "model/model.safetensors", folder / "work/build_data-1/d"}
            elif over:
                lost.add(folder / "work/build_data-1/d")
    return lost


def test_whole_runs_go_only_when_asked_and_old(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    old, new, busy = (make_run(home, name, ["not promoted"], over=True) for name in ("old", "new", "busy"))
    os.utime(new.report_json)
    with holding(busy.lock):
        found = clean(home, older=30 * 86400.0)
    assert [f.what for f in found if f.kind == "runs"] == ["runs/old"]
    assert (old.root.exists(), new.root.exists(), busy.root.exists()) == (False, True, True)
    assert (home.benchmarks / "reads.jsonl").exists()


def make_evaluation(home: Home, name: str) -> RunFolder:
    """As `tuneloop eval` leaves it."""
    place = RunFolder(home.evaluations / name)
    for file in ("evaluation.json", "work/evaluate/results.json", ".evaluation.json.1.part"):
        put(place.root / file)
    put(place.root / "benchmark_results" / "20260101_120000" / "summary" / "summary.csv")
    for lock in (place.lock, place.root / "jobs" / "evaluate.1" / "lock"):
        put(lock, "")
    return place


def test_evaluations_go_whole_and_only_when_asked_and_old(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    old, new, asked, busy = (make_evaluation(home, name) for name in ("old", "new", "asked", "busy"))
    age(home.evaluations)
    with holding(asked.lock), holding(busy.root / "jobs" / "evaluate.1" / "lock"):
        leftovers = [f for f in clean(home) if f.what.startswith("evaluations/")]
        assert {f.kind for f in leftovers} == {"leftovers"}
        assert [p.relative_to(home.evaluations).parts[0] for f in leftovers for p in f.paths] == ["new", "old"]
        assert list((old.root / "benchmark_results").rglob("*.csv"))
        os.utime(new.root / "benchmark_results")
        age(old.root.parent / "old")
        os.utime(old.root, (OLD, OLD))
        found = clean(home, older=30 * 86400.0)
    assert [f.what for f in found if f.kind == "evaluations"] == ["evaluations/old"]
    assert [p.root.exists() for p in (old, new, asked, busy)] == [False, True, True, True]


def test_an_evaluation_that_comes_to_life_is_spared(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    one = make_evaluation(home, "one")
    age(home.evaluations)
    found = [f for f in find_removables(home, CleanupRequest(older=86400.0), read_journal) if f.kind == "evaluations"]
    for lock in (one.lock, one.root / "jobs" / "evaluate.1" / "lock"):
        with holding(lock):
            assert [remove_found(f) for f in found] == [0]
    assert remove_found(found[0]) > 0 and not one.root.exists()


def test_one_run_is_cleaned_alone(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    one, other = (make_run(home, name, ["not promoted", "not promoted"], over=False) for name in ("one", "other"))
    before = snapshot(other.root)
    clean(home, run=one)
    assert not (one.experiment(1).model / "model.safetensors").exists()
    assert snapshot(other.root) == before
    assert all((home.root / f).exists() for f in (*GOES, *SHARED))


def test_who_comes_to_life_between_look_and_removal_is_spared(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    run = make_run(home, "r", ["not promoted", "promoted"], over=True)
    found = find_removables(home, CleanupRequest(run=run), read_journal)
    before = snapshot(run.root)
    with holding(run.lock):
        assert [remove_found(f) for f in found] == [0] * len(found)
    with holding(run.experiment(3).jobs / "train.1" / "lock"):
        assert [remove_found(f) for f in found] == [0] * len(found)
    assert snapshot(run.root) == before
    assert sum(map(remove_found, found)) > 0


def test_what_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    put(home.models / ".new.part" / "x")
    os.utime(home.models / ".new.part")
    with holding(put(home.models / ".gone.lock", "")):
        found = find_removables(home, CleanupRequest(), read_journal)
    names = {f.what for f in found}
    assert "models/.new.part" not in names, "a minute has not passed"
    assert "models/.gone.part" not in names, "its maker holds the lock"
    assert "models/org/.name2.part" in names


def test_engines(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    run = make_run(home, "r", [], over=False)
    for name in ("llamafactory-aaaa", "llamafactory-bbbb", "llamafactory-cccc"):
        put(home.engines / name / "bin" / "python", "")
        put(home.engines / f".{name}.lock", "")
    for name, identity in (("llamafactory-aaaa", "idaa"), ("llamafactory-bbbb", "idbb")):
        folder = home.engines / name
        told = (
            f'{{"name": "llamafactory", "version": "1", "identity": "{identity}", "folder": "{folder}", "readable": [],'
        )
        put(folder / "manifest.json", f'{told} "python": "{folder}/bin/python", "bin": "{folder}/bin"}}')
    put(run.setup, '{"versions": {"llamafactory": "1 (idaa)"}}')
    (home.engines / "opencompass-link").symlink_to(home.engines / "llamafactory-aaaa")
    age(home.root)
    builds = [f.what for f in find_removables(home, CleanupRequest(), read_journal) if "engines" in f.what]
    assert builds == ["engines/llamafactory-cccc"], "only the build without a manifest"
    found = [f for f in find_removables(home, CleanupRequest(engines=True), read_journal) if f.kind == "engines"]
    assert [f.what for f in found] == ["engines/llamafactory-bbbb"], "an open run names the other"
    with holding(home.engines / ".llamafactory-bbbb.lock"):
        assert [remove_found(f) for f in found] == [0]
    assert remove_found(found[0]) >= 0 and not (home.engines / "llamafactory-bbbb").exists()


def test_an_engine_that_another_home_needs_stays(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    one, two = Home(tmp_path / "one", shared), Home(tmp_path / "two", shared)
    folder = shared / "llamafactory-aaaa"
    engine = Engine("llamafactory", folder, Path(sys.executable), folder / "bin", (), "1", "idaa")
    put(shared / ".llamafactory-aaaa.lock", "")
    folder.mkdir()
    write_engine_manifest(engine, folder / "manifest.json")
    link_engine(two, folder)
    run = make_run(two, "r", [], over=False)
    put(run.setup, '{"versions": {"llamafactory": "1 (idaa)"}}')
    age(shared)
    assert find_removables(one, CleanupRequest(engines=True), read_journal) == []
    run.setup.unlink()
    (found,) = find_removables(one, CleanupRequest(engines=True), read_journal)
    assert found.what == str(folder)


def test_views_that_no_run_reads(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    run = make_run(home, "r", [], over=True)
    read, unread, made = (
        put(home.views / name / "rows" / "a.jsonl").parent.parent for name in ("aa11", "bb22", "cc33")
    )
    put(run.setup, f'{{"views": {{"d": "{read}/view.json"}}}}')
    age(home.root)
    with holding(put(home.views / ".cc33.lock", "")), holding(run.lock):
        assert not [f for f in clean(home) if f.what.startswith("views/")], "the run that lives may have asked for one"
    with holding(home.views / ".cc33.lock"):
        assert [f.what for f in clean(home) if f.what.startswith("views/")] == ["views/bb22"]
    assert [view.exists() for view in (read, unread, made)] == [True, False, True]


def test_a_kill_in_the_middle_leaves_what_the_next_call_finds(tmp_path: Path) -> None:
    """kill -9 while a run of 3000 files is removed."""
    home = make_home(tmp_path)
    run = make_run(home, "r", [], over=True)
    for n in range(3000):
        put(run.root / "best" / f"{n}.bin", "x")
    age(run.root)
    code = (
        "import sys; from pathlib import Path; from tuneloop.tools.housekeeping.disk import remove_path as remove\n"
        "print('go', flush=True); remove(Path(sys.argv[1]))"
    )
    p = subprocess.Popen([sys.executable, "-c", code, str(run.root)], stdout=subprocess.PIPE)
    assert p.stdout is not None and p.stdout.readline() == b"go\n"
    while run.root.exists():
        pass
    p.kill()
    p.wait()
    p.stdout.close()
    (left,) = home.runs.iterdir()
    assert left.name.startswith(".r.") and left.name.endswith(".part"), "no run any more, at no moment half of one"
    age(home.runs)
    assert f"runs/{left.name}" in {f.what for f in clean(home)}
    assert list(home.runs.iterdir()) == []


def test_a_home_that_is_not_there(tmp_path: Path) -> None:
    assert find_removables(Home(tmp_path / "none"), CleanupRequest(engines=True), read_journal) == []


def test_a_store_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    home, other = make_home(tmp_path / "a"), make_home(tmp_path / "b")
    shutil.rmtree(home.models)
    home.models.symlink_to(other.models)
    before = snapshot(other.root)
    clean(home)
    assert snapshot(other.root) == before
