"""A fork stands on its own feet: either run may be pruned or removed, and what is missing is refused in one line."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuneloop.cli.fork import parse_time
from tuneloop.cli.main import cli
from tuneloop.core.directive import Bound, Directive, Extend, Finish, Lasting, Use
from tuneloop.core.directive_log import append_row, read_directives
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis
from tuneloop.core.files import read_json, write_json, write_lines
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.tools.budget.spending import seconds_worked
from tuneloop.tools.housekeeping.pruning import prune_experiment
from tuneloop.tools.runs import fork
from tuneloop.tools.runs.evidence import HASHES, record_evidence
from tuneloop.tools.runs.fork import fork_budget, fork_run, read_fork, send_first_message
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.messages import waiting
from tuneloop.tools.runs.signature import write_signed_setup


@pytest.fixture
def home() -> Home:
    return load_settings().home


@pytest.fixture
def parent(home: Home, make_long_run: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Nine experiments, of which the seventh was promoted; every model holds a little."""
    monkeypatch.setattr(fork, "LINKED", 10)
    run = home.run("p")
    run.root.mkdir(parents=True)
    make_long_run(run, experiments=9, progress=1)
    write_manifest(run, RunSpec(benchmark="b", base_model="m", loop_n=4, timeout=3600))
    for number in range(1, 10):
        write_json(run.experiment(number).model / "model.safetensors", "weights of " + str(number))
        record_evidence(run, run.experiment(number).root)
    record_evidence(run, run.baseline)
    write_signed_setup(run, "{}")
    (run.root / "datasets").mkdir()
    (run.root / "datasets" / "d").symlink_to(home.root)
    return run


def made(home: Home, parent: RunFolder, at: int, name: str | None = None) -> RunFolder:
    return fork_run(home, parent, at, name, loop_n=None, timeout=None)


def test_it_has_what_it_stands_on_and_goes_on_after_it(home: Home, parent: RunFolder) -> None:
    run = made(home, parent, 8)
    assert (run.id, read_fork(run).run, read_fork(run).at) == ("p-at-8", "p", 8)
    assert [e.number for e in load_journal(run).experiments] == [*range(1, 9)]
    spent = 5 + 8 * 80
    assert (read_spec(run).loop_n, read_spec(run).timeout) == (12, 3600 + spent)
    found = rebuild(run, load_settings())
    assert (found.stage, found.experiment, found.spent) == ("research", 8, spent)
    assert (run.root / "datasets" / "d").readlink() == home.root
    assert not run.events.exists()
    send_first_message(run, "use lora_rank=32")
    assert [read_json(file)["text"] for file in waiting(run.inbox)] == ["use lora_rank=32"]
    again = fork_run(home, run, 8, None, loop_n=1, timeout=60)
    assert (again.id, read_fork(again).before) == ("p-at-8-at-8", ("p",))
    assert (read_spec(again).loop_n, read_spec(again).timeout) == (9, spent + 60)
    assert made(home, parent, 8).id == "p-at-8-2"
    assert not list(home.runs.glob(".*"))


