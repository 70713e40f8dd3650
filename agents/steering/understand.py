"""Words to meanings without a chat model; what is not understood is said to be unclear, never guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuneloop.core.directive import Directive, Finish, Meaning, Pause, Question, Reply, Revoke, Unclear

YES = re.compile(r"(?:yes|y|ok|okay|sure|go ahead|do it|confirmed?|approved?)\b(?:[,.: ]+(?P<why>.*))?", re.I)
NO = re.compile(r"(?:no|n|nope|don'?t|cancel|reject(?:ed)?)\b(?:[,.: ]+(?P<why>.*))?", re.I)
REVOKE = re.compile(r"(?:revoke|undo|take back|drop)\b(?P<ids>[ \d,#and]*)", re.I)
RULES: tuple[tuple[re.Pattern[str], Meaning], ...] = (
    (re.compile(r"\b(?:stop|finish|end)\b.*\bafter\b.*\b(?:this|current)\b", re.I), Finish()),
    (re.compile(r"^(?:please )?(?:stop|pause|halt|hold on|wait)(?: now| please)?$", re.I), Pause()),
    (re.compile(r"\bwhy\b.*\bfail", re.I), Question(about="failure")),
    (re.compile(r"\b(?:status|how.*going|what.*doing)\b", re.I), Question(about="status")),
    (re.compile(r"\b(?:directives|what did i (?:say|ask))\b", re.I), Question(about="directives")),
    (re.compile(r"^(?:help|\?)$", re.I), Question(about="help")),
)


@dataclass(frozen=True)
class Known:
    """What a run knows when it is spoken to: the run's directives, its data sets, its newest experiment."""

    directives: tuple[Directive, ...] = ()
    datasets: tuple[str, ...] = ()
    experiment: int = 0
    asked: bool = False

    @property
    def pending(self) -> Directive | None:
        """What waits for a yes, the newest."""
        return next((d for d in reversed(self.directives) if d.state == "pending"), None)


def understand(text: str, known: Known) -> tuple[Meaning, ...]:
    """Meanings of one message, in order; at least one."""
    said = " ".join(text.split()).strip(" .!?")
    if (known.pending or known.asked) and (match := YES.fullmatch(said)):
        return (Reply(yes=True, reason=match["why"] or ""),)
    if (known.pending or known.asked) and (match := NO.fullmatch(said)):
        return (Reply(yes=False, reason=match["why"] or ""),)
    if match := REVOKE.fullmatch(said):
        return (Revoke(ids=tuple(re.findall(r"\d+", match["ids"]))),)
    found = next((meaning for pattern, meaning in RULES if pattern.search(said)), None)
    return (found or Unclear(text=said),)
