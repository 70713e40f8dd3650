"""Slash commands of the chat: what they mean is typed, nobody has to understand them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tuneloop.core.directive import Approve, Finish, Meaning, Pause, Question, Reply, Revoke, Unclear
from tuneloop.core.errors import SetupError

MODES = ("none", "plan", "launch")


@dataclass(frozen=True)
class Slash:
    """One command; `means` makes what is said to the run of the words after it, None: the chat itself does it."""

    usage: str
    does: str
    means: Callable[[str], Meaning] | None = None


def revoked(words: str) -> Meaning:
    """`/revoke 3 4`; without numbers the newest."""
    return Revoke(ids=tuple(re.findall(r"\d+", words)))


def approval(words: str) -> Meaning:
    """`/approve`, `/approve no too dear`, `/approve launch`."""
    first, _, rest = words.partition(" ")
    if first in MODES:
        return Approve.model_validate({"at": first})
    if first in ("", "yes", "no"):
        return Reply(yes=first != "no", reason=rest.strip())
    return Unclear(text=f"/approve {words}")


SLASHES = {
    "help": Slash("/help", "this list"),
    "status": Slash("/status", "where the run stands", lambda _: Question(about="status")),
    "budget": Slash("/budget", "what is spent, and what is left", lambda _: Question(about="budget")),
    "directives": Slash(
        "/directives", "what was asked of the run and still holds", lambda _: Question(about="directives")
    ),
    "revoke": Slash("/revoke N", "take a directive back", revoked),
    "finish": Slash("/finish", "end the search after the open experiment", lambda _: Finish()),
    "pause": Slash("/pause", "stop now, keep everything", lambda _: Pause()),
    "resume": Slash("/resume", "go on in the background"),
    "approve": Slash(
        "/approve [yes|no REASON|none|plan|launch]", "answer what the run asks, or say when it asks", approval
    ),
    "edit": Slash("/edit", "change what waits for approval in $EDITOR"),
    "report": Slash("/report", "the result"),
    "quit": Slash("/quit", "leave; the run goes on"),
}


def parsed(text: str) -> tuple[str, Meaning | None]:
    """What is said, and what it means where that is known. Raises SetupError for a command that there is not."""
    if not text.startswith("/"):
        return text, None
    name, _, words = text[1:].strip().partition(" ")
    slash = SLASHES.get(name)
    if slash is None or slash.means is None:
        right = ", ".join(f"/{n}" for n, one in SLASHES.items() if one.means)
        raise SetupError(f"no /{name[:40]} to say to a run; right is one of {right}")
    return text, slash.means(words.strip())


def listed() -> str:
    """`/help`."""
    width = max(len(slash.usage) for slash in SLASHES.values())
    return "\n".join(f"{slash.usage:{width}}  {slash.does}" for slash in SLASHES.values())
