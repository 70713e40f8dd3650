"""Writes what happens while an answer is found, and gives back what happened before an interruption."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from pathlib import Path

from tuneloop.core.files import append_line, digest
from tuneloop.core.redaction import SecretRedactor
from tuneloop.core.transcript import (
    Message,
    ModelCall,
    ToolRequest,
    ToolUse,
    TranscriptEnded,
    TranscriptLine,
    TranscriptStarted,
    read_transcript,
)


class TranscriptRecorder:
    """Of one answer. `live` False: nothing is written, and what is not recorded can't be had."""

    def __init__(self, path: Path, secrets: SecretRedactor, *, live: bool = True) -> None:
        self.path, self.live, self._secrets = path, live, secrets
        self.told: TranscriptStarted | None = None
        self.ended: TranscriptEnded | None = None
        self._replies: dict[str, ModelCall] = {}
        self._tools: dict[str, deque[ToolUse]] = defaultdict(deque)
        self._spent: Counter[str] = Counter()
        self._said: list[Message] = []
        for line in read_transcript(path):
            self._index_line(line)

    def _index_line(self, line: TranscriptLine) -> None:
        match line:
            case TranscriptStarted():
                self.told = line
            case ModelCall():
                self._index_call(line)
            case ToolUse():
                self._tools[call_key(line.name, line.arguments)].append(line)
            case TranscriptEnded():
                self.ended = line

    def begin(self, told: TranscriptStarted) -> None:
        """The first line; repeated where an interrupted answer is asked for with another prompt."""
        if self.told != told:
            self._write(told)
            self.told = told

    def call(self, request: str) -> ModelCall | None:
        """The recorded call with this request that was made last."""
        return self._replies.get(request)

    def spent(self, request: str) -> int:
        """Tokens of all calls with this request."""
        return self._spent[request]

    def tool(self, name: str, arguments: dict[str, object]) -> ToolUse | None:
        """The next recorded result of this call of a tool; each is given once."""
        waiting = self._tools[call_key(name, arguments)]
        return waiting.popleft() if waiting else None

    def new(self, messages: Sequence[Message]) -> tuple[int, tuple[Message, ...]]:
        """How many of the messages the call before had sent too, and the others."""
        same = 0
        for old, now in zip(self._said, messages, strict=False):
            if old != now:
                break
            same += 1
        return same, tuple(messages[same:])

    def write(self, line: ModelCall | ToolUse | TranscriptEnded) -> None:
        """Append what is over."""
        if isinstance(line, ModelCall):
            self._index_call(line)
        self._write(line)

    def _index_call(self, line: ModelCall) -> None:
        self._said = [*self._said[: line.kept], *line.messages]
        self._replies[line.request] = line
        self._spent[line.request] += line.tokens.all

    def _write(self, line: TranscriptLine) -> None:
        if self.live:
            clean = type(line).model_validate(self._secrets.blot(line.model_dump(mode="json")))
            append_line(self.path, clean.model_dump_json())


def call_key(name: str, arguments: dict[str, object]) -> str:
    """What makes two calls of a tool the same."""
    return digest(ToolUse(name=name, arguments=arguments).model_dump_json())


def with_call_ids(asks: Sequence[ToolRequest], call: int) -> tuple[ToolRequest, ...]:
    """Wishes with ids where the provider gave none."""
    return tuple(a if a.id else a.model_copy(update={"id": f"call_{call}_{i}"}) for i, a in enumerate(asks))
