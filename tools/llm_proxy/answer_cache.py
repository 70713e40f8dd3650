"""The cache of repeatable answers: `cache/answers/<2 hex>/<key>.json`, or the run's own folder.

Cached are whole answers to repeatable requests (temperature 0, a seed, an embedding, a numbered sample). The key is a hash
of the provider's address and the whole request; the file holds the answer only. The cache may be deleted at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tuneloop.core.files import digest, read_json, write_json
from tuneloop.tools.llm_proxy.model_request import ModelRequest


@dataclass(frozen=True)
class Answer:
    """The body that a client gets: JSON, or the events of a stream. `reported`: the provider counted its tokens."""

    body: str
    tokens_in: int
    tokens_out: int
    reported: bool


def cache_key(base: str, request: ModelRequest) -> str:
    """A hash of everything that can change the answer; streamed answers have keys of their own."""
    canonical = json.dumps(json.loads(request.content), sort_keys=True, separators=(",", ":"))
    parts = [base, request.endpoint, str(request.stream), str(request.wants_usage), canonical]
    if request.sample >= 0:
        parts.append(str(request.sample))
    h = sha256()
    for part in parts:
        data = part.encode()
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()


class AnswerCache:
    """The cache below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: defaultdict[str, int] = defaultdict(int)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Only one request with this key asks the provider; equal ones wait for its answer."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]

    async def read(self, key: str) -> Answer | None:
        """The whole answer; None when it is missing or broken."""
        return await asyncio.to_thread(self._read, key)

    async def write(self, key: str, answer: Answer) -> None:
        """Keep the answer; after a failed write it is asked for again."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(write_json, self._path(key), {**vars(answer), "digest": checksum(key, answer)})

    def _read(self, key: str) -> Answer | None:
        try:
            found = read_json(self._path(key))
            written = found.pop("digest")
            answer = Answer(**found)
            return answer if written == checksum(key, answer) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _path(self, key: str) -> Path:
        return self._root / key[:2] / f"{key}.json"


def checksum(key: str, answer: Answer) -> str:
    """Detects a broken file."""
    return digest(key, answer.body, str(answer.tokens_in), str(answer.tokens_out))
