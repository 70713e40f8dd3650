"""Phrasings with what they mean, and how far understanding agrees with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from tests.agents.steering.teaching import learning
from tuneloop.agents.steering import Known, understand
from tuneloop.core.directive import Bound, Directive, Meaning, Publish, Sources, Unclear
from tuneloop.core.ledger import Limits

HERE = Path(__file__).parent
MEANING: TypeAdapter[Meaning] = TypeAdapter(Meaning)
GIVEN = (
    Directive(id="1", said="lr <= 1e-4", wish=Bound(parameter="learning_rate", at_most=1e-4)),
    Directive(id="2", said="no forum", wish=Sources(never=("raw/forum_posts.jsonl",))),
)
WAITING = Directive(id="3", said="push it to the hub", wish=Publish(to="hub"), state="pending")


def phrasings(name: str) -> list[dict[str, Any]]:
    """The lines of a corpus."""
    found: list[dict[str, Any]] = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def known(*, pending: bool = False) -> Known:
    """A run with three sources of one data set and a further set, two directives, and a best config."""
    return replace(
        learning.said_of(),
        directives=(*GIVEN, WAITING) if pending else GIVEN,
        experiment=3,
        now={"learning_rate": 2e-4, "lora_rank": 8},
        experiments_left=3,
        seconds_left=3600.0,
        limits=Limits(seconds=7200, gpu_hours=4, tokens=100_000, money=5),
        experiments_limit=5,
    )


def read(line: dict[str, Any]) -> tuple[Meaning, ...]:
    """What is understood of a line."""
    return understand(line["say"], known(pending=line.get("pending", False)))


def right(line: dict[str, Any]) -> bool:
    """Whether it is what the line means, or another reading of it, in any order; of what is unclear the words do not count."""
    found = sorted(map(plainly, read(line)))
    return any(found == sorted(map(plainly, map(meant, means))) for means in (line["means"], *line.get("or", ())))


def alike(line: dict[str, Any]) -> bool:
    """As `right`, whatever words of the message a wish in words takes."""
    found = sorted(plainly(meaning, words=False) for meaning in read(line))
    return any(
        found == sorted(plainly(meant(value), words=False) for value in means)
        for means in (line["means"], *line.get("or", ()))
    )


def meant(value: dict[str, Any]) -> Meaning:
    """A line's meaning."""
    return MEANING.validate_python({"text": "", **value} if value["kind"] == "unclear" else value)


def plainly(meaning: Meaning, *, words: bool = True) -> str:
    """A meaning as text, numbers alike."""
    if isinstance(meaning, Unclear):
        return "unclear"
    told = meaning.model_dump(exclude=set() if words else {"text", "what", "to", "reason"})
    return repr(
        sorted(
            (
                k,
                float(v)
                if isinstance(v, int) and not isinstance(v, bool)
                else tuple(sorted(v))
                if isinstance(v, tuple)
                else v,
            )
            for k, v in told.items()
            if v not in (None, (), "")
        )
    )
