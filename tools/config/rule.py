"""A rule about two or more keys: what breaks it, which line to change, and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tuneloop.tools.config.context import ConfigContext, Profile
from tuneloop.tools.config.finding import KeyProblem, Level


@dataclass(frozen=True)
class ConfigRule:
    """`find_broken_rules` says whether the config breaks it; `key` is the line to change; `only` the profile it is for."""

    key: str
    broken: Callable[[ConfigContext], object]
    text: str
    level: Level = "error"
    only: Profile | None = None


def find_broken_rules(rules: Iterable[ConfigRule], s: ConfigContext) -> Iterator[KeyProblem]:
    """Level, key and text of every rule that the config breaks."""
    for rule in rules:
        if rule.only in (None, s.profile) and rule.broken(s):
            yield rule.level, rule.key, rule.text


def warning(key: str, condition: Callable[[ConfigContext], object], text: str) -> ConfigRule:
    """A rule whose breaking lets a training start."""
    return ConfigRule(key, condition, text, "warning")


def same_rule(
    keys: Iterable[str], condition: Callable[[ConfigContext, str], object], text: str
) -> tuple[ConfigRule, ...]:
    """The same rule for several keys that are written and on."""
    return tuple(ConfigRule(key, _of(key, condition), text) for key in keys)


def _of(key: str, condition: Callable[[ConfigContext, str], object]) -> Callable[[ConfigContext], object]:
    return lambda s: s.set(key) and condition(s, key)
