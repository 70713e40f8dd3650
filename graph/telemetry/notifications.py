"""Notifications of a run: a signed webhook, a command of the owner, when it ends, fails, nears a limit or asks.

Requests follow Standard Webhooks 1.0 (standardwebhooks.com), whose libraries verify the signature. Only what
`events.jsonl` says is sent; the sealed test is in no event before `run_finished`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from dataclasses import dataclass
from functools import cache

import tuneloop
from tuneloop.core.async_bridge import pause
from tuneloop.core.budget import SpendingLine
from tuneloop.core.events import Approval, Event, ExperimentFinished, LimitWarning, RunFinished, RunPaused
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.telemetry.sender import BackgroundSender
from tuneloop.sandboxes.detached import run_program

WAITS = (1.0, 4.0)  # seconds before the second and the third try
SILENCE = 5.0  # seconds that a receiver may take
COMMAND_SECONDS = 60.0
LAST_SECONDS = 10.0
SAY = logging.getLogger("tuneloop.notifications")


@dataclass(frozen=True)
class Notification:
    """`id` is the same in every try; `body`: JSON with `type`, `timestamp`, `text` and `data`."""

    id: str
    body: bytes


def notify(run: RunFolder, settings: Settings, event: Event) -> None:
    """Called after `event` was appended to the run's log; returns at once."""
    if settings.notify_url is None and not settings.notify_command:
        return
    if (text := headline(run.id, event)) is not None:
        secret = settings.notify_secret.get_secret_value() if settings.notify_secret else ""
        _notifier(settings.notify_url, secret, settings.notify_command).put(notification(run.id, event, text))


def headline(run: str, event: Event) -> str | None:
    """What a person is told, in one line; None: the event is not worth a message."""
    match event:
        case RunFinished():
            return f"run {run} is finished: {event.says}"
        case RunPaused():
            return f"run {run} has stopped: {event.reason}"
        case LimitWarning():
            return f"run {run} has spent {SpendingLine(event.of, event.spent, event.limit)}"
        case Approval(decision="asked"):
            return f"run {run} waits for a yes: {event.when} of experiment {event.experiment}"
        case ExperimentFinished(outcome="failed"):
            return f"run {run}: experiment {event.experiment} has failed: {event.statement}"
        case _:
            return None


def notification(run: str, event: Event, text: str) -> Notification:
    """The message of an event."""
    data = {"run": run, **event.model_dump(mode="json", exclude_none=True, exclude={"kind", "at"})}
    body = json.dumps({"type": event.kind, "timestamp": event.at.isoformat(), "text": text, "data": data}).encode()
    return Notification("msg_" + hashlib.sha256(run.encode() + body).hexdigest()[:32], body)


def sign(secret: str, message: Notification, timestamp: int) -> str:
    """The header `webhook-signature`. `secret`: `whsec_` and base64, or any other text as it is."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            SAY.debug("the secret after whsec_ is not base64: its letters are the key")
    signed = hmac.new(key, f"{message.id}.{timestamp}.".encode() + message.body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


@cache
def _notifier(url: str | None, secret: str, command: tuple[str, ...]) -> Notifier:
    return Notifier(url, secret, command)


class Notifier(BackgroundSender[Notification]):
    """Sends to one URL and one command; what does not arrive is worth one line on stderr."""

    def __init__(self, url: str | None, secret: str, command: tuple[str, ...]) -> None:
        import httpx2  # here: a thread cannot import while the process ends

        self.url, self.secret, self.command = url, secret, command
        self.client = httpx2.Client(timeout=SILENCE, follow_redirects=False)
        self.errors = (httpx2.HTTPError, httpx2.InvalidURL)
        self.warned = False
        super().__init__("notifications", self.deliver, LAST_SECONDS)

    def deliver(self, message: Notification) -> None:
        """To both; neither waits for the other's success."""
        for problem in (self.post(message) if self.url else "", self.run(message) if self.command else ""):
            if problem and not self.warned:
                self.warned = True
                SAY.warning("notifications do not arrive; the run goes on without: %s", problem)

    def run(self, message: Notification) -> str:
        """Give it to the command on its standard input; what went wrong, "" when nothing did."""
        return run_program(self.command, message.body, COMMAND_SECONDS)

    def post(self, message: Notification) -> str:
        """Three tries; what went wrong with the last, "" when it arrived."""
        problem = self.post_once(message)
        for seconds in WAITS:
            if not problem:
                break
            pause(seconds)
            problem = self.post_once(message)
        return problem

    def post_once(self, message: Notification) -> str:
        """One try."""
        now = int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": f"tuneloop/{tuneloop.__version__}",
            "webhook-id": message.id,
            "webhook-timestamp": str(now),
        }
        if self.secret:
            headers["webhook-signature"] = sign(self.secret, message, now)
        try:
            answer = self.client.post(str(self.url), content=message.body, headers=headers)
        except self.errors as e:
            return f"{type(e).__name__} at the address of TUNELOOP_NOTIFY_URL"
        return "" if answer.is_success else f"HTTP {answer.status_code} from the address of TUNELOOP_NOTIFY_URL"
