"""What kind of answer a question wants: a list of rules over its signs, of which the first that holds decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tuneloop.tools.params.lexicon import Concept

Kind = Literal["list", "describe", "compare", "advise", "templates", "search", "nothing"]

THING = "parameter|param|option|setting|key|flag|argument|field"
SINGLE = re.compile(rf"\b(?:which|what)(?:'s)? (?:is the )?(?:{THING})\b(?!s)", re.IGNORECASE)
EVERYTHING = re.compile(r"\b(?:all|list|show|every\w*)\b", re.IGNORECASE)
WHICH = re.compile(r"\b(?:which|list|available|supported|supports?|all|what templates?|are there|for)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Item:
    """A phrase of the question and what it means: parameters, a concept, decisions, a value, an owner class."""

    text: str
    names: tuple[str, ...] = ()
    concept: Concept | None = None
    decisions: tuple[tuple[str, str], ...] = ()
    choice: str = ""
    owner: bool = False

    def form(self, name: str) -> bool:
        """Whether its concept has that form."""
        return self.concept is not None and self.concept.form == name


@dataclass(frozen=True)
class Signs:
    """Everything that tells what is wanted. `pairs`: decisions were written as `method: lora`."""

    text: str
    items: tuple[Item, ...]
    cues: frozenset[str]
    rest: tuple[str, ...]
    decisions: Mapping[str, str]
    pairs: bool
    imperative: bool
    model_template: bool

    def cue(self, *names: str) -> bool:
        """Whether any of these cues was given."""
        return not self.cues.isdisjoint(names)

    @cached_property
    def named(self) -> list[Item]:
        """Items that mean parameters."""
        return [item for item in self.items if item.names]

    @cached_property
    def single(self) -> bool:
        """One parameter is asked for: `which parameter …`."""
        return bool(SINGLE.search(self.text))

    @cached_property
    def opposed(self) -> bool:
        """Two values of one decision are named."""
        said = {pair for item in self.items for pair in item.decisions if len(item.decisions) == 1}
        return len(said) > len(dict(said)) and not self.pairs and not self.cue("list", "fact", "advise")

    @cached_property
    def plainly(self) -> list[Item]:
        """Items that mean a parameter here, not a decision."""
        alone = len(self.items) == 1 and self.items[0].concept is not None
        found = [item for item in self.named if not item.decisions or alone or self.cue("fact", "describe")]
        broad = bool(found) and all(item.form("broad") for item in found)
        return [] if broad and self.decided and not self.cue("fact", "describe") else found

    @cached_property
    def decided(self) -> bool:
        """Some item means a decision."""
        return any(item.decisions for item in self.items)

    @property
    def templates(self) -> bool:
        """Chat templates are asked for, not the parameter `template`."""
        asked = bool(WHICH.search(self.text)) and not self.cue("describe", "fact", "advise")
        return self.cue("template") and (asked or self.model_template)


RULES: tuple[tuple[Kind, Callable[[Signs], object]], ...] = (
    ("compare", lambda s: s.cue("compare") and len(s.items) > 1),
    ("compare", lambda s: s.opposed),
    ("templates", lambda s: s.templates),
    ("advise", lambda s: not s.pairs and any(item.form("problem") for item in s.named)),
    ("search", lambda s: any(item.owner for item in s.named)),
    ("list", lambda s: s.pairs),
    ("list", lambda s: s.decisions and s.cue("list") and not s.cue("fact") and not (s.single and s.named)),
    ("describe", lambda s: s.plainly and s.cue("fact")),
    ("advise", lambda s: (s.cue("advise") or s.imperative) and any(item.concept for item in s.plainly)),
    ("describe", lambda s: s.plainly and (s.cue("describe") or s.single)),
    ("search", lambda s: s.plainly and (s.cue("list") or any(item.form("broad") for item in s.plainly))),
    ("describe", lambda s: s.plainly),
    ("list", lambda s: s.decided),
    ("describe", lambda s: s.named),
    ("list", lambda s: not s.rest and (s.cue("count") or (s.cue("list") and EVERYTHING.search(s.text)))),
    ("search", lambda s: s.rest),
)


def kind_of(signs: Signs) -> Kind:
    """The kind of answer."""
    return next((kind for kind, holds in RULES if holds(signs)), "nothing")
