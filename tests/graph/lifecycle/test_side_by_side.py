"""Experiments side by side, with nodes that sleep in place of jobs: who is first changes nothing, and nothing is lost."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import interrupt

from tests import ray_cluster, slurm_cluster
from tuneloop.core.async_bridge import pause
from tuneloop.core.budget import SpendingLine
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import NodeStarted
from tuneloop.core.experiment import (
    ApprovalDecision,
    ApprovalRequest,
    Critique,
    Experiment,
    Failure,
    Feedback,
    Hypothesis,
)
from tuneloop.core.files import read_model, write_json
from tuneloop.core.job import Command, Sandbox
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph import build
from tuneloop.graph.checkpoints.store import open_checkpoints
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle import side_by_side
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.graph.nodes import critique, research
from tuneloop.graph.outcomes.repair import give_up, record_failure
from tuneloop.graph.state import NodeFailure, State
from tuneloop.graph.steering.inbox_listener import raise_if_paused
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.tools.budget.limits import budget_extensions
from tuneloop.tools.budget.spending import seconds_worked
from tuneloop.tools.jobs import gpu_share
from tuneloop.tools.jobs.gpu_share import assigned
from tuneloop.tools.runs.approvals import find_decision, open_question, write_decision, write_question
from tuneloop.tools.runs.journal import load_journal, open_hypotheses, planned_from
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.messages import put
from tuneloop.tools.runs.status import open_experiments

from ..conftest import score

SHORT = 0.05


@dataclass
class World:
    """What the stand-ins do: how long each experiment trains, what it raises, from which one on the researcher stops."""

    seconds: dict[int, float] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    stops_after: int = 1000
    usual: float = SHORT
    says: dict[int, str] = field(default_factory=dict)  # what somebody says half-way through the training
    trained: list[int] = field(default_factory=list)
    nodes: Sandbox | None = None  # of a cluster, where jobs sleep

    def train(self, ctx: Context) -> dict[str, Any]:
        """Sleep; an error comes once."""
        number = ctx.number
        self.trained.append(number)
        took = self.seconds.get(number, self.usual)
        if self.nodes:
            work = ctx.folder.root / "work"
            work.mkdir(exist_ok=True)
            command = Command(argv=("/bin/sleep", str(took)), cwd=str(work), write=(str(work),))
            assert wait(self.nodes, launch(self.nodes, ctx.folder.jobs, "train", command)).ok
            return {"stage": "evaluate"}
        until = time.monotonic() + took
        while time.monotonic() < until:
            if until - time.monotonic() < took / 2 and number in self.says:
                put(ctx.run.inbox, do="say", text=self.says.pop(number))
            raise_if_paused(ctx)
            pause(0.01)
        if number in self.errors:
            raise self.errors.pop(number)
        return {"stage": "evaluate"}

    def propose(self, ctx: Context, *_: object) -> Hypothesis:
        """An idea that says what its author knew."""
        known = [f"{e.number}:{e.outcome}" for e in ctx.journal.experiments]
        stop = len(known) >= self.stops_after
        return Hypothesis(statement=f"{ctx.number} knows {known}", reason="r", disproof="d", aspect="rate", stop=stop)


def evaluate(ctx: Context) -> dict[str, Any]:
    """A score that follows from the idea."""
    idea = read_model(ctx.folder.hypothesis, Hypothesis)
    write_json(ctx.folder.scores, score(sum(map(ord, idea.statement)) * 7 % 90).model_dump(mode="json"))
    return {"stage": "critique"}


def close_experiment(ctx: Context) -> None:
    """Promote what is better than the incumbent of this moment."""
    best = load_journal(ctx.run).best
    found = read_model(ctx.folder.scores, type(score(1))) if ctx.folder.scores.is_file() else None
    told = ctx.state.failure
    made = Experiment(
        number=ctx.number,
        hypothesis=read_model(ctx.folder.hypothesis, Hypothesis),
        score=found,
        failure=Failure(node=told.node, culprit=told.culprit, text=told.text) if told and not found else None,
        repairs=ctx.state.attempt,
        feedback=Feedback(
            promoted=bool(found and (best is None or best.score is None or found.value > best.score.value)),
            critique=Critique(explanation="", lesson=f"after {best.number if best else 0}"),
        ),
    )
    write_json(ctx.folder.result, made.model_dump(mode="json"))


def finish(ctx: Context) -> dict[str, Any]:
    """The end."""
    ctx.run.final.mkdir(exist_ok=True)
    write_json(ctx.run.report_json, {})
    return {"stage": "__end__"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The graph's nodes but `research` and `critique`, replaced."""
    made = World()

    def then(stage: str) -> Callable[[Context], dict[str, Any]]:
        return lambda _: {"stage": stage}

    names = ["engineer_data", "write_config", "validate", "build_data", "smoke_run", "train"]
    steps = {name: then(following) for name, following in pairwise(names)}
    nodes = {**steps, "prepare": then("research"), "train": made.train, "evaluate": evaluate, "finish": finish}
    for name, node in nodes.items():
        monkeypatch.setitem(build.NODES, name, (node, give_up, build.NODES[name][2]))
    monkeypatch.setattr(research, "run_agent", made.propose)
    monkeypatch.setattr(research, "build_brief", lambda *_, **__: None)
    monkeypatch.setattr(research, "journal_failures", lambda _: ())
    monkeypatch.setattr(critique, "close_experiment", close_experiment)
    monkeypatch.setattr(critique, "complete_uses", lambda _: None)
    return made


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., tuple[RunFolder, Settings]]:
    """`make_run("name", parallel=2, loop_n=6)`."""
    settings = Settings(FT_FILE_PATH=tmp_path)

    def make(name: str, **asked: Any) -> tuple[RunFolder, Settings]:
        run = settings.home.run(name)
        write_manifest(run, RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "tiny", **asked}))
        return run, settings

    return make


