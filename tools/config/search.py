"""Full-text search over a release's parameters: names, help, categories and synonyms, ranked by SQLite's BM25."""

from __future__ import annotations

import difflib
import re
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock

from tuneloop.tools.config.aliases import ALIASES, alias_of, squash
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.decision_filter import members
from tuneloop.tools.config.decisions import method_named
from tuneloop.tools.config.relevance import GROUPS

MOST_HITS = 10
MOST_WORDS = 60  # of a question
LONGEST_NAME = 6  # words of a name that is written without underscores
# Weights of name, category, help and choices, and of the synonyms' best line.
WEIGHTS, SYNONYMS = (4.0, 1.5, 1.0, 0.5), 2.0
# A hit must be worth this share of the best one: no list is filled up.
CUTOFF = 0.3
# What a parameter's weight in the decision filter adds to its rank.
PRIOR = {"needed": 1.3, "useful": 1.2, "aside": 1.0}
# What the words of names are short for.
SHORT = {
    "attn": "attention", "coef": "coefficient", "dir": "directory folder", "eval": "evaluation", "grad": "gradient",
    "init": "initialization", "kt": "ktransformers", "len": "length", "lr": "learning rate", "max": "maximum",
    "min": "minimum", "nsamples": "samples", "num": "number", "optim": "optimizer", "pref": "preference",
    "proj": "projection", "util": "utilization", "val": "validation",
}  # fmt: skip
UNUSED = ("set by the engine", "replaced by another parameter")
_PASSED_OVER = """
a about all also an and any are as at be been but by can could did do does doing don done during each either every
everything few find for from get give given go going had has have having help how i if in into is it its just know
let ll long many may me mean means more most much must my need needed needs no not now of on one only or other our
out please possible put re recommended s same say see set shall should show so some such t take tell than that the
their them then there these they thing this those through to too try under up us use used uses using ve very want
was we well were what when where whether which while who why will with without work would you your yours
parameter parameters param params option options setting settings config configuration value values default
argument arguments flag key keys llama factory llamafactory fine finetune finetuning tune tuning run running
参数 微调 训练 设置 默认 什么 怎么 如何 哪些 需要
"""
STOP_WORDS = frozenset(_PASSED_OVER.split())


