"""A home with runs and a matrix, a browser that is let in, and what a harmless page is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.crash.damage import make_home
from tests.tools.matrix.made import result_tree
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.runs import messages
from tuneloop.ui.app import build_app

TOKEN, BASE = "the-link", "http://127.0.0.1:19899"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></td><iframe src=https://evil.example></iframe>",
    "{{ 7777 * 9 }}{% raw %}",
    "' onmouseover='alert(1)",
    "<svg onload=alert(1)><style>*{color:red}</style>",
    "\x1b[2J\u202e<a href='javascript:alert(1)'>x</a>",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished run, an open one, and a matrix."""
    place = tmp_path_factory.mktemp("ui") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FT_FILE_PATH", str(place))
        make_home(place)
    result_tree(place / "results")
    return place


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Home:
    shutil.copytree(made, tmp_path / "home", symlinks=True)
    return Home(tmp_path / "home")


def stranger(home: Home) -> TestClient:
    """A browser without the cookie."""
    return TestClient(build_app(Settings(FT_FILE_PATH=home.root), TOKEN), base_url=BASE, follow_redirects=False)


@pytest.fixture
def page(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A browser that has opened the link."""
    monkeypatch.setattr(messages, "START_SECONDS", 0.1)
    with stranger(home) as client:
        assert client.get(f"/login?token={TOKEN}").headers["location"] == "/"
        yield client


class Seen(HTMLParser):
    """Elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_harmless(text: str) -> None:
    """Own scripts alone, no handler, no link that leaves or runs."""
    for tag, attributes in Seen(text).found:
        assert tag not in ("iframe", "object", "embed", "style", "base"), tag
        assert tag != "script" or attributes == {"src": "/static/live.js"}
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
        for name in ("href", "src", "action"):
            target = attributes.get(name) or ""
            assert target.startswith("/") or ":" not in target, target
