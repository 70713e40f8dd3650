"""Asks one thing of a model through the job's door, again where that helps. Standard library only.

The door speaks OpenAI's protocol at OPENAI_BASE_URL; behind it the proxy tries again by itself before it says that the
provider is at fault. What differs between providers is learnt from their refusals: a field that goes by another name, one
that they do not know.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

PATIENCE = 120.0  # seconds while the proxy itself is away
PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 0.5, 20.0, 60.0
WAIT = 600.0  # seconds for one answer
ANSWER_BYTES, ERROR_BYTES, SAID = 32 << 20, 1 << 16, 500
SPENT = "limit_reached"
FATAL = ("upstream_refused_key", "model_not_allowed", "not_allowed", "unknown_endpoint", "wrong_token")
AGAIN = (408, 409, 425, 429)
RENAMED = {"max_tokens": "max_completion_tokens"}


class EndpointError(Exception):
    """Asking anything else would end the same way."""


class NoAnswer(Exception):  # noqa: N818 - an outcome
    """One request has none; the others may."""


class Spent(NoAnswer):
    """What may be used is used; what was paid for before is still to be had."""


class Down(NoAnswer):
    """The provider was at fault, not the request."""


@dataclass(frozen=True)
class Said:
    """Text, what was thought before it, how it ended, who says to have written it; `kept`: it was paid for before."""

    text: str
    thought: str
    finish: str
    model: str
    kept: bool


class Door:
    """What all requests of a job share. `tries`: how often a provider that is at fault is asked."""

    def __init__(self, tries: int) -> None:
        self.url, self.token = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
        self.tries = tries
        self.left_out: set[str] = set()
        self.renamed: set[str] = set()

    def ask(self, path: str, body: dict[str, Any], spare: tuple[str, ...] = ()) -> Said:
        """The answer; `spare`: fields that the endpoint may do without. Raises NoAnswer or EndpointError."""
        failed, pause, until = 0, PAUSE, time.monotonic() + PATIENCE
        while True:
            fitted = self.fitted(body, spare)
            try:
                return said(*self.post(path, fitted))
            except urllib.error.HTTPError as e:
                status, code, text = trouble(e)
                if status in (400, 422) and (self.adapt(body, spare, text) or fitted != self.fitted(body, spare)):
                    continue
                if code == SPENT:
                    raise Spent(f"{SPENT}: {text}") from e
                if code in FATAL or status == 404:
                    raise EndpointError(text) from e
                if status < 500 and status not in AGAIN:
                    raise NoAnswer(f"{status} {code}: {text}") from e
                failed += code != "interrupted"
                if failed >= self.tries or time.monotonic() > until:
                    raise Down(text) from e
                pause = max(pause, asked_wait(e))
            except (OSError, http.client.HTTPException) as e:
                if time.monotonic() > until:
                    raise EndpointError(f"the model proxy does not answer: {e}") from e
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def fitted(self, body: dict[str, Any], spare: tuple[str, ...]) -> dict[str, Any]:
        """The request as this endpoint takes it."""
        kept = {name: value for name, value in body.items() if name not in self.left_out or name not in spare}
        return {RENAMED[name] if name in self.renamed else name: value for name, value in kept.items()}

    def adapt(self, body: dict[str, Any], spare: tuple[str, ...], text: str) -> bool:
        """Whether a field was refused that goes by another name here, or need not be there."""
        named = [name for name in self.fitted(body, spare) if any(f"{q}{name}{q}" in text for q in "'\"`")]
        for name in named:
            if name in RENAMED and name not in self.renamed and RENAMED[name] in text:
                self.renamed.add(name)
                return True
            if name in spare and name not in self.left_out:
                self.left_out.add(name)
                return True
        return False

    def post(self, path: str, body: dict[str, Any]) -> tuple[Any, bool]:
        """The answer's JSON, and whether it was kept from before. Raises OSError, HTTPException, NoAnswer."""
        with self.open(path, json.dumps(body).encode()) as answer:
            data, kept = answer.read(ANSWER_BYTES + 1), answer.headers.get("x-tuneloop-kept") == "true"
        try:
            return json.loads(data), kept
        except (ValueError, RecursionError) as e:
            raise NoAnswer("the endpoint answered something other than JSON") from e

    def get(self, path: str) -> Any:
        """What the door itself says. Raises NoAnswer."""
        try:
            with self.open(path) as answer:
                return json.load(answer)
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise NoAnswer(f"the door says nothing at {path}: {e}") from e

    def open(self, path: str, data: bytes | None = None) -> Any:
        """GET, or POST of `data`."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.url}/{path}", data, headers)  # noqa: S310 - our door
        return urllib.request.urlopen(asked, timeout=WAIT)  # noqa: S310


def said(answer: Any, kept: bool) -> Said:
    """A chat's or a completion's first choice. Raises NoAnswer."""
    try:
        choice = answer["choices"][0]
        message = choice["message"] if "message" in choice else {"content": choice["text"]}
        text, thought = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
        finish, model = str(choice.get("finish_reason") or ""), str(answer.get("model") or "")
    except (LookupError, TypeError, AttributeError) as e:
        raise NoAnswer("the endpoint's answer has no choices") from e
    text, thought = (one if isinstance(one, str) else "" for one in (text, thought))
    return Said(text, thought, finish, model[:200], kept)


def trouble(error: urllib.error.HTTPError) -> tuple[int, str, str]:
    """Status, code and words of a refusal."""
    try:
        told = json.loads(error.read(ERROR_BYTES))["error"]
        return error.code, str(told.get("code") or ""), str(told.get("message") or "")[:SAID]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, http.client.HTTPException):
        return error.code, "", f"status {error.code}"


def asked_wait(error: urllib.error.HTTPError) -> float:
    """Seconds that the answer wants us to wait, within reason."""
    try:
        return min(max(float(error.headers["Retry-After"]), 0.0), LONGEST_ASKED)
    except (KeyError, TypeError, ValueError):
        return 0.0
