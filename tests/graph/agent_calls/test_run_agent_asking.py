"""While a model thinks, people are heard, and the run's time passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Chat, Hang, Refuse, Reply, chat_server
from tests.prepared import prepared, wordproblems
from tests.waiting import until
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.directive import Directive, Extend
from tuneloop.core.directive_log import append_row
from tuneloop.core.errors import (
    ApprovalNeededError,
    InfrastructureError,
    InvalidRequestError,
    LimitReachedError,
    PausedError,
    RecipeError,
)
from tuneloop.core.event_log import iter_events
from tuneloop.core.experiment import Hypothesis
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.agent_calls.brief import build_brief
from tuneloop.graph.agent_calls.run_agent import BUILT, MEASURED, TRAINED, answerable_tools, run_agent
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.drive import create_run
from tuneloop.graph.nodes.research import research
from tuneloop.graph.state import State
from tuneloop.tools.llm_proxy.ledger import read_ledger
from tuneloop.tools.runs.messages import put

IDEA = {"statement": "s", "reason": "r", "disproof": "d", "aspect": "first"}
GOOD = Reply("", (Call("Hypothesis", IDEA),))


@pytest.fixture
def chat() -> Iterator[Chat]:
    with chat_server(lambda _: GOOD) as made:
        yield made


@pytest.fixture
def open_run(tmp_path: Path, chat: Chat) -> Callable[..., Context]:
    """`create_run_folder(timeout=…)`: a prepared run in its first experiment."""

    def make(**more: Any) -> Context:
        settings = Settings(FT_FILE_PATH=tmp_path / "home", CHAT_MODEL="m", OPENAI_API_BASE=chat.url)
        spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1, **more)
        run = prepared(settings.home.run("r"), spec, wordproblems(settings.home), tmp_path)
        return Context(run, settings, State(run_id="r", experiment=1))

    return make


def asked(ctx: Context) -> Hypothesis:
    return run_agent(ctx, RESEARCHER, build_brief(ctx))


def test_an_answer_is_asked_for_once(open_run, chat: Chat) -> None:
    ctx = open_run()
    assert asked(ctx) == asked(ctx) == Hypothesis.model_validate(IDEA)
    assert len(chat.seen) == 1
    names = {path.name for path in ctx.folder.answers.iterdir()}
    assert names == {"researcher.0.md", "researcher.0.json", "researcher.0.calls.jsonl"}
    offered = {*RESEARCHER.tools} - TRAINED - MEASURED - BUILT
    assert {t["function"]["name"] for t in chat.seen[0]["tools"]} == {*offered, "read_more", "Hypothesis"}


def test_tools_are_offered_once_they_can_answer(open_run) -> None:
    ctx = open_run()
    reads = {"jobs/smoke_run.1": TRAINED, "scores.json": MEASURED, "jobs/dry_run.1": BUILT}
    offered = {*RESEARCHER.tools} - TRAINED - MEASURED - BUILT
    assert {*answerable_tools(RESEARCHER.tools, ctx.run)} == offered
    for name, tools in reads.items():
        (ctx.folder.root / name).mkdir(parents=True)
        offered |= tools & {*RESEARCHER.tools}
        assert {*answerable_tools(RESEARCHER.tools, ctx.run)} == offered
    assert offered == {*RESEARCHER.tools}


def test_pause_interrupts_a_model_call(open_run, chat: Chat) -> None:
    ctx = open_run()
    chat.say = lambda _: Hang()
    said = threading.Thread(target=lambda: (until(lambda: chat.seen, 60), put(ctx.run.inbox, do="pause")))
    said.start()
    with pytest.raises(PausedError):
        asked(ctx)
    said.join()
    chat.say = lambda _: GOOD
    assert asked(ctx) == Hypothesis.model_validate(IDEA)
    assert [entry.outcome for entry in read_ledger(ctx.run.ledger)] == ["failed", "answered"]


def test_a_message_is_answered_while_a_model_thinks(open_run, chat: Chat) -> None:
    ctx = open_run()
    heard = threading.Event()

    def say(_: Any) -> Reply:
        put(ctx.run.inbox, do="say", text="status")
        until(lambda: list(iter_events(ctx.run.events, "message_answered")), 60)
        heard.set()
        return GOOD

    chat.say = say
    assert asked(ctx) == Hypothesis.model_validate(IDEA)
    assert heard.is_set()


def test_the_runs_time_is_over_while_a_model_thinks(open_run, chat: Chat) -> None:
    ctx = open_run(timeout=3)
    chat.say = lambda _: Hang()
    with pytest.raises(RecipeError, match="time was over while the researcher thought"):
        asked(ctx)


def test_no_usable_answer_is_a_failed_experiment(open_run, chat: Chat) -> None:
    ctx = open_run()
    chat.say = lambda _: Reply("", refusal="No.")
    update = research(ctx)
    assert (update["stage"], update["failure"].culprit, update["failure"].node) == ("critique", "planner", "research")
    assert not ctx.folder.hypothesis.exists()


def test_a_wrong_key_pauses_and_the_right_one_goes_on(open_run, chat: Chat) -> None:
    ctx = open_run()
    chat.say = lambda _: Refuse(401, "wrong key")
    with pytest.raises(InfrastructureError, match="refuses"):
        research(ctx)
    chat.say = lambda _: GOOD
    assert research(ctx)["stage"] == "engineer_data"


def test_a_model_that_can_not_be_had_is_refused_before_anything_costs(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home", CHAT_MODEL="gpt-5")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny")
    with pytest.raises(InvalidRequestError, match="CHAT_MODEL=gpt-5: set OPENAI_API_KEY"):
        create_run(spec, settings, "r")
    assert not settings.home.runs.exists()


def test_every_argument_of_a_tool_is_told(open_run, chat: Chat) -> None:
    """What several tools say of one in the same words stands in the first of them."""
    asked(open_run())
    told = {t["function"]["name"]: t["function"] for t in chat.seen[0]["tools"]}
    described = {name for card in told.values() for name, part in arguments(card) if part.get("description")}
    assert {name for name, _ in arguments(told["data_sample_rows"])} <= described
    assert "statement" in told["Hypothesis"]["parameters"]["required"]
    assert all(card["description"] for card in told.values())


def arguments(card: Any) -> Any:
    return card["parameters"].get("properties", {}).items()


def test_call_over_limit_ends_experiment_when_not_interactive(open_run, chat: Chat) -> None:
    ctx = open_run(max_tokens=5000)
    with pytest.raises(LimitReachedError, match="the run may spend 5000 tokens"):
        asked(ctx)
    assert chat.seen == []
    there = replace(ctx, interactive=True)
    with pytest.raises(ApprovalNeededError):
        asked(there)
    append_row(ctx.run.directives, Directive(id="1", text="…", command=Extend(tokens=95_000)))
    assert asked(there) == Hypothesis.model_validate(IDEA), "nothing that was recorded says that there is no answer"
    assert len(chat.seen) == 1
