"""What providers do wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chat_server.replies import Reply


@dataclass(frozen=True)
class Refuse:
    """An error of the provider: 429, 500, 400 and so on."""

    status: int
    message: str = "boom"
    code: str = "boom"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The connection breaks after `pieces` of the answer; a whole answer breaks in the middle."""

    reply: Reply
    pieces: int = 3


@dataclass(frozen=True)
class Hang:
    """Nothing comes, until the server ends; `pieces` come first where the answer is streamed."""

    reply: Reply = field(default_factory=Reply)
    pieces: int = 0


@dataclass(frozen=True)
class Garbage:
    """Status 200 and a body that is no answer."""

    body: bytes = b"<html>proxy error</html>"
