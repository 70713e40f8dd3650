"""Who watches the graph's own stream sees what happens while it happens."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

from tuneloop.core.events import AgentStreaming
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.step import step
from tuneloop.tools.runs.manifest import write_manifest

THOUGHT = AgentStreaming(experiment=1, agent="researcher", model="m", text="I think", letters=7)


def thinks(ctx: Context) -> dict[str, Any]:
    """As a planner tells it: from another thread, in a context of its own."""
    teller = threading.Thread(target=contextvars.Context().run, args=(ctx.emit, THOUGHT))
    teller.start()
    teller.join()
    return {"stage": END}


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    write_manifest(Settings(FT_FILE_PATH=tmp_path).home.run("r1"), RunSpec(benchmark="b", base_model="m"))
    made = StateGraph(State)
    made.add_node("research", step("research", thinks, Settings(FT_FILE_PATH=tmp_path)))
    made.add_edge(START, "research")
    return made.compile()


def kinds(seen: list[Any]) -> list[str]:
    return [event["kind"] for event in seen]


def test_events_come_through_the_custom_stream(graph: Any) -> None:
    given = State(run_id="r1", experiment=1)

    async def watched() -> list[Any]:
        return [event async for event in graph.astream(given, stream_mode="custom")]

    whole = list(graph.stream(given, stream_mode="custom"))
    assert kinds(whole) == kinds(asyncio.run(watched())) == ["node_started", "agent_thinks", "node_finished"]
    assert whole[1]["text"] == "I think"