def journal(run: RunFolder) -> list[dict[str, Any]]:
    """Without times."""
    return [e.model_dump(mode="json", exclude={"seconds"}) for e in load_journal(run).experiments]


@pytest.fixture
def timed(world: World, make_run) -> Callable[..., float]:
    """Seconds that a run of four experiments took, each of which trains so long."""

    def made(name: str, seconds: float, **asked: int) -> float:
        world.usual = seconds
        run, settings = make_run(name, loop_n=4, **asked)
        began = time.monotonic()
        assert drive(run, settings).state == "finished"
        assert len(load_journal(run).experiments) == 4
        took = time.monotonic() - began
        assert seconds < seconds_worked(run) <= took, "time is what passed, however many worked"
        return took

    return made


@pytest.mark.slow
def test_four_slots_are_four_times_as_fast(timed: Callable[..., float]) -> None:
    """Without the loop's own work, which a busy machine stretches: as much of it as four experiments need when nobody sleeps."""
    sleep = 40.0
    own = timed("awake", 0.0)
    beside = timed("beside", sleep, parallel=4)
    assert 4 * sleep / (beside - own) >= 0.9 * 4, (own, beside)


@pytest.mark.soak
@pytest.mark.parametrize("module", [slurm_cluster, ray_cluster], ids=["slurm", "ray"])
def test_four_jobs_on_nodes_are_four_times_as_fast(
    world: World, timed: Callable[..., float], module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one at a time there; again without the loop's own work on this machine."""
    if absent := module.missing():
        pytest.skip(f"not there: {absent}")
    own, sleep = timed("awake", 0.0), 60.0
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place, module.cluster(Path(place) / "c") as nodes:
        if isinstance(nodes, ray_cluster.Cluster):
            nodes.grant("late")  # four cores
        for name, value in nodes.env.items():
            monkeypatch.setenv(name, value)
        world.nodes = open_executor(nodes.executor, BubblewrapSandbox(), Settings())
        beside, alone = timed("beside", sleep, parallel=4), timed("alone", sleep)
    print(f"{nodes.executor}: {alone:.1f} s one at a time, {beside:.1f} s beside, {own:.1f} s own work")  # noqa: T201
    assert (alone - own) / (beside - own) >= 0.9 * 4, (own, beside, alone)


def test_journal_does_not_depend_on_who_was_first(world: World, make_run) -> None:
    found = []
    for name, slow in (("even", {}), ("first", {1: 0.6, 5: 0.6}), ("second", {2: 0.8, 3: 0.3})):
        world.seconds = slow
        run, settings = make_run(name, parallel=2, loop_n=7)
        assert drive(run, settings).state == "finished"
        found.append(journal(run))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 7
    statements = [e["hypothesis"]["statement"] for e in found[0]]
    assert statements[0:3] == [f"{n} knows []" for n in (1, 2, 3)]
    assert statements[3].startswith("4 knows ['1:") and "2:" not in statements[3]


def test_graph_that_is_called_by_hand_writes_the_same_journal(world: World, make_run) -> None:
    run, settings = make_run("beside", parallel=2, loop_n=5)
    drive(run, settings)
    alone, settings = make_run("alone", parallel=2, loop_n=5)
    with open_checkpoints(alone, None) as store:
        build.build_graph(settings).compile(checkpointer=store.saver).invoke(State(run_id="alone"), store.config)
    assert journal(alone) == journal(run)
    assert sorted(world.trained) == sorted([*range(1, 6)] * 2)


def test_one_experiment_at_a_time_frees_disk(world: World, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is closed as soon as the result of the one before is written, and both prune the same folders then."""
    at_once, most = list[int](), list[int]()

    def prune(*_: object) -> None:
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.5)
        at_once.pop()

    monkeypatch.setattr(critique, "prune_run", prune)
    run, settings = make_run("r", parallel=3, loop_n=4)
    assert drive(run, settings).state == "finished"
    assert set(most) == {1}


def test_failed_experiment_frees_its_slot(world: World, make_run) -> None:
    world.errors = {2: RecipeError("the loss is not finite", culprit="config")}
    world.seconds = {1: 1.0}
    run, settings = make_run("r", parallel=2, loop_n=4)
    assert drive(run, settings).state == "finished"
    outcomes = [e.outcome for e in load_journal(run).experiments]
    assert outcomes[1] == "failed" and len(outcomes) == 4
    began = [
        e.experiment
        for e in iter_events(run.events, "node_started")
        if isinstance(e, NodeStarted) and e.node == "train"
    ]
    closed = [
        e.experiment
        for e in iter_events(run.events, "node_started")
        if isinstance(e, NodeStarted) and e.node == "critique"
    ]
    assert began.index(3) < 3 and closed == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_run_goes_on_with_all_that_were_open(world: World, make_run, broken: int) -> None:
    whole, settings = make_run("whole", parallel=2, loop_n=5)
    drive(whole, settings)
    run, settings = make_run("r", parallel=2, loop_n=5)
    world.errors, world.trained = {broken: InfrastructureError("the disk is full")}, []
    world.seconds = {broken: 0.3}
    with pytest.raises(InfrastructureError, match="disk"):
        drive(run, settings)
    assert len(load_journal(run).experiments) < 5
    assert drive(run, settings).state == "finished"
    assert journal(run) == journal(whole)


def test_lost_checkpoints_are_rebuilt_from_files(world: World, make_run) -> None:
    whole, settings = make_run("whole", parallel=3, loop_n=5)
    drive(whole, settings)
    run, settings = make_run("r", parallel=3, loop_n=5)
    world.errors = {2: InfrastructureError("the disk is full")}
    with pytest.raises(InfrastructureError):
        drive(run, settings)
    for file in run.root.glob("checkpoint.sqlite*"):
        file.unlink()
    assert drive(run, settings).state == "finished"
    assert journal(run) == journal(whole)


def test_pause_stops_every_slot(world: World, make_run) -> None:
    run, settings = make_run("r", parallel=3, loop_n=3)
    world.usual = 30.0
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(drive, run, settings)
        while len(world.trained) < 3:
            time.sleep(0.05)
        shown = open_experiments(run, load_journal(run))
        put(run.inbox, do="pause")
        assert session.result(timeout=20).state == "paused"
    assert [(one.number, one.place, one.ended) for one in shown] == [(n, "at train", None) for n in (1, 2, 3)]
    assert all(one.statement and one.seconds is not None for one in shown)
    paused = open_experiments(run, load_journal(run))
    assert [(one.number, one.place, one.seconds) for one in paused] == [(n, "at train", None) for n in (1, 2, 3)]
    world.usual = SHORT
    assert drive(run, settings).state == "finished"
    assert sorted(world.trained) == [1, 1, 2, 2, 3, 3]
    assert open_experiments(run, load_journal(run)) == ()


def test_steps_are_counted_over_all_slots(world: World, make_run) -> None:
    run, settings = make_run("r", parallel=2, loop_n=2)
    assert drive(run, settings, step_n=1).state == "paused"  # `prepare`
    assert drive(run, settings, step_n=5).reason == "5 nodes done"
    while drive(run, settings, step_n=5).state == "paused":
        pass
    assert len(load_journal(run).experiments) == 2 and sorted(world.trained) == [1, 2]


def test_stop_ends_all_nodes_after_the_steps_that_were_wanted(world: World, make_run) -> None:
    run, settings = make_run("r", parallel=3, loop_n=3)
    world.seconds = {1: 1.0, 2: 60.0, 3: 60.0}
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(drive, run, settings, step_n=21)  # one in `prepare`, the last is `evaluate` of 1
        while not run.experiment(1).scores.is_file() and not session.done():
            time.sleep(0.05)
        time.sleep(1.0)
        put(run.inbox, do="pause")
        assert session.result(timeout=20).reason == "20 nodes done"
    world.seconds = {}
    assert drive(run, settings).state == "finished"
    assert len(load_journal(run).experiments) == 3


def test_error_after_the_steps_that_were_wanted_is_raised(world: World, make_run) -> None:
    run, settings = make_run("r", parallel=3, loop_n=3)
    world.seconds, world.errors = {1: 1.0, 2: 3.0, 3: 60.0}, {2: InfrastructureError("the disk is full")}
    with pytest.raises(InfrastructureError, match="the disk is full"):
        drive(run, settings, step_n=21)
    assert run.experiment(1).scores.is_file(), "the steps were done before"


def test_researcher_who_stops_early_is_asked_again_when_all_is_known(world: World, make_run) -> None:
    world.stops_after = 2
    run, settings = make_run("r", parallel=2)
    assert drive(run, settings).state == "finished"
    # Experiment 5 is the first whose author knows two results; told of four it is to say it again.
    assert len(load_journal(run).experiments) == 4
    assert run.stop.is_file()


def test_question_of_one_stops_no_other(world: World, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, settings = make_run("whole", parallel=2, loop_n=4)
    drive(whole, settings)
    asked = list[int]()

    def build_data(ctx: Context) -> dict[str, Any]:
        if ctx.number == 2 and not asked:
            asked.append(2)
            interrupt({"question": "more?"})
        return {"stage": "smoke_run"}

    monkeypatch.setitem(build.NODES, "build_data", (build_data, give_up, build.NODES["build_data"][2]))
    run, settings = make_run("r", parallel=2, loop_n=4)
    outcome = drive(run, settings)
    assert (outcome.state, outcome.asks, outcome.question) == ("paused", True, "more?")
    assert len(load_journal(run).experiments) == 1, "2 waits for an answer, and who began later for 2"
    assert run.experiment(3).scores.is_file() and run.experiment(4).scores.is_file()
    assert drive(run, settings).state == "finished"
    assert journal(run) == journal(whole)


def test_answered_question_is_gone_on_from_where_it_was_asked(
    world: World, make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a repair: what was answered is the recipe of attempt 1, and no node before runs again."""
    seen = list[tuple[str, int]]()

    def smoke_run(ctx: Context) -> dict[str, Any]:
        seen.append(("smoke_run", ctx.state.attempt))
        if ctx.number == 2 and not ctx.state.attempt:
            failed = NodeFailure(node="smoke_run", culprit="config", text="too large", leads="write_config")
            return {**record_failure(ctx, failed), "attempt": 1}
        return {"stage": "train"}

    def train(ctx: Context) -> dict[str, Any]:
        seen.append(("train", ctx.state.attempt))
        asked = ApprovalRequest(at="launch", experiment=ctx.number, key=f"k{ctx.state.attempt}", text="?")
        if ctx.number == 2 and find_decision(ctx.folder, "launch", asked.key) is None:
            write_question(ctx.folder, asked)
            interrupt({"question": ""})
        if ctx.number == 1:
            while not (question := open_question(ctx.run)):
                pause(0.01)
            pause(1.0)  # the thread of 2 is over
            write_decision(ctx.run.experiment(2), "launch", question.key, ApprovalDecision(decision="yes"))
        return world.train(ctx)

    for name, node in (("smoke_run", smoke_run), ("train", train)):
        monkeypatch.setitem(build.NODES, name, (node, give_up, build.NODES[name][2]))
    world.seconds = {1: 2.0}
    run, settings = make_run("r", parallel=2, loop_n=2)
    assert drive(run, settings).state == "finished"
    assert sorted(seen) == [
        ("smoke_run", 0),
        ("smoke_run", 0),
        ("smoke_run", 1),
        ("train", 0),
        ("train", 1),
        ("train", 1),
    ]
    assert [e.repairs for e in load_journal(run).experiments] == [0, 1]


def test_damaged_checkpoint_of_one_experiment_is_rebuilt_from_its_files(world: World, make_run) -> None:
    whole, settings = make_run("whole", parallel=2, loop_n=4)
    drive(whole, settings)
    run, settings = make_run("r", parallel=2, loop_n=4)
    world.errors, world.seconds = {2: InfrastructureError("the disk is full")}, {1: 30.0, 2: 0.5}
    with pytest.raises(InfrastructureError):
        drive(run, settings)
    with sqlite3.connect(run.checkpoint) as connection:
        (stored,) = connection.execute("SELECT count(*) FROM checkpoints WHERE thread_id = 'r/2'").fetchone()
        connection.execute("UPDATE checkpoints SET checkpoint = zeroblob(100) WHERE thread_id = 'r/2'")
    connection.close()
    world.seconds = {}
    assert stored and drive(run, settings).state == "finished"
    assert journal(run) == journal(whole)


def test_experiment_begins_on_a_gpu_that_no_other_holds(
    world: World, make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experiment 2 waits for an answer and keeps its GPU: 3 takes that of 1, and 4 that of 3, one after another."""
    seen = dict[int, list[int]]()

    def train(ctx: Context) -> dict[str, Any]:
        seen[ctx.number] = assigned(ctx.folder.root)
        if ctx.number == 2 and not run.experiment(4).scores.is_file():
            interrupt({"question": ""})
        return world.train(ctx)

    monkeypatch.setitem(build.NODES, "train", (train, give_up, build.NODES["train"][2]))
    monkeypatch.setattr(gpu_share, "gpu_memory", lambda: {0: 1, 1: 1})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for place in (gpu_share, side_by_side):
        monkeypatch.setattr(place, "find_device", lambda: "cuda")
    world.seconds = {1: 0.5}
    run, settings = make_run("r", parallel=2, loop_n=5)
    write_question(run.experiment(2), ApprovalRequest(at="launch", experiment=2, key="k", text="?"))
    assert drive(run, settings).asks
    assert seen == {1: [0], 2: [1], 3: [0], 4: [0]}
    write_decision(run.experiment(2), "launch", "k", ApprovalDecision(decision="yes"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(InvalidRequestError, match="needs a GPU of its own"):
        drive(run, settings)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert drive(run, settings).state == "finished"
    assert seen.keys() == {1, 2, 3, 4, 5} and all(len(gpus) == 1 for gpus in seen.values())


def test_experiments_that_are_granted_while_the_last_ones_train_are_run(world: World, make_run) -> None:
    world.seconds, world.says = {2: 4.0}, {2: "more 2 experiments"}
    run, settings = make_run("r", parallel=2, loop_n=2)
    assert drive(run, settings).state == "finished"
    assert len(load_journal(run).experiments) == 4


def test_what_is_set_aside_for_open_experiments_ends_no_run(
    world: World, make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(ctx: Context) -> list[SpendingLine]:
        return [SpendingLine("money", 1.0, 2.0)] if open_hypotheses(ctx.run) else []

    monkeypatch.setattr(side_by_side, "missing_limits", short)
    run, settings = make_run("r", parallel=2, loop_n=3)
    assert drive(run, settings, interactive=True).state == "finished"
    assert len(load_journal(run).experiments) == 3


def test_limit_that_is_short_at_the_end_is_asked_about(world: World, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "missing_limits", lambda _: [SpendingLine("money", 1.0, 2.0)])
    run, settings = make_run("r", parallel=2, loop_n=3)
    outcome = drive(run, settings, interactive=True)
    assert outcome.asks and "money: 1.00 of 2.00 USD" in outcome.question


def test_question_about_limits_is_looked_at_again_when_they_move(
    world: World, make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_data(ctx: Context) -> dict[str, Any]:
        if ctx.number == 2 and not budget_extensions(ctx.run):
            interrupt({"question": "more?"})
        return {"stage": "smoke_run"}

    monkeypatch.setitem(build.NODES, "build_data", (build_data, give_up, build.NODES["build_data"][2]))
    world.seconds, world.says = {1: 3.0}, {1: "more 1h"}
    run, settings = make_run("r", parallel=2, loop_n=2, timeout="1d")
    assert drive(run, settings).state == "finished"
    assert len(load_journal(run).experiments) == 2


def test_weights_stay_as_long_as_an_open_or_coming_experiment_may_begin_with_them(make_run) -> None:
    """Window 3: 5 is closed, 6 and 7 are open; 8 is planned with the results of 1 to 5, 6 and 7 were with fewer."""
    run, _ = make_run("r", parallel=2)
    for number, promoted in ((1, True), (2, False), (3, True), (4, True), (5, True)):
        made = Experiment(
            number=number,
            hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="rate"),
            score=score(number),
            feedback=Feedback(promoted=promoted, critique=Critique(explanation="", lesson="")),
        )
        write_json(run.experiment(number).result, made.model_dump(mode="json"))
    for number, parent in ((6, 2), (7, None)):
        idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="rate", parent=parent)
        write_json(run.experiment(number).hypothesis, idea.model_dump(mode="json"))
    assert planned_from(run, load_journal(run), read_spec(run).window) == {2, 3, 4, 5}


def test_every_open_experiment_may_have_a_question(make_run) -> None:
    run, _ = make_run("r", parallel=3)
    for number in (2, 3):
        asked = ApprovalRequest(at="plan", experiment=number, key=str(number), text="carry out?")
        write_question(run.experiment(number), asked)
        write_json(run.experiment(number + 1).hypothesis, {})
    assert (found := open_question(run)) and found.experiment == 3
    write_decision(run.experiment(3), "plan", "3", ApprovalDecision(decision="yes"))
    assert (found := open_question(run)) and found.experiment == 2
    write_json(run.experiment(2).result, {})
    assert open_question(run) is None


def test_one_at_a_time_has_no_thread_of_its_own(world: World, make_run) -> None:
    run, settings = make_run("r", loop_n=2)
    assert drive(run, settings).state == "finished"
    assert [e.hypothesis.statement for e in load_journal(run).experiments][1].startswith("2 knows ['1:")
    with open_checkpoints(run, None) as store:
        threads = {found.config["configurable"]["thread_id"] for found in store.saver.list(None)}
    assert threads == {"r"}
