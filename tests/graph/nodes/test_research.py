"""A researcher that proposes to stop: the run finishes, asks a person, or goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from tuneloop.core.brief import Brief
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis, Journal
from tuneloop.core.files import read_field, read_model
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import OnStop
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.graph.nodes.research import chosen_parent, research
from tuneloop.graph.state import State
from tuneloop.graph.step import step
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.signature import write_signed_setup

STOP = Hypothesis(statement="nothing is left", reason="all was tried", disproof="-", aspect="stop", stop=True)
IDEA = Hypothesis(statement="a higher rate", reason="underfit", disproof="-", aspect="rate")
CONFIG: RunnableConfig = {"configurable": {"thread_id": "r"}}


class Stopping:
    """A planner that proposes to stop until it is told that the run goes on; `stubborn`: even then."""

    name = "stopping"

    def __init__(self, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        self.told: list[tuple[str, str]] = []

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Any, want: Any) -> Any:
        self.told.append((brief.stop_refused, prompt))
        return STOP if self.stubborn or not brief.stop_refused else IDEA


@pytest.fixture
def opened(short_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`opened(on_stop, planner)`: the step `research` of a run that has done one experiment, and its folder."""

    def make(on_stop: OnStop, planner: Stopping) -> tuple[Any, RunFolder]:
        home = Home(tmp_path)
        run = home.run("short")
        if not run.root.exists():
            shutil.copytree(
                short_run.run.root, run.root, symlinks=True, ignore=shutil.ignore_patterns("final", "report*")
            )
            write_signed_setup(run, (run.root / "setup.json").read_text())
        monkeypatch.setattr(RunTools, "spec", read_spec(short_run.run).model_copy(update={"on_stop": on_stop}))
        monkeypatch.setattr("tuneloop.graph.context.make_planner", lambda *_: planner)
        graph = StateGraph(State)
        settings = Settings(FT_FILE_PATH=tmp_path)
        graph.add_node("research", step("research", research, settings))
        graph.add_edge(START, "research")
        graph.add_edge("research", END)
        return graph.compile(checkpointer=InMemorySaver()), run

    return make


AT = State(run_id="short", stage="research", experiment=1)


def test_the_run_finishes_with_the_reason(opened) -> None:
    app, run = opened("finish", planner := Stopping())
    state = app.invoke(AT, CONFIG)
    assert (state["stage"], state["experiment"]) == ("finish", 1)
    assert read_field(run.stop, "reason", str) == "all was tried"
    assert "`stop` true and say why" in planner.told[0][1]
    assert len(planner.told) == 1


def test_a_person_decides(opened) -> None:
    app, run = opened("ask", planner := Stopping())
    (asked,) = app.invoke(AT, CONFIG)["__interrupt__"][0].value["action_requests"]
    assert "the researcher proposes to stop" in asked["description"]
    assert (found := open_question(run)) is not None and found.at == "stop"
    state = app.invoke(Command(resume="no, try a higher rate"), CONFIG)
    assert (state["stage"], state["experiment"]) == ("engineer_data", 2)
    assert planner.told[-1][0] == "try a higher rate"
    assert "The run goes on: try a higher rate" in planner.told[-1][1]
    assert read_model(run.experiment(2).hypothesis, Hypothesis) == IDEA.model_copy(update={"parent": 1})
    assert not run.stop.exists()


def test_a_person_lets_it_finish(opened) -> None:
    app, run = opened("ask", Stopping())
    app.invoke(AT, CONFIG)
    assert app.invoke(Command(resume={"type": "approve"}), CONFIG)["stage"] == "finish"
    assert run.stop.is_file()


def test_the_run_goes_on(opened) -> None:
    app, _ = opened("continue", planner := Stopping())
    assert app.invoke(AT, CONFIG)["stage"] == "engineer_data"
    assert "`stop` stays false" in planner.told[0][1]
    assert [bool(refused) for refused, _ in planner.told] == [False, True]


def test_repeated_proposal_fails_the_experiment(opened) -> None:
    app, _ = opened("continue", Stopping(stubborn=True))
    state = app.invoke(AT, CONFIG)
    assert (state["stage"], state["failure"].culprit) == ("critique", "planner")


@pytest.mark.parametrize(
    ("named", "promoted", "parent"), [(None, [1, 2], 2), (1, [1, 2], 1), (0, [1], None), (None, [], None)]
)
def test_an_idea_builds_on_the_incumbent_unless_it_names_another(
    named: int | None, promoted: list[int], parent: int | None
) -> None:
    feedback = Feedback(promoted=True, critique=Critique(explanation="", lesson=""))
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=1, parsed=1)
    made = tuple(Experiment(number=n, hypothesis=IDEA, score=score, feedback=feedback) for n in promoted)
    assert chosen_parent(IDEA.model_copy(update={"parent": named}), Journal(experiments=made)) == parent
