"""What is said on a busy thread reaches the run at once, and is not heard twice when the queued run begins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.conftest import ROOT
from tuneloop.core.directive_log import read_directives
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.nodes.steer import steer
from tuneloop.graph.server import web
from tuneloop.graph.server.web import InboxMiddleware, authenticate, secure_kept_folder
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import answer_offline
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import waiting

TOKEN = "sesame-open-sesame"


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
    queued = steer(
        State(run_id="t1", messages=[HumanMessage(message["content"], id=message["id"])]), {}, load_settings()
    )
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


@pytest.mark.parametrize("others", [0o777, 0o775, 0o757])
def test_pickles_that_others_could_have_written_are_refused(tmp_path: Path, others: int) -> None:
    kept = tmp_path / "kept"
    secure_kept_folder(kept)
    assert not kept.exists(), "langgraph makes it"
    kept.mkdir()
    kept.chmod(others)
    secure_kept_folder(kept)
    assert kept.stat().st_mode & 0o777 == 0o700, "nothing lies there yet"
    (kept / "store.pckl").write_bytes(b"")
    kept.chmod(others)
    with pytest.raises(InvalidRequestError, match="others can write there"):
        secure_kept_folder(kept)
    kept.chmod(0o755)
    secure_kept_folder(kept)
    (kept / "x.pckl").symlink_to("/dev/null")
    with pytest.raises(InvalidRequestError, match=r"x\.pckl"):
        secure_kept_folder(kept)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidRequestError):
        secure_kept_folder(tmp_path / "link")


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        ({b"authorization": b"Bearer " + TOKEN.encode()}, True),
        ({b"x-api-key": TOKEN.encode()}, True),
        ({b"x-auth-scheme": b"langsmith"}, False),
        ({b"authorization": b"Bearer x"}, False),
        ({}, False),
    ],
)
async def test_langgraphs_own_look_asks_for_the_token_too(
    headers: dict[bytes, bytes], right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await authenticate(headers) == "owner", "no token is set"
    monkeypatch.setattr(web, "settings", Settings(TUNELOOP_MCP_TOKEN=TOKEN))
    if right:
        assert await authenticate(headers) == "owner"
        return
    with pytest.raises(Auth.exceptions.HTTPException):
        await authenticate(headers)


def test_langgraph_json_leaves_no_way_around() -> None:
    told = json.loads((ROOT / "langgraph.json").read_text())
    assert told["auth"] == {"path": "tuneloop.graph.server.web:auth", "disable_studio_auth": True}
    assert told["http"]["enable_custom_route_auth"] is True
    pages = re.compile(told["http"]["cors"]["allow_origin_regex"])
    assert pages.fullmatch("http://localhost:3000")
    for page in ("http://localhost:3000.evil.example", "http://localhost.evil.example", "https://evil.example", "null"):
        assert not pages.fullmatch(page)
