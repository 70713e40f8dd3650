"""Answers that anyone may have again for the same request: `cache/answers/<2 hex>/<key>.json`, or the run's own.

Kept is what was asked to be repeatable (temperature 0, a seed, an embedding, a numbered sample) and answered whole. The key is
a hash of endpoint and everything of the request; the file holds the answer, not the request. It may be deleted at any time.
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
from tuneloop.tools.proxy.asked import Asked


@dataclass(frozen=True)
class Answer:
    """The body as a client gets it: JSON, or the events of a stream."""

    body: str
    tokens_in: int
    tokens_out: int
    told: bool


def key_of(base: str, asked: Asked) -> str:
    """Of everything that can change the answer; streamed answers have keys of their own."""
    canonical = json.dumps(json.loads(asked.content), sort_keys=True, separators=(",", ":"))
    parts = [base, asked.endpoint, str(asked.stream), str(asked.wants_usage), canonical]
    if asked.sample >= 0:
        parts.append(str(asked.sample))
    h = sha256()
    for part in parts:
        data = part.encode()
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()


class Answers:
    """Below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._turns: dict[str, asyncio.Lock] = {}
        self._users: defaultdict[str, int] = defaultdict(int)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """One asks, those who want the same meanwhile wait for its answer."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._turns[key]

    async def read(self, key: str) -> Answer | None:
        """The whole answer; a broken one is as good as none."""
        return await asyncio.to_thread(self._read, key)

    async def write(self, key: str, answer: Answer) -> None:
        """Keep it; where that fails it will be asked for again."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(write_json, self._place(key), {**vars(answer), "digest": seal(key, answer)})

    def _read(self, key: str) -> Answer | None:
        try:
            found = read_json(self._place(key))
            written = found.pop("digest")
            answer = Answer(**found)
            return answer if written == seal(key, answer) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _place(self, key: str) -> Path:
        return self._root / key[:2] / f"{key}.json"


def seal(key: str, answer: Answer) -> str:
    """Tells a broken file."""
    return digest(key, answer.body, str(answer.tokens_in), str(answer.tokens_out))