def plain_text(text: str) -> str:
    """Lower case, without accents and full-width letters."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))


def words_of(text: str) -> list[str]:
    """The words; Chinese, Japanese and other text without ASCII letters as overlapping pairs of characters."""
    plain = re.sub(r"\b(\d+)[ -]?bits?\b", r"\1bit", plain_text(text))
    found: list[str] = []
    for word in re.findall(r"[a-z0-9]+|[^\W_a-z0-9]+", plain):
        pairs = [word[i : i + 2] for i in range(len(word) - 1)]
        found += [word] if word.isascii() or not pairs else pairs
    return found


def content(text: str) -> list[str]:
    """The words that are worth looking up, each once."""
    words = dict.fromkeys(words_of(text))
    return [word for word in words if word not in STOP_WORDS and not word.isdigit()][:MOST_WORDS]


def search(text: str, catalog: Catalog) -> list[str]:
    """Names of at most ten parameters, best first: those that the text names, then those that its words fit."""
    named = exact_names(text, catalog)
    exact = list(dict.fromkeys(name for name, _ in named))
    spelled = {word for _, run in named if " " in run and not method_named(run) for word in content(run)}
    words = content(text)
    if exact and not any(_index(catalog).knows(word) for word in words if word not in spelled):  # no more was asked
        return exact[:MOST_HITS]
    return [*exact, *_index(catalog).find(words, beside=exact)][:MOST_HITS]


def exact_names(text: str, catalog: Catalog) -> list[tuple[str, str]]:
    """Parameters that the text names, in its order, each with the words that name it."""
    tokens, words = re.findall(r"[a-z0-9_+]+", plain_text(text))[:MOST_WORDS], content(text)
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(tokens):
        lengths = range(min(LONGEST_NAME, len(tokens) - at), 0, -1)
        runs = (" ".join(tokens[at : at + length]) for length in lengths)
        names, run = next(((n, run) for run in runs if (n := _named(run, words, catalog))), ([], ""))
        found += [(name, run.replace("_", " ")) for name in names]
        at += max(1, len(run.split()))
    return found


def _named(run: str, words: Sequence[str], catalog: Catalog) -> list[str]:
    """A parameter's own name, another name, a value that only one has, or a name with underscores that is misspelt.

    One plain word such as `model` is another name only where nothing else was asked. A parameter that no config needs
    is followed by the one that is written instead.
    """
    own, alias = squashed_names(catalog).get(squash(run)), alias_of(run)
    others = [alias.parameter] if alias and alias.parameter in catalog.parameters else []
    if own:
        return [own, *(others if own in unused(catalog) else [])]
    if others and (method_named(run) or not run.isalpha() or list(words) == [run]):
        return others
    if "_" not in run.strip("_") or " " in run:
        return []
    return having_choice(run, catalog)[:1] or difflib.get_close_matches(run, catalog.parameters, n=1, cutoff=0.8)


def having_choice(text: str, catalog: Catalog) -> list[str]:
    """Parameters that may have this value."""
    return _choices(catalog).get(squash(text), [])


@lru_cache(maxsize=4)
def _choices(catalog: Catalog) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for name, choice in ((p.name, squash(str(choice))) for p in catalog.parameters.values() for choice in p.choices):
        if choice and name not in found[choice]:
            found[choice].append(name)
    return dict(found)


@lru_cache(maxsize=4)
def squashed_names(catalog: Catalog) -> dict[str, str]:
    """Names without underscores → names."""
    return {squash(name): name for name in catalog.parameters}


@cache
def synonyms() -> dict[str, str]:
    """Words that people use → names of the parameters they mean."""
    text = (Path(__file__).parent / "synonyms.yaml").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))  # no yaml: it is slow to import
    return {words: names for words, _, names in (line.partition(": ") for line in lines)}


class Index:
    """Parameters and synonyms in SQLite FTS5 in memory; a lock, because servers call from several threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._lock = Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute(
            "CREATE VIRTUAL TABLE p USING fts5(key UNINDEXED, name, category, help, choices, tokenize=porter)"
        )
        self._db.execute("CREATE VIRTUAL TABLE s USING fts5(key UNINDEXED, words, tokenize=porter)")
        self._prior: dict[str, float] = {}
        self._db.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?)", self._rows(catalog))
        self._db.executemany("INSERT INTO s VALUES (?, ?)", [(names, _text(w)) for w, names in synonyms().items()])
        self._names = frozenset(key for (key,) in self._db.execute("SELECT key FROM p"))

    def _rows(self, catalog: Catalog) -> Iterator[tuple[str, ...]]:
        """What is indexed of each parameter that a config may set."""
        categories = defaultdict[str, list[str]](list)
        for other, alias in ALIASES.items():
            categories[alias.parameter].append(other)
        for group in GROUPS:
            for name in members(catalog, group):
                categories[name] += [group.why, *(value for values in group.when.values() for value in values)]
                self._prior[name] = max(self._prior.get(name, 1.0), PRIOR[group.weight])
        for p in catalog.parameters.values():
            if p.name not in unused(catalog):
                apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", p.owner)
                name = " ".join([p.name, *(SHORT[part] for part in p.name.split("_") if part in SHORT)])
                columns = (name, " ".join((p.owner, apart, *categories[p.name])), p.help, " ".join(map(str, p.choices)))
                yield p.name, *map(_text, columns)

    def knows(self, word: str) -> bool:
        """Whether any parameter or synonym has the word, in any of its forms."""
        return bool(self._scores([word]))

    def find(self, words: Sequence[str], beside: Sequence[str] = ()) -> list[str]:
        """The best hits beside known names, best first; none where most of the words are unknown."""
        known = [word for word in words if self.knows(word)]
        strange = [word for word in words if word.isascii() and word not in known]
        if not known or len(strange) > len(known):
            return []
        scores = {n: score * self._prior.get(n, 1.0) for n, score in self._scores(known).items() if n not in beside}
        best = max(scores.values(), default=0)
        order = sorted(scores, key=lambda name: (-scores[name], name))
        return [name for name in order if scores[name] >= CUTOFF * best][:MOST_HITS]

    def _scores(self, words: Sequence[str]) -> dict[str, float]:
        """What each parameter's own text and the best line of synonyms that names it are worth."""
        terms = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            own = self._db.execute("SELECT key, -bm25(p, 0, ?, ?, ?, ?) FROM p WHERE p MATCH ?", (*WEIGHTS, terms))
            scores = dict(own)
            meant = self._db.execute("SELECT key, -bm25(s) FROM s WHERE s MATCH ?", (terms,)).fetchall()
        lines = dict[str, float]()
        for names, score in meant:
            lines |= {name: max(score, lines.get(name, 0)) for name in names.split() if name in self._names}
        return {name: scores.get(name, 0) + SYNONYMS * lines.get(name, 0) for name in scores | lines}


@lru_cache(maxsize=4)
def unused(catalog: Catalog) -> frozenset[str]:
    """Parameters that no config needs: set by the engine, or replaced by others."""
    replaced = (name for group in GROUPS if group.why in UNUSED for name in members(catalog, group))
    return frozenset([*replaced, *(p.name for p in catalog.parameters.values() if not p.settable)])


def _text(text: str) -> str:
    return " ".join(words_of(text))


@lru_cache(maxsize=4)
def _index(catalog: Catalog) -> Index:
    return Index(catalog)
