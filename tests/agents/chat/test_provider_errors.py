"""What a provider's refusal means, and how long it asks to wait."""

from __future__ import annotations

import time
from email.utils import formatdate

import httpx2
import openai
import pytest

from tuneloop.agents.chat.provider_errors import StreamCutError, classify, may_have_cost, retry_after


class RefusalError(Exception):
    """As providers' clients raise it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status


@pytest.mark.parametrize(
    ("status", "text", "meaning"),
    [
        (429, "slow down", "again"),
        (429, "You exceeded your current quota", "next"),
        (500, "boom", "again"),
        (529, "overloaded", "again"),
        (401, "no", "key"),
        (404, "no such model", "key"),
        (400, "context_length_exceeded: maximum context length is 8192", "long"),
        (413, "prompt is too long: 210000 tokens", "long"),
        (400, "content management policy", "refused"),
        (403, "blocked by content_filter", "refused"),
        (422, "tools: extra fields not permitted", "shape"),
        (200, "no JSON", "again"),
    ],
)
def test_meaning(status: int, text: str, meaning: str) -> None:
    assert classify(RefusalError(status, text)).meaning == meaning


def test_a_parameter_that_is_named_is_dropped() -> None:
    assert classify(RefusalError(400, "Unsupported value: 'temperature' does not support 0.5")).drop == "temperature"
    assert classify(RefusalError(400, "'stream_options' is unknown")).drop == "stream_options"
    assert classify(ConnectionResetError("reset by peer")).meaning == "again"


def test_an_answer_that_breaks_off_may_have_cost() -> None:
    request = httpx2.Request("POST", "http://m/v1")
    broken, unreached = openai.APIConnectionError(request=request), openai.APITimeoutError(request)
    broken.__cause__, unreached.__cause__ = httpx2.RemoteProtocolError("closed"), httpx2.ConnectTimeout("late")
    dear = (broken, openai.APITimeoutError(request), httpx2.ReadError("reset"), StreamCutError("cut"), TimeoutError())
    free = (unreached, httpx2.ConnectError("refused"), ConnectionRefusedError(), RefusalError(503, "busy"))
    assert [may_have_cost(e) for e in (*dear, *free)] == [True] * len(dear) + [False] * len(free)


def test_retry_after() -> None:
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    at = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert at is not None
    assert 0 < at <= 100
    assert [retry_after({"retry-after": text}) for text in ("soon", "", "-5", "1e9")] == [None] * 4
