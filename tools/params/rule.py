"""A rule about two or more keys: what breaks it, which line to change, and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tuneloop.tools.params.finding import Complaint, Level
from tuneloop.tools.params.situation import Profile, Situation


@dataclass(frozen=True)
class Rule:
    """`broken` says whether the config breaks it; `key` is the line to change; `only` the profile it is for."""

    key: str
    broken: Callable[[Situation], object]
    text: str
    level: Level = "error"
    only: Profile | None = None


def broken(rules: Iterable[Rule], s: Situation) -> Iterator[Complaint]:
    """Level, key and text of every rule that the config breaks."""
    for rule in rules:
        if rule.only in (None, s.profile) and rule.broken(s):
            yield rule.level, rule.key, rule.text


def warning(key: str, condition: Callable[[Situation], object], text: str) -> Rule:
    """A rule whose breaking lets a training start."""
    return Rule(key, condition, text, "warning")


def alike(keys: Iterable[str], condition: Callable[[Situation, str], object], text: str) -> tuple[Rule, ...]:
    """The same rule for several keys that are written and on."""
    return tuple(Rule(key, _of(key, condition), text) for key in keys)


def _of(key: str, condition: Callable[[Situation, str], object]) -> Callable[[Situation], object]:
    return lambda s: s.set(key) and condition(s, key)
