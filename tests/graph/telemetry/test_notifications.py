"""Notifications arrive signed at a stand-in that speaks HTTP, and cost the run nothing when nobody is there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from tuneloop.cli.main import cli
from tuneloop.core.events import (
    Approval,
    Event,
    ExperimentFinished,
    JobProgress,
    LimitWarning,
    NodeFinished,
    RunFinished,
    RunPaused,
)
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.state import VERSION, State
from tuneloop.graph.telemetry import notifications
from tuneloop.graph.telemetry.notifications import Notification, Notifier, headline, sign

SECRET = "whsec_" + base64.b64encode(b"a key of the owner").decode()
PAUSED = RunPaused(reason="the disk is full")


class Receiver:
    """Requests that came in; `answers`: status codes of the next ones, then 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.url = ""

    def wait(self, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 20
        while len(self.requests) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return [json.loads(body) for _, body in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(found.answers.pop(0) if found.answers else 200)
            self.send_header("Location", f"{found.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(notifications, "WAITS", (0.01, 0.01))
    yield
    notifications._notifier.cache_clear()


@pytest.fixture
def emit(tmp_path: Path) -> Callable[..., None]:
    """Write events to a run's log as its nodes do."""

    def write(*events: Event, **given: Any) -> None:
        run = RunFolder(tmp_path / "home" / "runs" / "r1")
        run.root.mkdir(parents=True, exist_ok=True)
        settings = Settings(FT_FILE_PATH=tmp_path / "home", **given)
        for event in events:
            Context(run, settings, State(version=VERSION, run_id="r1")).emit(event)

    return write


def test_who_is_asked_ends_and_fails_is_told_and_nothing_else(emit: Callable[..., None], receiver: Receiver) -> None:
    failed = ExperimentFinished(experiment=2, outcome="failed", statement="A higher rate.")
    emit(
        NodeFinished(node="train", seconds=1),
        JobProgress(job="j", done=1, total=2),
        LimitWarning(of="money", spent=4, limit=5),
        Approval(experiment=3, when="launch", decision="asked"),
        Approval(experiment=3, when="launch", decision="yes"),
        failed,
        ExperimentFinished(experiment=2, outcome="promoted", statement="A higher rate."),
        PAUSED,
        RunFinished(report="report.md", says="71.4 on the sealed test", best=2),
        notify_url=receiver.url,
        notify_secret=SECRET,
    )
    told = receiver.wait(5)
    assert [(one["type"], one["text"]) for one in told] == [
        ("limit_near", "run r1 has spent 4.00 of 5.00 USD"),
        ("approval", "run r1 waits for a yes: launch of experiment 3"),
        ("experiment_finished", "run r1: experiment 2 has failed: A higher rate."),
        ("run_paused", "run r1 has stopped: the disk is full"),
        ("run_finished", "run r1 is finished: 71.4 on the sealed test"),
    ]
    assert told[2]["timestamp"] == failed.at.isoformat()
    assert told[2]["data"] == {
        "run": "r1", "experiment": 2, "outcome": "failed", "statement": "A higher rate.", "why": "", "seconds": 0
    }  # fmt: skip
    for headers, body in receiver.requests:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        right = base64.b64encode(hmac.new(b"a key of the owner", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{right}"
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


def test_the_signature_is_that_of_the_standards_own_example() -> None:
    message = Notification("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}')
    said = sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", message, 1614265330)
    assert said == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign("plain words", message, 1) != sign("whsec_plain words", message, 1)


def test_without_a_secret_nothing_is_signed(emit: Callable[..., None], receiver: Receiver) -> None:
    emit(PAUSED, notify_url=receiver.url)
    receiver.wait(1)
    assert "webhook-signature" not in receiver.requests[0][0]


def test_a_receiver_that_fails_is_tried_again_under_the_same_id(emit: Callable[..., None], receiver: Receiver) -> None:
    receiver.answers = [500, 503]
    emit(PAUSED, PAUSED.model_copy(update={"reason": "another"}), notify_url=receiver.url)
    reasons = [one["data"]["reason"] for one in receiver.wait(4)]
    assert reasons == ["the disk is full"] * 3 + ["another"]
    ids = [headers["webhook-id"] for headers, _ in receiver.requests]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = [307, 307, 307]
    notifier = Notifier(receiver.url, "", ())
    assert notifier.post(Notification("msg_1", b"{}")) == "HTTP 307 from the address of TUNELOOP_NOTIFY_URL"
    assert len(receiver.requests) == 3
    notifier.close()


def test_nobody_there_costs_one_line(emit: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "tuneloop.notifications"):
        emit(*[PAUSED] * 50, notify_url="http://127.0.0.1:9/secret-path")
        assert time.monotonic() - began < 2
        notifications._notifier("http://127.0.0.1:9/secret-path", "", ()).close(20)
    (said,) = caplog.messages
    assert said.startswith("notifications do not arrive; the run goes on without: ConnectError")
    assert "secret-path" not in said, "the address of a webhook is a secret of its own"


def test_a_command_gets_it_on_its_input_and_no_shell(emit: Callable[..., None], tmp_path: Path) -> None:
    out = tmp_path / "told $(touch shell).json"
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    command = shlex.join([sys.executable, "-c", code, str(out)])
    emit(PAUSED, notify_command=command)
    notifications._notifier(None, "", tuple(shlex.split(command))).close(20)
    assert json.loads(out.read_text())["text"] == "run r1 has stopped: the disk is full"
    assert not list(tmp_path.rglob("shell"))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (("no-such-program",), "no-such-program cannot be started: No such file or directory"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with exit code 3"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "took more than 0.5 s"),
    ],
)
def test_a_command_that_fails(program: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "COMMAND_SECONDS", 0.5)
    notifier = Notifier(None, "", program)
    assert said in notifier.run(Notification("msg_1", b"{}"))
    notifier.close()


@pytest.mark.parametrize(
    "address", ["ftp://host/x", "host/x", "http://", "http://host:0/x", "http://host:99999/", "http://[::1/"]
)
def test_a_wrong_address_is_refused_in_one_line(address: str) -> None:
    result = CliRunner().invoke(cli, ["run", "--benchmark", "wordproblems", "--notify", address])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith("right is https://host/path")


def test_a_command_is_never_read_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text("TUNELOOP_NOTIFY_COMMAND=touch /x\nTUNELOOP_NOTIFY_URL=https://example.org/a\n")
    found = load_settings(file)
    assert (found.notify_command, found.notify_url) == ((), "https://example.org/a")
    assert load_settings(file, notify_url="https://example.org/b").notify_url == "https://example.org/b"
    monkeypatch.setenv("TUNELOOP_NOTIFY_COMMAND", "notify-send 'a run'")
    assert load_settings(file).notify_command == ("notify-send", "a run")
    with pytest.raises(ValidationError, match="quoted as for a shell"):
        Settings(TUNELOOP_NOTIFY_COMMAND="touch 'x")


def test_without_an_address_there_is_no_thread(emit: Callable[..., None]) -> None:
    before = threading.active_count()
    emit(PAUSED)
    assert threading.active_count() == before
    assert headline("r", NodeFinished(node="train", seconds=1)) is None
