"""The transcript of one answer of an agent: every call of a model and of a tool, in `answers/<agent>.<attempt>.calls.jsonl`.

A line is written as soon as what it tells is over. An answer that was interrupted goes on from them, and a run is
replayed from them: the same request gets the reply that was given, the same call of a tool the same result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tuneloop.core.files import digest, raw_lines
from tuneloop.core.frozen import Frozen
from tuneloop.core.layout import RunFolder

TRANSCRIPT_SUFFIX = ".calls.jsonl"
Role = Literal["system", "user", "assistant", "tool"]


class ToolRequest(Frozen):
    """A model's tool call. `broken`: its arguments as they came, where they were no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    broken: str = ""


class Message(Frozen):
    """One message of a conversation with a model. `call`: the id of the call that a tool's result answers."""

    role: Role
    content: Any = ""
    asks: tuple[ToolRequest, ...] = ()
    call: str = ""
    name: str = ""
    ended: str = Field("", description="of a reply: why the provider ended it, e.g. stop, length, content_filter")
    refused: str = ""

    @property
    def text(self) -> str:
        """The text of the reply, whatever form the provider uses."""
        if isinstance(self.content, str):
            return self.content
        blocks = self.content if isinstance(self.content, list) else []
        return "".join(str(b.get("text", "")) if isinstance(b, dict) else str(b) for b in blocks)


class Tokens(Frozen):
    """What a call took. `estimated`: the provider didn't say."""

    into: int = 0
    out: int = 0
    cached: int = Field(0, description="of those in, read from the provider's cache")
    estimated: bool = False

    @property
    def all(self) -> int:
        """In and out."""
        return self.into + self.out


class TranscriptStarted(Frozen):
    """The first line, and one when it changed: who is asked for what, and all the decision rests on but the tools."""

    kind: Literal["begun"] = "begun"
    agent: str
    planner: str
    want: str
    tools: tuple[str, ...]
    prompt: str = Field(description="digest of what the agent is told")
    brief: dict[str, Any]
    steps: int = Field(description="calls of the model that the answer may take")
    tokens: int = Field(description="tokens that the answer may take")


class ModelCall(Frozen):
    """One request to a chat model. Of its messages the first `kept` stand in the lines before."""

    kind: Literal["call"] = "call"
    request: str
    model: str
    dialect: str
    kept: int
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    outcome: Literal["answered", "failed"]
    reply: Message | None = None
    error: str = ""
    meaning: str = Field("", description="of a failure: again, next, shape, long, refused, key")
    tokens: Tokens = Tokens()
    seconds: float = 0
    cost: float | None = None


class ToolUse(Frozen):
    """One call of a tool: its result, or its sentence that says what was wrong."""

    kind: Literal["tool"] = "tool"
    name: str
    arguments: dict[str, Any]
    result: Any = None
    error: str | None = None


class TranscriptEnded(Frozen):
    """The last line: the answer, or why there is none; `by`: the model that gave it, or `offline`."""

    kind: Literal["ended"] = "ended"
    by: str
    answer: dict[str, Any] | None = None
    error: str = ""


TranscriptLine = Annotated[TranscriptStarted | ModelCall | ToolUse | TranscriptEnded, Field(discriminator="kind")]
TRANSCRIPT_LINE: TypeAdapter[TranscriptLine] = TypeAdapter(TranscriptLine, config=ConfigDict(defer_build=True))


class CallLedger(Protocol):
    """Where calls of models are booked, so that one that was killed half-way is counted too."""

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:
        """Record a call before it is sent, with the tokens to count should no answer arrive; returns its name.

        Raises LimitReachedError when they do not fit into what the run may spend.
        """
        ...

    def end(self, name: str, call: ModelCall) -> None:
        """Book it."""
        ...


def request_hash(messages: Sequence[Message], tools: Sequence[str]) -> str:
    """What makes two requests of one answer the same."""
    said = [message.model_dump(mode="json") for message in messages]
    return digest(json.dumps([said, sorted(tools)], ensure_ascii=False, sort_keys=True))


def read_transcript(path: Path) -> Iterator[TranscriptLine]:
    """Every complete line; one that a crash cut off is skipped."""
    if not path.is_file():
        return
    for raw in raw_lines(path):
        try:
            yield TRANSCRIPT_LINE.validate_json(raw)
        except ValidationError:
            continue


def list_transcripts(run: RunFolder) -> list[Path]:
    """All of a run, in the order in which they were begun."""
    found = [*run.experiments.glob(f"*/answers/*{TRANSCRIPT_SUFFIX}"), *run.answers.glob(f"*{TRANSCRIPT_SUFFIX}")]
    return sorted(found, key=lambda path: (transcript_experiment(path), path.stat().st_mtime))


def transcript_experiment(path: Path) -> int:
    """Of a transcript: its experiment; 0: the conversation with the user."""
    return int(path.parts[-3]) if path.parts[-4] == "experiments" else 0


def transcript_attempt(path: Path) -> int:
    """Of a transcript: which attempt of its agent."""
    return int(path.name.removesuffix(TRANSCRIPT_SUFFIX).rpartition(".")[2])


def transcript_path(answers: Path, agent: str, attempt: int) -> Path:
    """Its file beside the answer."""
    return answers / f"{agent}.{attempt}{TRANSCRIPT_SUFFIX}"
