"""The words that questions are made of, with what each phrase means in one release: concepts, names, decisions, cues."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.spelling import Speller

HERE = Path(__file__).parent
LONGEST = 7
UNITS = frozenset(("gpus", "cpus", "npus", "tpus"))


@dataclass(frozen=True, eq=False)
class Concept:
    """What people ask about: `keys` are the parameters that answer it, with a value to write where one is advised."""

    asked: str
    keys: Mapping[str, Any]
    say: str
    form: str


@dataclass(frozen=True)
class Meaning:
    """What a phrase stands for; one of the fields is set."""

    names: tuple[str, ...] = ()
    concept: Concept | None = None
    decisions: tuple[tuple[str, str], ...] = ()
    choice: str = ""
    cue: str = ""


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Phrases of stemmed words → meanings, the words to pass over, and a speller.

    `names`: what parameters are called; `joined`: the same without underscores.
    """

    phrases: Mapping[tuple[str, ...], tuple[Meaning, ...]]
    small: frozenset[str]
    imperatives: frozenset[str]
    about_templates: frozenset[str]
    chinese: Mapping[str, str]
    speller: Speller
    concepts: tuple[Concept, ...] = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    joined: Mapping[str, str] = field(repr=False)


@cache
def tables() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """`words.yaml` and `concepts.yaml`, read once."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    words, concepts = (
        yaml.load((HERE / name).read_text(encoding="utf-8"), loader)  # noqa: S506 - both loaders are the safe one
        for name in ("words.yaml", "concepts.yaml")
    )
    return words, concepts


def stem(word: str) -> str:
    """The word without a plural ending."""
    if len(word) <= 3 or not word.endswith("s") or (word.endswith(("ss", "us", "is")) and word not in UNITS):
        return word
    return word[:-2] if word.endswith(("ches", "shes", "xes", "sses")) else word[:-1]


def stems(text: str) -> tuple[str, ...]:
    """Stemmed words of a phrase."""
    return tuple(stem(word) for word in re.findall(r"[a-z0-9_.&+]+", text.lower()))


@lru_cache(maxsize=4)
def lexicon_of(catalog: Catalog) -> Lexicon:
    """Everything that can be said about one release."""
    words, concepts = tables()
    names = _other_names(words, catalog)
    phrases: dict[tuple[str, ...], list[Meaning]] = defaultdict(list)
    for phrase, meaning in (*_concepts(concepts, catalog), *_names(words, catalog), *_decisions(words), *_cues(words)):
        if phrase:
            phrases[phrase].append(meaning)
    small = frozenset(stem(word) for word in words["small"].split())
    content = [word for phrase in phrases for word in phrase if word not in small and "_" not in word]
    helps = {stem(word) for p in catalog.parameters.values() for word in re.findall(r"[a-z0-9]+", p.help.lower())}
    models = {word for name in catalog.templates for word in re.findall(r"[a-z]+", name)}
    return Lexicon(
        phrases={phrase: tuple(meanings) for phrase, meanings in phrases.items()},
        small=small,
        imperatives=frozenset(words["imperatives"].split()),
        about_templates=frozenset(words["about_templates"].split()),
        chinese=dict(sorted(words["chinese"].items(), key=lambda item: -len(item[0]))),
        speller=Speller(content, helps | small | models),
        concepts=tuple(dict.fromkeys(m.concept for meanings in phrases.values() for m in meanings if m.concept)),
        names=names,
        joined={name.replace("_", ""): meant for name, meant in names.items() if "_" in name},
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split("|")]


def _concepts(concepts: list[dict[str, Any]], catalog: Catalog) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    for entry in concepts:
        keys = {key: value for key, value in entry["keys"].items() if key in catalog.parameters}
        concept = Concept(entry["asked"], keys, entry["say"], entry.get("form", "one"))
        for phrase in _split(entry["asked"]) if keys else ():
            yield stems(phrase), Meaning(concept=concept, names=(next(iter(keys)),))


def _other_names(words: dict[str, Any], catalog: Catalog) -> dict[str, str]:
    """What people write for a parameter → its name."""
    others = {
        other: name for name, text in words["names"].items() for other in _split(text) if name in catalog.parameters
    }
    return {other.replace(" ", "_"): name for other, name in others.items()} | {n: n for n in catalog.parameters}


def _names(words: dict[str, Any], catalog: Catalog) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    for other, name in _other_names(words, catalog).items():
        if "_" in other or other in catalog.parameters:
            yield (other,), Meaning(names=(name,))
        if not other.startswith("do_"):
            yield stems(other.replace("_", " ")), Meaning(names=(name,))
    for p in catalog.parameters.values():
        short = re.sub(r"^(?:use|enable)_", "", p.name)
        if short != p.name and len(short) > 3:
            yield stems(short.replace("_", " ")), Meaning(names=(p.name,))
        yield from _choices(p, frozenset(words["weak_choices"].split()))
    owners = defaultdict(list)
    for p in catalog.parameters.values():
        owners[p.owner].append(p.name)
    for owner, names in owners.items():
        yield (stem(owner.lower()),), Meaning(names=tuple(names), cue="owner")


def _choices(p: Parameter, weak: frozenset[str]) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    for choice in p.choices:
        if isinstance(choice, str) and len(choice) > 2 and choice not in weak:
            for phrase in {(choice,), stems(choice.replace("_", " "))}:
                yield phrase, Meaning(names=(p.name,), choice=choice)


def _decisions(words: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    for dimension, values in words["decisions"].items():
        for value, text in values.items():
            for phrase in _split(text):
                yield stems(phrase), Meaning(decisions=((dimension, value),))
    for phrase, decisions in words["compounds"].items():
        yield stems(phrase), Meaning(decisions=tuple(decisions.items()))


def _cues(words: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    for cue, text in words["cues"].items():
        for phrase in _split(text):
            yield stems(phrase), Meaning(cue=cue)


def longest(phrases: Mapping[tuple[str, ...], Any], words: list[str], start: int) -> int:
    """How many words from `start` make the longest known phrase; 0: none."""
    for length in range(min(LONGEST, len(words) - start), 0, -1):
        if tuple(words[start : start + length]) in phrases:
            return length
    return 0
