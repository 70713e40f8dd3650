"""Limits of a run: nothing is under-counted, warnings come once, a person who is there is asked, else the run ends."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from tuneloop.core.budget import Limits
from tuneloop.core.directive import Directive, Extend
from tuneloop.core.directive_log import append_row, open_directives
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, LimitReachedError, PausedError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import LimitWarning, NodeInterrupted
from tuneloop.core.files import write_json
from tuneloop.core.job import ALIVE, CLAIM, TICKET
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.core.transcript import ModelCall, Tokens
from tuneloop.graph.agent_calls.planner_context import RunCallLedger, open_ledger
from tuneloop.graph.budget.gate import ask_for_more, refused_limits, warn_near_limits
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.create_run import check_prices
from tuneloop.graph.outcomes.stopping import next_node
from tuneloop.graph.state import State
from tuneloop.graph.step import step
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.budget.spending import gpu_count, run_spending, seconds_worked
from tuneloop.tools.runs.manifest import read_spec, write_manifest

PRICED: dict[str, Any] = {"TUNELOOP_API_PRICES": {"m": (1.0, 10.0, 0.1)}}
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, 400), st.integers(0, 400)),
        st.tuples(st.just("end"), st.integers(0, 5), st.integers(0, 500)),
        st.just(("kill", 0, 0)),
        st.just(("reload", 0, 0)),
    ),
    max_size=30,
)


def made(home: Path, **limits: Any) -> RunFolder:
    run = Home(home).run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=3, **limits))
    return run


def call(tokens: Tokens, **more: Any) -> ModelCall:
    return ModelCall(
        request="r",
        model="m",
        dialect="tools",
        kept=0,
        messages=(),
        tools=(),
        outcome="answered",
        tokens=tokens,
        **more,
    )


@settings(max_examples=40, deadline=None)
@given(ops=OPS)
def test_limit_is_passed_by_one_call_at_most(
    tmp_path_factory: pytest.TempPathFactory, ops: list[tuple[str, int, int]]
) -> None:
    """What begun calls may have taken is counted at every moment, whoever was killed; one answer may be longer than told."""
    run, limit = made(tmp_path_factory.mktemp("home"), max_tokens=1000), 1000
    under_way: dict[str, int] = {}
    graves = list[object]()  # who is killed closes nothing
    took = lost = beyond = 0  # settled; of killed calls at most; more than was set aside

    def opens() -> tuple[contextlib.AbstractContextManager[RunCallLedger], RunCallLedger]:
        place = open_ledger(run, Settings(**PRICED), 1)()
        return place, place.__enter__()

    place, book = opens()
    for op, a, b in ops:
        match op:
            case "begin":
                with contextlib.suppress(LimitReachedError):
                    under_way[book.begin("critic", "m", Tokens(into=a, out=b, estimated=True))] = a + b
            case "end" if under_way:
                name = sorted(under_way)[a % len(under_way)]
                beyond += max(0, b - under_way.pop(name))
                book.end(name, call(Tokens(into=b), cost=b / 1e6))
                took += b
            case "kill":
                lost += sum(under_way.values())
                under_way.clear()
                graves.append(place)
                place, book = opens()
            case "reload" if not under_way:
                place.__exit__(None, None, None)
                place, book = opens()
        told = run_spending(run, 0.0)
        assert told.tokens == took + lost + sum(under_way.values())
        assert told.tokens <= limit + beyond


def test_no_limit_is_below_nothing(tmp_path: Path) -> None:
    run = made(tmp_path, max_cost=1, max_tokens=1000, timeout=60, max_gpu_hours=1)
    less = Extend(money=-2, tokens=-2000, seconds=-120, gpu_hours=-2)
    append_row(run.directives, Directive(id="1", text="…", command=less))
    assert current_limits(run, read_spec(run)) == Limits(seconds=0, gpu_hours=0, tokens=0, money=0)


def test_gpu_hours_that_are_granted_while_a_job_runs_hold_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneloop.graph.context.LOOK", 0.0)
    run = made(tmp_path, max_gpu_hours=1)
    write_json(run.setup, {"device": "cuda"})
    ctx = Context(run, Settings(FT_FILE_PATH=tmp_path), State(run_id="r1"), holds_gpus=True)
    left, hour = ctx.clock(), 3600 / gpu_count()
    assert ctx.seconds_left() == hour
    append_row(run.directives, Directive(id="1", text="…", command=Extend(gpu_hours=2)))
    assert ctx.seconds_left() == pytest.approx(left(), abs=1) == 3 * hour
    assert replace(ctx, seconds_limit=50.0).seconds_left() == 50
    assert (ctx.first_limit(), replace(ctx, holds_gpus=False).seconds_left()) == ("GPU time", None)
    write_json(run.setup, {"device": "cpu"})
    assert ctx.seconds_left() is None


def test_the_time_of_a_node_is_not_given_to_each_of_its_jobs(tmp_path: Path) -> None:
    ctx = Context(made(tmp_path, timeout=100), Settings(FT_FILE_PATH=tmp_path), State(run_id="r1", spent=20))
    assert ctx.clock()() == pytest.approx(80, abs=1)
    later = replace(ctx, began=ctx.began - 30)
    assert later.clock()() == pytest.approx(50, abs=1)
    assert replace(later, seconds_limit=40).clock()() == pytest.approx(10, abs=1)
    assert later.without_deadline().clock()() == float("inf")


def test_a_job_on_a_node_may_go_on_for_its_own_gpus_from_when_it_began_there(tmp_path: Path) -> None:
    run = made(tmp_path, max_gpu_hours=4, parallel=8, executor="slurm")
    write_json(run.setup, {"device": "cuda"})
    ctx = Context(run, Settings(FT_FILE_PATH=tmp_path), State(run_id="r1", experiment=1), holds_gpus=True, slot=1)
    assert ctx.seconds_left() == ctx.seconds_left(since=1000) == 4 * 3600 / 8, "no job has said how many GPUs it gets"
    assert replace(ctx, slot=0).seconds_left() == 4 * 3600, "at the end of the run one job follows another"
    job = run.experiment(1).jobs / "train.1"
    write_json(job / "command.json", {"argv": ["x"], "cwd": "/"})
    (job / TICKET).write_text("7")
    os.utime(job / "command.json", (1e9, 1e9))  # it waits since then
    assert ctx.seconds_left() == 4 * 3600 / 8
    (job / CLAIM).write_text("node 7 2")
    (job / ALIVE).touch()
    os.utime(job / CLAIM, (2e9, 2e9))
    os.utime(job / ALIVE, (2e9 + 1800, 2e9 + 1800))
    assert ctx.seconds_left() == (4 - 2 * 0.5) * 3600 / (8 * 2)
    os.utime(job / ALIVE, (2e9 + 8000, 2e9 + 8000))
    assert (ctx.seconds_left() or 0) < 0 and ctx.first_limit() == "GPU time"


def test_what_does_not_fit_is_refused_before_it_costs(tmp_path: Path) -> None:
    run = made(tmp_path, max_cost=0.01)
    with open_ledger(run, Settings(**PRICED), 1)() as book:
        name = book.begin("critic", "m", Tokens(into=100, out=800))
        assert run_spending(run, 0.0).money == pytest.approx(0.0081)
        with pytest.raises(LimitReachedError, match=r"may spend 0.0100 USD, .* up to 0.0162 USD"):
            book.begin("critic", "m", Tokens(into=100, out=800))
        book.end(name, call(Tokens(into=1000, out=10, cached=900), cost=0.00029))
        book.begin("critic", "m", Tokens(into=100, out=800))
        with pytest.raises(InfrastructureError, match=r"no price for other; right is TUNELOOP_API_PRICES="):
            book.begin("critic", "other", Tokens(into=1, out=1))
    (first, *_) = [e for e in run.ledger.read_text().splitlines() if "answered" in e]
    assert '"tokens_cached":900' in first and '"experiment":1' in first


@pytest.fixture
def ctx() -> Context:
    """Of a run that has spent 900 of 1000 tokens."""
    found = load_settings()
    run = made(found.home.root, max_tokens=1000)
    with open_ledger(run, found, 1)() as book:
        name = book.begin("critic", "m", Tokens(into=900))
        book.end(name, call(Tokens(into=900)))
    return Context(run, found, State(run_id="r1", experiment=1))


def warnings(ctx: Context) -> list[tuple[str, float]]:
    return [(e.of, e.limit) for e in iter_events(ctx.run.events) if isinstance(e, LimitWarning)]


@pytest.mark.parametrize(
    ("who", "aside", "wanted", "noted"),
    [("critic", 0, 200, True), ("critic", 60, 60, False), ("listener", 0, 200, False)],
)
def test_only_what_no_later_call_could_have_either_ends_a_run(
    ctx: Context, who: str, aside: int, wanted: int, noted: bool
) -> None:
    """900 of 1000 tokens are settled: what is set aside beside them may come back, and a question ends nothing."""
    with open_ledger(ctx.run, ctx.settings, 1)() as book:
        book.begin("researcher", "m", Tokens(into=aside))
        with pytest.raises(LimitReachedError):
            book.begin(who, "m", Tokens(into=wanted))
    assert [line.kind for line in refused_limits(ctx)] == ["tokens"] * noted


def test_one_warning_per_limit_over_sessions(ctx: Context) -> None:
    for _ in range(2):
        warn_near_limits(ctx)
        warn_near_limits(Context(ctx.run, ctx.settings, ctx.state))
    assert warnings(ctx) == [("tokens", 1000)]
    append_row(ctx.run.directives, Directive(id="1", text="…", command=Extend(tokens=500)))
    warn_near_limits(ctx)
    assert warnings(ctx) == [("tokens", 1000)], "900 of 1500 are not near"
    append_row(ctx.run.directives, Directive(id="2", text="…", command=Extend(tokens=-400)))
    warn_near_limits(ctx)
    assert warnings(ctx) == [("tokens", 1000), ("tokens", 1100)]


def test_time_is_counted_until_the_node_is_left(ctx: Context) -> None:
    def left(_: Context) -> dict[str, Any]:
        raise PausedError("asked to")

    app = StateGraph(State)
    app.add_node("train", step("train", left, ctx.settings))
    app.add_edge(START, "train")
    for _ in range(2):
        with pytest.raises(PausedError):
            app.compile().invoke(State(run_id="r1", experiment=1))
    cut = [e.seconds for e in iter_events(ctx.run.events) if isinstance(e, NodeInterrupted)]
    assert len(cut) == 2
    assert seconds_worked(ctx.run) == pytest.approx(sum(cut))


def graph(asked: list[str]) -> Any:
    """One node whose agent wants 200 tokens."""

    def research(ctx: Context) -> dict[str, Any]:
        with open_ledger(ctx.run, ctx.settings, 1)() as book:
            book.begin("researcher", "m", Tokens(into=200))
        asked.append("asked")
        return {"stage": END}

    app = StateGraph(State)
    app.add_node("research", step("research", research, load_settings()))
    app.add_edge(START, "research")
    app.add_edge("research", END)
    return app.compile(checkpointer=InMemorySaver())


def config(**more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": "r1", **more}}


def test_attended_run_asks_for_more_and_goes_on(ctx: Context) -> None:
    """As Studio does it: the answer resumes the node, which is run again from its beginning."""
    asked = list[str]()
    app, there = graph(asked), config(graph_id="tuneloop")
    state = State(run_id="r1", experiment=1)
    app.invoke(state, config())  # nobody is there: the experiment fails, and the limit is noted
    first = app.invoke(state, there)["__interrupt__"][0].value["question"]
    assert "tokens: 900 of 1000 tokens" in first and "`more 200k tokens`" in first
    again = app.invoke(Command(resume="the weather is nice"), there)["__interrupt__"][0].value["question"]
    assert "no command" in again
    assert asked == []
    app.invoke(Command(resume="more 500 tokens"), there)
    assert asked == ["asked"]
    assert [d.command for d in open_directives(ctx.run.directives)] == [Extend(tokens=500)]


def test_amount_that_was_too_little_is_added_once(ctx: Context) -> None:
    """Run again, a node hears the answers of its first times at the same places."""
    there = replace(ctx, interactive=True)

    def node(state: State) -> dict[str, Any]:
        enough = ask_for_more(there, lambda: [line for line in there.spent_of_limits() if (line.left or 0) < 300])
        return {"stage": "enough" if enough else "short"}

    app = StateGraph(State)
    app.add_node("n", node)
    app.add_edge(START, "n")
    made = app.compile(checkpointer=InMemorySaver())
    made.invoke(State(run_id="r1", experiment=1), config())
    for text in ("more 20 tokens", "status"):
        assert "__interrupt__" in made.invoke(Command(resume=text), config())
    assert made.invoke(Command(resume="more 400 tokens"), config())["stage"] == "enough"
    assert [d.command for d in open_directives(ctx.run.directives)] == [Extend(tokens=20), Extend(tokens=400)]


def test_who_is_there_may_say_finish(ctx: Context) -> None:
    app, there = graph([]), config(interactive=True)
    state = State(run_id="r1", experiment=1)
    app.invoke(state, config())
    app.invoke(state, there)
    end = app.invoke(Command(resume={"type": "reject"}), there)
    assert "__interrupt__" not in end
    assert is_finish_requested(ctx.run)
    assert end["stage"] == "critique", "its agent is refused, and the experiment is closed"


def test_unattended_run_finishes_at_the_limit(ctx: Context) -> None:
    assert next_node(ctx) == "research"
    graph([]).invoke(State(run_id="r1", experiment=1), config())
    assert next_node(ctx) == "finish"
    append_row(ctx.run.directives, Directive(id="1", text="…", command=Extend(tokens=500)))
    assert next_node(ctx) == "research"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"CHAT_MODEL": "odd"}, r"--max-cost 5: no price for odd; right is TUNELOOP_API_PRICES="),
        ({"CHAT_MODEL": "gpt-5", "TUNELOOP_CHAT_FALLBACKS": "odd"}, "no price for odd"),
        ({"FT_WEAK_MODELS": "odd"}, "no price for odd"),
        ({"CHAT_MODEL": "gpt-5", "FT_WEAK_MODELS": "gpt-5-mini"}, ""),
        ({}, ""),
    ],
)
def test_money_is_limited_only_where_prices_are_known(more: dict[str, Any], said: str) -> None:
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", max_cost=5)
    with pytest.raises(InvalidRequestError, match=said) if said else contextlib.nullcontext():
        check_prices(spec, Settings(OPENAI_API_KEY="sk-x", **more), [])
    check_prices(spec.model_copy(update={"max_cost": None}), Settings(OPENAI_API_KEY="sk-x", **more), [])
