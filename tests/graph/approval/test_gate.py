"""A person is asked before a plan is carried out or a training launched: asked once, answered in many forms, never lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from tuneloop.core.directive import Approve, Directive
from tuneloop.core.directive_log import append_row
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import Approval
from tuneloop.core.experiment import ApprovalDecision, Forecast, Hypothesis, Step
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.approval.gate import asks
from tuneloop.graph.approval.proposal import understood
from tuneloop.graph.build import next_stage
from tuneloop.graph.checkpoints.store import open_checkpoints
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.graph.nodes.engineer_data import engineer_data
from tuneloop.graph.nodes.write_config import write_config
from tuneloop.graph.outcomes.repair import repair
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import answer_offline
from tuneloop.graph.step import step
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import answer, say

IDEA = Hypothesis(
    statement="train longer",
    reason="loss still falls",
    disproof="no gain",
    aspect="underfit",
    data_plan=(Step(do="drop_contradicted", why="noise"),),
    training_plan={"num_train_epochs": 4},
)
CONFIG: RunnableConfig = {"configurable": {"thread_id": "r1"}}


@pytest.fixture
def run() -> RunFolder:
    """An experiment whose recipe is written."""
    made = load_settings().home.run("r1")
    write_manifest(made, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=3, timeout=7200, approve="plan"))
    write_json(made.setup, {})
    write_json(made.baseline / "scores.json", {})
    write_json(made.baseline / "spent.json", {"seconds": 5.0})
    folder = made.experiment(1)
    write_json(folder.hypothesis, IDEA.model_dump(mode="json"))
    write_json(folder.answers / "data_engineer.0.json", {"code": "print()"})
    write_json(folder.answers / "config_coder.0.json", {"yaml": "a: 1\n"})
    folder.script.write_text("print()")
    folder.config.write_text("a: 1\n")
    return made


def graph(saver: BaseCheckpointSaver[Any] | None = None) -> Any:
    """Both nodes that ask, as in the whole graph; behind them nothing is done."""
    made = StateGraph(State)
    places = {"build_data": "plan", "train": "launch"}
    for name, at in places.items():
        made.add_node(name, step(name, asks(at, lambda _: {"stage": END}), load_settings(), repair))  # type: ignore[arg-type]
        made.add_edge(name, END)
    made.add_conditional_edges(START, next_stage, list(places))
    return made.compile(checkpointer=saver)


def at(node: str, attempt: int = 0) -> State:
    return State(run_id="r1", stage=node, experiment=1, attempt=attempt, spent=65)


def decisions(run: RunFolder) -> list[str]:
    return [e.decision for e in iter_events(run.events) if isinstance(e, Approval)]


def interrupts(state: dict[str, Any]) -> Any:
    return state["__interrupt__"][0].value


def test_a_plan_is_shown_and_asked_for_once(run: RunFolder) -> None:
    app = graph(InMemorySaver())
    shown = interrupts(app.invoke(at("build_data"), CONFIG))
    (request,) = shown["action_requests"]
    assert request["args"] == {
        "process_data.py": "print()",
        "train.yaml": "a: 1\n",
        "hypothesis": IDEA.model_dump(mode="json"),
    }
    for said in (
        "train longer",
        "drop_contradicted (noise)",
        "num_train_epochs: 4",
        "time 1 min 05 s of 2 h 00 min",
        "1 h 58 min left",
    ):
        assert said in request["description"]
    assert shown["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    asked = open_question(run)
    assert asked is not None and asked.text == request["description"]
    graph(InMemorySaver()).invoke(at("build_data"), CONFIG)  # another process, without the checkpoint
    assert decisions(run) == ["asked"]
    assert app.invoke(Command(resume=True), CONFIG)["stage"] == END
    assert graph().invoke(at("build_data"))["stage"] == END, "the answer is on disk"
    assert decisions(run) == ["asked", "yes"]
    assert open_question(run) is None


def test_what_is_not_understood_is_asked_again(run: RunFolder) -> None:
    app = graph(InMemorySaver())
    app.invoke(at("build_data"), CONFIG)
    again = interrupts(app.invoke(Command(resume="the weather is nice"), CONFIG))
    assert again["action_requests"][0]["description"].startswith("Not understood.")
    assert app.invoke(Command(resume="yes"), CONFIG)["stage"] == END


def test_a_plan_that_is_turned_down_is_a_failed_experiment(run: RunFolder) -> None:
    app = graph(InMemorySaver())
    app.invoke(at("build_data"), CONFIG)
    said = app.invoke(Command(resume={"decisions": [{"type": "reject", "message": "too dear"}]}), CONFIG)
    assert (said["stage"], said["failure"].culprit) == ("critique", "user")
    assert said["failure"].text == "the plan was turned down by the user: too dear"
    assert rebuild(run, Settings()).stage == "critique"


def test_approval_by_chat_of_an_idle_run(run: RunFolder) -> None:
    graph().invoke(at("build_data"))
    message = say(run, "no, use less data")
    answer_offline(run, load_settings())
    told = answer(run, message)
    assert told is not None and told.text.endswith("The plan of experiment 1 is turned down.")
    assert graph().invoke(at("build_data"))["failure"].text.endswith("turned down by the user: use less data")
    late = say(run, "yes")
    answer_offline(run, load_settings())
    told = answer(run, late)
    assert told is not None and "turned down" not in told.text, "the first answer holds"


def test_a_changed_recipe_is_the_next_attempt(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for author in ("engineer_data", "write_config"):  # their answers are there: nobody is told anything
        monkeypatch.setattr(f"tuneloop.graph.nodes.{author}.build_brief", lambda _: None)
    app, folder = graph(InMemorySaver()), run.experiment(1)
    args = interrupts(app.invoke(at("build_data"), CONFIG))["action_requests"][0]["args"]
    edited = {"decisions": [{"type": "edit", "edited_action": {"name": "x", "args": {**args, "train.yaml": "a: 2\n"}}}]}
    said = app.invoke(Command(resume=edited), CONFIG)
    assert (said["stage"], said["attempt"]) == ("engineer_data", 1)
    assert folder.config.read_text() == "a: 1\n", "its author's node writes it"
    found = rebuild(run, Settings())
    assert (found.stage, found.attempt) == ("write_config", 1), "the script is the same"
    ctx = Context(run, load_settings(), found)
    assert engineer_data(ctx) == {"stage": "write_config"}
    assert write_config(ctx) == {"stage": "validate"}
    assert (folder.script.read_text(), folder.config.read_text()) == ("print()", "a: 2\n")
    assert rebuild(run, Settings()).stage == "validate"
    assert graph().invoke(at("build_data", 1))["stage"] == END, "who wrote it is not asked"
    folder.config.write_text("a: 3\n")  # an agent repaired it
    assert "__interrupt__" in graph().invoke(at("build_data", 2))


def test_another_idea_is_written_out_by_the_agents_and_shown_again(run: RunFolder) -> None:
    app, folder = graph(InMemorySaver()), run.experiment(1)
    args = interrupts(app.invoke(at("build_data"), CONFIG))["action_requests"][0]["args"]
    idea = {**args["hypothesis"], "training_plan": {"num_train_epochs": 2}}
    app.invoke(Command(resume={"type": "edit", "args": {"args": {**args, "hypothesis": idea}}}), CONFIG)
    assert read_json(folder.hypothesis)["training_plan"] == {"num_train_epochs": 2}
    assert sorted(f.name for f in folder.answers.iterdir()) == ["config_coder.0.json", "data_engineer.0.json"]
    assert rebuild(run, Settings()).stage == "engineer_data"
    folder.config.write_text("a: 2\n")
    assert "__interrupt__" in graph().invoke(at("build_data", 1))


def test_a_launch_shows_the_forecast(run: RunFolder) -> None:
    append_row(run.directives, Directive(id="1", text="ask before each launch", command=Approve(at="launch")))
    forecast = Forecast(seconds=600, cpu=1100, memory=10**9, steps=80, seconds_per_step=7)
    write_json(run.experiment(1).forecast, forecast.model_dump(mode="json"))
    assert graph().invoke(at("build_data"))["stage"] == END, "plans are not asked for any more"
    text = interrupts(graph().invoke(at("train")))["action_requests"][0]["description"]
    assert "80 steps in about 10 min 00 s (1100 CPU-s), 1.0 GB of memory" in text


def test_approvals_can_be_switched_off(run: RunFolder) -> None:
    graph().invoke(at("build_data"))
    append_row(run.directives, Directive(id="1", text="no more questions", command=Approve(at="never")))
    assert graph().invoke(at("build_data"))["stage"] == END
    assert open_question(run) is None


def test_what_was_launched_before_is_not_asked_for(run: RunFolder) -> None:
    (run.experiment(1).jobs / "build_data.1").mkdir(parents=True)
    assert graph().invoke(at("build_data"))["stage"] == END


@pytest.mark.parametrize("begun", [False, True])
def test_a_recipe_that_is_repaired_is_asked_for_until_it_is_carried_out_itself(run: RunFolder, begun: bool) -> None:
    """What was carried out before was another attempt."""
    folder = run.experiment(1)
    (folder.jobs / "build_data.1").mkdir(parents=True)
    os.utime(folder.jobs / "build_data.1", (time.time() - 60,) * 2)
    write_json(folder.failures / "0.json", {})
    if begun:
        (folder.jobs / "build_data.2").mkdir()
    assert graph().invoke(at("build_data", 1), CONFIG)["stage"] == (END if begun else "build_data")
    assert (open_question(run) is None) == begun


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        (True, ApprovalDecision(decision="yes")),
        (False, ApprovalDecision(decision="no")),
        ("yes", ApprovalDecision(decision="yes")),
        ("no, too dear", ApprovalDecision(decision="no", reason="too dear")),
        ([{"type": "accept", "args": None}], ApprovalDecision(decision="yes")),
        ([{"type": "response", "args": "too dear"}], ApprovalDecision(decision="no", reason="too dear")),
        ({"type": "ignore"}, ApprovalDecision(decision="no")),
        ({"decision": "no", "reason": "x"}, ApprovalDecision(decision="no", reason="x")),
        ({"type": "edit", "args": {"train.yaml": "a: 1\n"}}, ApprovalDecision(decision="yes")),
        (
            {"type": "edit", "args": {"train.yaml": "b: 1\n"}},
            ApprovalDecision(decision="edit", files={"train.yaml": "b: 1\n"}),
        ),
        ({"type": "edit", "args": {"hypothesis": {"statement": "x"}}}, None),
        ({"type": "launch"}, None),
        (7, None),
        ([], None),
    ],
)
def test_answers_in_many_forms(run: RunFolder, value: Any, decision: ApprovalDecision | None) -> None:
    graph().invoke(at("build_data"))
    assert understood(json.loads(json.dumps(value)), Context(run, load_settings(), at("build_data"))) == decision


def test_edits_are_no_repairs(run: RunFolder, tmp_path: Path) -> None:
    from tuneloop.graph.outcomes.repair import count_user_edits

    ctx = Context(run, load_settings(), at("build_data"))
    for attempt, culprit in enumerate(("user", "config", "user")):
        write_json(ctx.folder.failures / f"{attempt}.json", {"culprit": culprit})
    assert count_user_edits(ctx) == 2


def test_the_runs_own_checkpoints_hold_a_question(run: RunFolder) -> None:
    with open_checkpoints(run, None) as store:
        assert "__interrupt__" in graph(store.saver).invoke(at("build_data"), store.config)
    with open_checkpoints(run, None) as store:
        assert not store.lost
        values = store.values()
        assert values is not None and values["stage"] == "build_data"
        assert graph(store.saver).invoke(Command(resume="no, too dear"), store.config)["stage"] == "critique"
        assert "__interrupt__" not in graph(store.saver).invoke(at("build_data"), store.config), (
            "a new entry asks nobody"
        )
