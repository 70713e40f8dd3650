"""Full-text search over names, classes and help of a release's parameters: SQLite FTS5 in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.lexicon import Concept, lexicon_of

# How much a hit counts in name, class, choices, help.
WEIGHTS = (8.0, 3.0, 2.0, 1.0)


class Index:
    """Parameters by their words; one connection behind a lock, because servers call from several threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._lock = Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute(
            "CREATE VIRTUAL TABLE p USING fts5(key UNINDEXED, name, owner, choices, help, tokenize='porter')"
        )
        self._db.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?)", map(_row, catalog.parameters.values()))
        self._db.execute("CREATE VIRTUAL TABLE c USING fts5(number UNINDEXED, asked, say, tokenize='porter')")
        rows = [(n, c.asked, c.say) for n, c in enumerate(lexicon_of(catalog).concepts)]
        self._db.executemany("INSERT INTO c VALUES (?, ?, ?)", rows)

    def find(self, words: list[str], limit: int) -> list[str]:
        """Names of the best matches, best first: all words, then those with some of them."""
        terms = [f'"{word}"' for word in words if re.fullmatch(r"[a-z0-9]+", word)]
        if not terms:
            return []
        found = dict.fromkeys(self._match(" AND ".join(terms), limit))
        if len(found) < limit:
            found |= dict.fromkeys(self._match(" OR ".join(terms), limit))
        return list(found)[:limit]

    def concepts(self, words: list[str], limit: int) -> list[int]:
        """Numbers of the concepts that all words fit, best first."""
        terms = [f'"{word}"' for word in words if re.fullmatch(r"[a-z0-9]+", word)]
        ask = "SELECT number FROM c WHERE c MATCH ? ORDER BY bm25(c, 0, 3, 1), number LIMIT ?"
        with self._lock:
            return [int(n) for (n,) in self._db.execute(ask, (" AND ".join(terms), limit))] if terms else []

    def knows(self, word: str) -> bool:
        """Whether any parameter has the word, in any of its forms."""
        return bool(re.fullmatch(r"[a-z0-9]+", word)) and bool(self._match(f'"{word}"', 1))

    def _match(self, terms: str, limit: int) -> list[str]:
        ask = "SELECT key FROM p WHERE p MATCH ? ORDER BY bm25(p, 0, ?, ?, ?, ?), key LIMIT ?"
        with self._lock:
            return [key for (key,) in self._db.execute(ask, (terms, *WEIGHTS, limit))]


def _row(p: Parameter) -> tuple[str, str, str, str, str]:
    owner = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", p.owner)
    return p.name, p.name.replace("_", " "), owner, " ".join(map(str, p.choices)).replace("_", " "), p.help


@lru_cache(maxsize=4)
def index_of(catalog: Catalog) -> Index:
    """The catalog's index, made once."""
    return Index(catalog)


def concepts_like(words: Sequence[str], catalog: Catalog) -> list[Concept]:
    """The concept that words fit which are no phrase of it; words that nobody knows are passed over."""
    index = index_of(catalog)
    known = [word for word in words if index.concepts([word], 1)]
    return [lexicon_of(catalog).concepts[n] for n in index.concepts(known, 1)] if len(known) * 2 > len(words) else []
