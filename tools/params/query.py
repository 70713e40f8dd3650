"""Finds parameters by words: deterministic, over names, help texts and owners."""

from __future__ import annotations

import math
import re
from collections import Counter

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.check import closest

SMALL_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a all an and are be can do does for how i in is it its list me of on or parameter parameters setting show "
        "tell the to use used using what whats which with default",
    )
)


def query(catalog: Catalog, text: str, limit: int = 10) -> list[Parameter]:
    """The best matches, best first; ties by name. A name in the text comes first, a misspelt one too."""
    found = list(dict.fromkeys(_named(catalog, text)))
    wanted = [w for w in _words(text) if w not in SMALL_WORDS]
    places = {name: _places(p) for name, p in catalog.parameters.items()}
    spread = Counter(word for place in places.values() for word in place)
    scores = {
        name: sum(place[w] * math.log(1 + len(places) / spread[w]) for w in wanted if w in place)
        * (1 + len(set(wanted) & set(_words(name))) / len(_words(name)))
        for name, place in places.items()
    }
    ranked = sorted((n for n in scores if scores[n] > 0 and n not in found), key=lambda n: (-scores[n], n))
    return [catalog.parameters[name] for name in [*found, *ranked][:limit]]


def _named(catalog: Catalog, text: str) -> list[str]:
    """Parameters whose names the text holds, or nearly holds."""
    names = re.findall(r"[A-Za-z][A-Za-z0-9_]*", text)
    exact = [n for n in names if n in catalog.parameters]
    near = [closest(n, catalog) for n in names if "_" in n and n not in catalog.parameters]
    return exact + [n for n in near if n]


def _words(text: str) -> list[str]:
    """Lower-case words with plural s and -ing cut."""
    return [re.sub(r"(?<=\w{3})(?:ing|s)$", "", w) for w in re.findall(r"[a-z0-9]+", text.lower())]


def _places(parameter: Parameter) -> dict[str, float]:
    """Word → weight: a word of the name counts most, then the owner's, then the help's."""
    weights: dict[str, float] = dict.fromkeys(_words(parameter.help), 1.0)
    weights |= dict.fromkeys(_words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", parameter.owner)), 1.5)
    return weights | dict.fromkeys(_words(parameter.name), 4.0)
