"""The provider's side: asks with the key, tries again where that helps, and tells errors without key and address."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tuneloop.tools.proxy.access import Upstream
from tuneloop.tools.proxy.asked import Asked
from tuneloop.tools.proxy.refusal import Refused

TRIES, TOO_MANY = 5, 429
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
TIMEOUTS = httpx2.Timeout(connect=10.0, read=300.0, write=60.0, pool=None)
ANSWER_BYTES, ERROR_BYTES, SAID = 32 << 20, 64 << 10, 500
LINE_BYTES = 4 << 20
HIDDEN = "[hidden]"


class Reply:
    """What the provider answers; `tries` requests were sent for it."""

    def __init__(self, response: httpx2.Response, tries: int, provider: Provider) -> None:
        self._response, self.tries, self._provider = response, tries, provider

    async def body(self) -> bytes:
        """All of it. Raises Refused when it breaks off or is too large."""
        found = bytearray()
        async for piece in self._pieces():
            found += piece
            if len(found) > ANSWER_BYTES:
                raise Refused(502, "upstream_too_large", f"the model's answer is larger than {ANSWER_BYTES >> 20} MiB")
        return self._provider.hide(bytes(found))

    async def lines(self) -> AsyncIterator[bytes]:
        """Line by line. Raises Refused when it breaks off."""
        rest = b""
        async for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > LINE_BYTES:
                raise Refused(502, "upstream_too_large", "a line of the model's answer has no end")
            for line in whole:
                yield self._provider.hide(line.rstrip(b"\r"))
        if rest:
            yield self._provider.hide(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except httpx2.TimeoutException as e:
            raise Refused(504, "upstream_timeout", "the model stopped in the middle of its answer", 1) from e
        except httpx2.HTTPError as e:
            raise Refused(502, "upstream_broken", "the model's answer broke off", 1) from e


class Provider:
    """One endpoint, with its key."""

    def __init__(self, upstream: Upstream) -> None:
        self.base = upstream.base
        headers = {"Accept-Encoding": "identity", "User-Agent": "tuneloop"}
        if upstream.key:
            headers["Authorization"] = f"Bearer {upstream.key}"
        host = httpx2.URL(upstream.base).netloc
        self._key = upstream.key.encode()
        self._secrets = [word for word in (self._key, host) if len(word) > 3]
        self._rests: dict[str, float] = {}  # model → when it may be asked again
        self._client = httpx2.AsyncClient(headers=headers, timeout=TIMEOUTS, trust_env=False, limits=httpx2.Limits())

    def hide(self, data: bytes) -> bytes:
        """Without the key, whoever echoes it."""
        return data.replace(self._key, HIDDEN.encode()) if self._key in self._secrets else data

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def reply(self, asked: Asked) -> AsyncIterator[Reply]:
        """The answer to a request, once it is a good one. Raises Refused, its `tries` set when the provider was reached."""
        for attempt in range(1, TRIES + 1):
            await self._rested(asked.model)
            try:
                response = await self._send(asked.endpoint, asked.content)
            except Refused as e:
                trouble = e
            else:
                try:
                    if response.status_code == 200:
                        yield Reply(response, attempt, self)
                        return
                    trouble = await self._trouble(response)
                finally:
                    await response.aclose()
            if trouble.wait is None or attempt == TRIES:
                raise Unanswered(trouble, attempt)
            pause = max(trouble.wait, FIRST_WAIT * 2**attempt * random.uniform(0.5, 1))
            if trouble.status == TOO_MANY:  # meant for everybody who asks this model, not only for who was told
                self._rests[asked.model] = max(self._rests.get(asked.model, 0.0), time.monotonic() + pause)
            await asyncio.sleep(pause)

    async def _rested(self, model: str) -> None:
        """Wait while the provider wants this model left alone."""
        while (left := self._rests.get(model, 0.0) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _send(self, endpoint: str, content: bytes) -> httpx2.Response:
        """Raises Refused; one without a wait was perhaps heard and may have cost."""
        headers = {"Content-Type": "application/json"}
        request = self._client.build_request("POST", f"{self.base}/{endpoint}", content=content, headers=headers)
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as e:
            raise Refused(502, "upstream_unreachable", "the model's endpoint cannot be reached", 0) from e
        except httpx2.TimeoutException as e:
            raise Refused(504, "upstream_timeout", "the model did not answer in time") from e
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            raise Refused(502, "upstream_broken", "the model's endpoint closed the connection", 0) from e

    async def _trouble(self, response: httpx2.Response) -> Refused:
        """An answer that is none."""
        told = await self._told(response)
        status, code = response.status_code, str(told.get("code") or "upstream_error")
        text = f"the model's endpoint answered {status}: {told.get('message') or 'no reason given'}"
        if status in (401, 403):
            return Refused(502, "upstream_refused_key", f"the model's endpoint refused the user's key ({status})")
        again = status in AGAIN and code not in FINAL_CODES
        passed = status if 400 <= status < 600 else 502
        return Refused(passed, self._clean(code)[:64], self._clean(text), asked_wait(response) if again else None)

    async def _told(self, response: httpx2.Response) -> dict[str, Any]:
        raw = b""
        try:
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > ERROR_BYTES:
                    return {}
            error = json.loads(raw)["error"]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        return error if isinstance(error, dict) else {"message": error}

    def _clean(self, text: str) -> str:
        """Without key and address, and not longer than a sentence is."""
        for word in self._secrets:
            text = text.replace(word.decode(), HIDDEN)
        return text[:SAID]


class Unanswered(Exception):  # noqa: N818 - an answer like any other
    """The provider gave no answer; `heard`: it may have worked for it all the same."""

    def __init__(self, refused: Refused, tries: int) -> None:
        super().__init__(refused.text)
        self.refused, self.tries = refused, tries
        self.heard = refused.code in ("upstream_timeout", "upstream_broken")


def asked_wait(response: httpx2.Response) -> float:
    """Seconds that the provider wants us to wait, within reason."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return min(max(float(response.headers[name]) / unit, 0.0), LONGEST_WAIT)
        except (KeyError, ValueError):
            continue
    return 0.0
