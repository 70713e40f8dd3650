"""What is said on a busy thread reaches the run at once, and is not heard twice when the queued run begins."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tuneloop.core.directive_log import read_directives
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.nodes.steer import steer
from tuneloop.graph.server.web import InboxMiddleware
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import answer_offline
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import waiting


async def echo(request: Request) -> JSONResponse:
    return JSONResponse(await request.json())


@pytest.fixture
def run() -> RunFolder:
    made = load_settings().home.run("t1")
    write_manifest(made, RunSpec(benchmark="wordproblems", base_model="tiny"))
    return made


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/{rest:path}", echo, methods=["POST"])]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(InboxMiddleware, home=load_settings().home)]))


def asked(text: Any) -> dict[str, Any]:
    return {"assistant_id": "tuneloop", "input": {"messages": [{"role": "user", "content": text}]}}


def test_a_message_goes_through_the_inbox(run: RunFolder, client: TestClient) -> None:
    with hold_lock(run.lock):
        passed = client.post("/threads/t1/runs/stream", json=asked("finish")).json()
        assert len(waiting(run.inbox)) == 1
    (message,) = passed["input"]["messages"]
    assert (message["content"], len(message["id"])) == ("finish", 36)
    answer_offline(run, load_settings())
    queued = steer(State(run_id="t1", messages=[HumanMessage(message["content"], id=message["id"])]), {})
    assert "finish after the open experiment" in queued["messages"][0].text
    assert len(read_directives(run.directives)) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/threads/t1/runs", {"assistant_id": "tuneloop", "input": {"spec": {}}}),
        ("/threads/t1/runs/wait", {"command": {"resume": True}}),
        ("/threads/t1/runs", asked([{"type": "image"}])),
        ("/threads/other/runs", asked("finish")),
        ("/threads/../runs", asked("finish")),
        ("/threads/t1/state", asked("finish")),
        ("/threads/t1/runs", [7]),
    ],
)
def test_everything_else_passes_as_it_is(run: RunFolder, client: TestClient, path: str, body: Any) -> None:
    with hold_lock(run.lock):
        assert client.post(path, json=body).json() == body
    assert client.post("/threads/t1/runs", json=asked("x")).json() == asked("x"), "nobody is busy"
    assert waiting(run.inbox) == []


def test_what_is_no_json_is_the_servers_to_refuse(run: RunFolder) -> None:
    with hold_lock(run.lock):
        assert InboxMiddleware(None, load_settings().home).told("t1", b"{") == b"{"  # type: ignore[arg-type]
