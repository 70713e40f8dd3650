"""The provider's side: sends requests with the key, retries, and reports errors without the key and the address."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tuneloop.tools.llm_proxy.access import Upstream
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.model_request import ModelRequest

MAX_ATTEMPTS, TOO_MANY_REQUESTS = 5, 429
MIN_WAIT, MAX_WAIT = 0.5, 60.0
RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
TIMEOUTS = httpx2.Timeout(connect=10.0, read=300.0, write=60.0, pool=None)
ANSWER_BYTES, ERROR_BYTES, ERROR_CHARACTERS = 32 << 20, 64 << 10, 500
LINE_BYTES = 4 << 20
HIDDEN = "[hidden]"


class Reply:
    """The provider's answer, after `tries` attempts."""

    def __init__(self, response: httpx2.Response, tries: int, provider: Provider) -> None:
        self._response, self.tries, self._provider = response, tries, provider

    async def body(self) -> bytes:
        """The whole body. Raises ApiError when it breaks off or is too large."""
        found = bytearray()
        async for piece in self._pieces():
            found += piece
            if len(found) > ANSWER_BYTES:
                raise ApiError(502, "upstream_too_large", f"the model's answer is larger than {ANSWER_BYTES >> 20} MiB")
        return self._provider.hide(bytes(found))

    async def lines(self) -> AsyncIterator[bytes]:
        """The body line by line. Raises ApiError when it breaks off."""
        rest = b""
        async for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > LINE_BYTES:
                raise ApiError(502, "upstream_too_large", "a line of the model's answer has no end")
            for line in whole:
                yield self._provider.hide(line.rstrip(b"\r"))
        if rest:
            yield self._provider.hide(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except httpx2.TimeoutException as e:
            raise ApiError(504, "upstream_timeout", "the model stopped in the middle of its answer", 1) from e
        except httpx2.HTTPError as e:
            raise ApiError(502, "upstream_broken", "the model's answer broke off", 1) from e


class Provider:
    """One provider, with its key."""

    def __init__(self, upstream: Upstream) -> None:
        self.base = upstream.base
        headers = {"Accept-Encoding": "identity", "User-Agent": "tuneloop"}
        if upstream.key:
            headers["Authorization"] = f"Bearer {upstream.key}"
        host = httpx2.URL(upstream.base).netloc
        self._key = upstream.key.encode()
        self._secrets = [word for word in (self._key, host) if len(word) > 3]
        self._paused_until: dict[str, float] = {}  # by model, after a 429
        self._client = httpx2.AsyncClient(headers=headers, timeout=TIMEOUTS, trust_env=False, limits=httpx2.Limits())

    def hide(self, data: bytes) -> bytes:
        """The data without the key, which a provider may echo."""
        return data.replace(self._key, HIDDEN.encode()) if self._key in self._secrets else data

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def reply(self, request: ModelRequest) -> AsyncIterator[Reply]:
        """The answer to a request, with retries. Raises UpstreamError."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            await self._wait_for(request.model)
            try:
                response = await self._send(request.endpoint, request.content)
            except ApiError as e:
                error = e
            else:
                try:
                    if response.status_code == 200:
                        yield Reply(response, attempt, self)
                        return
                    error = await self._error(response)
                finally:
                    await response.aclose()
            if error.retry_after is None or attempt == MAX_ATTEMPTS:
                raise UpstreamError(error, attempt)
            pause = max(error.retry_after, MIN_WAIT * 2**attempt * random.uniform(0.5, 1))
            if error.status == TOO_MANY_REQUESTS:  # the rate limit holds for all requests of this model
                self._paused_until[request.model] = max(
                    self._paused_until.get(request.model, 0.0), time.monotonic() + pause
                )
            await asyncio.sleep(pause)

    async def _wait_for(self, model: str) -> None:
        """Wait while the provider limits the rate of this model."""
        while (left := self._paused_until.get(model, 0.0) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _send(self, endpoint: str, content: bytes) -> httpx2.Response:
        """Raises ApiError; without `retry_after` the provider may have worked for the request."""
        headers = {"Content-Type": "application/json"}
        request = self._client.build_request("POST", f"{self.base}/{endpoint}", content=content, headers=headers)
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as e:
            raise ApiError(502, "upstream_unreachable", "the model's endpoint cannot be reached", 0) from e
        except httpx2.TimeoutException as e:
            raise ApiError(504, "upstream_timeout", "the model did not answer in time") from e
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            raise ApiError(502, "upstream_broken", "the model's endpoint closed the connection", 0) from e

    async def _error(self, response: httpx2.Response) -> ApiError:
        """The client's form of an error response."""
        found = await self._error_object(response)
        status, code = response.status_code, str(found.get("code") or "upstream_error")
        text = f"the model's endpoint answered {status}: {found.get('message') or 'no reason given'}"
        if status in (401, 403):
            return ApiError(502, "upstream_refused_key", f"the model's endpoint refused the user's key ({status})")
        retry = status in RETRY_STATUSES and code not in FINAL_CODES
        forwarded = status if 400 <= status < 600 else 502
        return ApiError(forwarded, self._clean(code)[:64], self._clean(text), retry_after(response) if retry else None)

    async def _error_object(self, response: httpx2.Response) -> dict[str, Any]:
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
        """The text without key and address, shortened."""
        for word in self._secrets:
            text = text.replace(word.decode(), HIDDEN)
        return text[:ERROR_CHARACTERS]


class UpstreamError(Exception):
    """The provider gave no answer after `tries` attempts; `may_have_cost`: it may have worked for the request."""

    def __init__(self, error: ApiError, tries: int) -> None:
        super().__init__(error.text)
        self.error, self.tries = error, tries
        self.may_have_cost = error.code in ("upstream_timeout", "upstream_broken")


def retry_after(response: httpx2.Response) -> float:
    """Seconds to wait by the provider's headers, at most MAX_WAIT."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return min(max(float(response.headers[name]) / unit, 0.0), MAX_WAIT)
        except (KeyError, ValueError):
            continue
    return 0.0
