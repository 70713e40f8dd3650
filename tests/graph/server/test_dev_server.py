"""Who may ask a real `langgraph dev` for what: pages, tokens, kinds of bodies, specs that would take the sandbox away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import ROOT
from tests.graph.test_chat_over_api import KEPT, URL, answers, dev, log  # noqa: F401 - a fixture
from tests.waiting import until
from tuneloop.core.settings import load_settings

pytestmark = pytest.mark.slow
TOKEN = "sesame-open-sesame"
STUDIO = "https://smith.langchain.com"
SIGNED = {"Authorization": f"Bearer {TOKEN}"}
STARTED = b"Application started up"


def status(path: str = "/threads", body: str = "{}", kind: str = "application/json", **headers: str) -> int:
    """Of a POST; `x_y` is the header `x-y`."""
    given = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx.post(f"{URL}{path}", content=body, headers=given, timeout=30).status_code


def ended(spec: dict[str, Any]) -> Any:
    """What became of a thread with this spec, asked by Studio's page."""
    with httpx.Client(base_url=URL, headers={"Origin": STUDIO}, timeout=60) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        asked = {"assistant_id": "tuneloop", "input": {"spec": spec}}
        return thread, client.post(f"/threads/{thread}/runs/wait", json=asked).json()


def test_without_a_token_its_own_page_and_studios(log: Path) -> None:  # noqa: F811
    with dev(log, "--no-reload"):
        assert KEPT.stat().st_mode & 0o777 == 0o700
        assert status() == status(Origin=STUDIO) == status(Origin=URL) == 200
        assert status(Origin=STUDIO, x_auth_scheme="langsmith") == 200
        for page in ("http://localhost:3000", "http://127.0.0.1:8888", "https://evil.example", "null"):
            assert status(Origin=page) == 403
        for kind in ("text/plain", "application/x-www-form-urlencoded", "text/plain;application/json"):
            assert status(kind=kind) == status(kind=kind, Origin=STUDIO) == 415
        plain = {"benchmark": "wordproblems", "base_model": "tiny", "loop_n": 1, "approve": "plan"}
        for more in ({"sandbox": "process"}, {"allow_unsandboxed": True}):
            thread, said = ended({**plain, **more})
            assert "ValidationError" in str(said)
            assert not load_settings().home.run(thread).root.exists()


def test_token_is_required_also_after_reload(log: Path) -> None:  # noqa: F811
    with dev(log, TUNELOOP_MCP_TOKEN=TOKEN):
        refused_and_served()
        began = log.read_bytes().count(STARTED)

        def restarted() -> bool:
            os.utime(ROOT / "graph" / "server" / "web.py")  # again: the server may answer before it watches its files
            return log.read_bytes().count(STARTED) > began

        until(restarted, 120, every=5)
        refused_and_served()
        assert TOKEN.encode() not in log.read_bytes()


def refused_and_served() -> None:
    """Every way in that is none, and those that are."""
    until(answers, 120)  # in a reload the socket takes questions that only the next process answers
    for path in ("/threads", "/assistants/search", "/store/namespaces", "/runs/wait", "/mcp/"):
        assert status(path) == status(path, x_auth_scheme="langsmith") == 401, path
        assert status(path, x_auth_scheme="langsmith", Origin=STUDIO) == 401, path
    for path in ("/docs", "/info", "/openapi.json", "/metrics"):
        assert httpx.get(f"{URL}{path}", headers={"x-auth-scheme": "langsmith"}, timeout=30).status_code == 401, path
    assert status(Authorization="Bearer wrong") == status(x_api_key="wrong") == 401
    assert status(**SIGNED) == status(x_api_key=TOKEN) == status(Origin="http://localhost:3000", **SIGNED) == 200
    assert status(Origin="http://localhost:3000") == 403