def test_a_fork_of_a_fork_is_given_what_the_first_was_given(home: Home, parent: RunFolder) -> None:
    first = fork_run(home, parent, 5, None, loop_n=1, timeout=600)
    spent = 5 + 5 * 80
    assert (read_spec(first).loop_n, read_spec(first).timeout) == (6, spent + 600)
    second = fork_run(home, first, 5, None, loop_n=None, timeout=None)
    assert (read_spec(second).loop_n, read_spec(second).timeout) == (6, spent + 600)
    endless = fork_run(home, first, 5, None, loop_n=2, timeout=math.inf)
    assert (read_spec(endless).loop_n, read_spec(endless).timeout) == (7, None)


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("unlimited", math.inf), ("0", math.inf), ("90m", 5400)])
def test_no_time_is_another_thing_than_no_limit(text: str | None, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_trainings_with_further_seeds_are_not_carried_over(home: Home, parent: RunFolder) -> None:
    """Their weights are gone, but for the delivered one's: the fork trains its own."""
    write_json(parent.experiment(7).root / "seeds" / "2" / "scores.json", {})
    run = made(home, parent, 8)
    assert run.experiment(7).result.is_file()
    assert not (run.experiment(7).root / "seeds").exists()


def opened(home: Home, run: RunFolder) -> None:
    """The run's sealed test was opened, as `finish` notes it."""
    write_lines(home.benchmarks / "reads.jsonl", [{"test": "a split", "run": run.id}])


def test_number_of_validation_items_is_carried_over(home: Home, parent: RunFolder) -> None:
    chosen = {"limit": 500, "why": "measuring takes about 80 s"}
    write_json(parent.validation, chosen)
    record_evidence(parent, parent.baseline)
    assert read_json(made(home, parent, 3).validation) == chosen


def test_run_that_opened_its_test_is_forked_with_after_test_only(home: Home, parent: RunFolder) -> None:
    early = made(home, parent, 2)
    opened(home, parent)
    for at in (0, 9):
        with pytest.raises(
            InvalidRequestError, match=r"run p has opened its sealed test.*--after-test.*claims nothing"
        ) as told:
            made(home, parent, at)
        assert "\n" not in str(told.value)
    assert sorted(p.name for p in home.runs.iterdir()) == ["p", early.id], "a refused fork leaves nothing"
    run = fork_run(home, parent, 9, None, loop_n=1, timeout=None, after_test=True)
    assert read_fork(run).run == "p"


def test_lineage_that_opened_its_test_stays_opened(home: Home, parent: RunFolder) -> None:
    """The fork of a fork, though neither of them has opened anything itself."""
    before = made(home, parent, 3)
    opened(home, parent)
    run = fork_run(home, parent, 3, None, loop_n=None, timeout=None, after_test=True)
    for later in (run, before):
        with pytest.raises(
            InvalidRequestError, match=f"run {later.id}, or one that it stands on, has opened .*--after-test"
        ):
            made(home, later, 3)
    again = fork_run(home, run, 3, None, loop_n=None, timeout=None, after_test=True)
    assert read_fork(again).before == ("p",)
    with pytest.raises(InvalidRequestError, match="--after-test"):
        made(home, again, 0)


def test_fork_through_the_command_line(home: Home, parent: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneloop.cli.drive.drive_in_terminal", lambda *_, **__: 0)
    opened(home, parent)
    refused = CliRunner().invoke(cli, ["fork", "p", "--at", "3"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "--after-test" in refused.stderr
    went = CliRunner().invoke(cli, ["fork", "p", "--at", "3", "--after-test"])
    assert went.exit_code == 0, went.output
    assert home.run("p-at-3").fork.is_file()


def test_either_may_be_removed(home: Home, parent: RunFolder) -> None:
    run = made(home, parent, 8)
    weights = run.experiment(7).model / "model.safetensors"
    assert weights.stat().st_nlink == 2, "large files are shared"
    prune_experiment(parent.experiment(7), weights=True, raw=True, rule="best")
    shutil.rmtree(parent.root)
    assert read_json(weights) == "weights of 7"
    assert len(load_journal(run).experiments) == 8


def test_missing_needed_file_is_one_line(home: Home, parent: RunFolder) -> None:
    prune_experiment(parent.experiment(7), weights=True, raw=True, rule="best")
    with pytest.raises(
        InvalidRequestError, match=r"experiment 7, whose weights were pruned .*right is one of 0, 1, 2, 3, 4, 5, 6"
    ):
        made(home, parent, 8)
    assert made(home, parent, 6).id == "p-at-6"
    with pytest.raises(InvalidRequestError, match="right is 0 to 9"):
        made(home, parent, 10)
    with pytest.raises(InvalidRequestError, match="exists"):
        made(home, parent, 1, "p")
    (parent.baseline / "scores.json").unlink()
    with pytest.raises(InvalidRequestError, match="not measured its base model"):
        made(home, parent, 0)
    assert sorted(p.name for p in home.runs.iterdir()) == ["p", "p-at-6"]


def test_what_holds_in_every_experiment_holds_in_the_fork(home: Home, parent: RunFolder) -> None:
    commands: tuple[Lasting, ...] = (
        Extend(experiments=3),
        Bound(parameter="learning_rate", at_most=1e-4),
        Finish(),
        Use(parameter="lora_rank", value=32),
        Use(parameter="seed", value=2, always=True),
    )
    for number, command in enumerate(commands, 1):
        append_row(parent.directives, Directive(id=str(number), text=command.kind, command=command))
    run = made(home, parent, 2)
    assert [(d.id, d.command.kind) for d in read_directives(run.directives)] == [("1", "bound"), ("2", "use")]


def test_on_a_disk_without_links_it_copies(home: Home, parent: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refused)
    run = made(home, parent, 7)
    assert (run.experiment(7).model / "model.safetensors").stat().st_nlink == 1


CHANGES: dict[str, Callable[[RunFolder], object]] = {
    "weights": lambda r: write_json(r.experiment(2).model / "model.safetensors", "weights of 3"),
    "weights of the same size and time": lambda r: same_stat(r.experiment(2).model / "model.safetensors"),
    "result": lambda r: write_json(r.experiment(1).result, read_json(r.experiment(1).result) | {"seconds": 1.0}),
    "score": lambda r: write_json(r.experiment(1).scores, {}),
    "a further file": lambda r: write_json(r.experiment(1).model / "tokenizer.json", {}),
    "a link": lambda r: (r.experiment(1).model / "config.json").symlink_to("/etc/passwd"),
    "a linked folder": lambda r: r.experiment(1).data.symlink_to("/etc"),
    "baseline": lambda r: write_json(r.baseline / "scores.json", {}),
    "a file that is gone": lambda r: (r.baseline / "spent.json").unlink(),
    "hashes": lambda r: write_json(r.experiment(1).root / HASHES, {"files": {}, "signature": ""}),
    "no hashes": lambda r: (r.experiment(1).root / HASHES).unlink(),
}


def same_stat(file: Path) -> None:
    """Change a file and set its clock back."""
    seen = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_after_its_end_is_refused(
    home: Home, parent: RunFolder, change: Callable[[RunFolder], object]
) -> None:
    change(parent)
    with pytest.raises(InvalidRequestError, match=r"put it back, or fork from before it") as told:
        made(home, parent, 3)
    assert "\n" not in str(told.value)
    assert [p.name for p in home.runs.iterdir()] == ["p"], "a refused fork leaves nothing"


def test_evidence_that_another_home_signed_is_no_evidence(home: Home, parent: RunFolder) -> None:
    home.key.unlink()
    write_manifest(parent, read_spec(parent))
    write_signed_setup(parent, "{}")
    with pytest.raises(InvalidRequestError, match="was not written by this home"):
        made(home, parent, 3)


def test_pruned_weights_are_no_change(home: Home, parent: RunFolder) -> None:
    prune_experiment(parent.experiment(2), weights=True, raw=True, rule="best")
    assert made(home, parent, 3).experiment(2).result.is_file()


def test_a_parent_of_another_home_is_refused(home: Home, parent: RunFolder) -> None:
    parent.signature.unlink()
    with pytest.raises(InvalidRequestError, match="was not made by this home"):
        made(home, parent, 3)


def test_fork_of_a_run_side_by_side_has_its_whole_timeout(tmp_path: Path) -> None:
    """The limit counts from what the fork stands on: preparation and experiments, as what it has worked does."""
    run = Home(tmp_path).run("f")
    write_json(run.baseline / "spent.json", {"seconds": 30.0})
    made = Experiment(
        number=1,
        hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="rate"),
        feedback=Feedback(promoted=False, critique=Critique(explanation="", lesson="")),
        seconds=100.0,
    )
    write_json(run.experiment(1).result, made.model_dump(mode="json"))
    write_json(run.fork, {"run": "parent", "at": 1, "before": []})
    for parallel in (1, 2):
        spec = RunSpec(benchmark="b", base_model="m", timeout=1000, parallel=parallel)
        write_manifest(run, fork_budget(spec, run, load_journal(run), None, 60))
        assert (read_spec(run).timeout or 0) - seconds_worked(run) == 60
