"""Results of evaluations that any run may use again, by the hash of everything that can change them.

`$FT_FILE_PATH/cache/evaluations/<key>/result.json`, one for each model and set. Writers of one key write the same; the
folder may be deleted at any time. What is read is scored again before it is believed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import WorldError
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation import ItemSet, Pair
from tuneloop.tools.verdicts import Row, score_of

KEPT = ("truncated", "accuracy", "metrics", "items")


@dataclass(frozen=True)
class EvaluationCache:
    """`root` None: switched off, nothing is read or written."""

    root: Path | None

    @property
    def memory(self) -> Path | None:
        """Where digests of weights are kept."""
        return self.root / "digests" if self.root else None

    def read(self, key: str, given: ItemSet) -> Row | None:
        """The result under `key`, every item verified; a broken one is removed and None is returned."""
        if self.root is None or given.split == "test":
            return None
        place = self._place(self.root, key)
        try:
            entry = read_json(place / "result.json")
            row: Row = entry["result"]
            if entry["digest"] != seal(key, row):
                raise WorldError(f"{place} is not what was written")
            score_of(row, given)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, WorldError):
            shutil.rmtree(place, ignore_errors=True)
            return None
        return row

    def write(self, key: str, row: Row, given: ItemSet) -> None:
        """Keep a verified result; where that fails it will be measured again. A test's results are never kept."""
        if self.root is None or given.split == "test":
            return
        kept = {name: row[name] for name in KEPT if name in row}
        with contextlib.suppress(OSError):
            write_json(self._place(self.root, key) / "result.json", {"digest": seal(key, kept), "result": kept})

    def find(self, keys: Mapping[Pair, str], sets: Mapping[str, ItemSet]) -> dict[Pair, Row]:
        """What is known of these pairs."""
        found = {pair: self.read(key, sets[pair[1]]) for pair, key in keys.items()}
        return {pair: row for pair, row in found.items() if row is not None}

    @staticmethod
    def _place(root: Path, key: str) -> Path:
        return root / "evaluations" / key


def seal(key: str, row: Any) -> str:
    """Hash of a result under its key."""
    return digest(key, json.dumps(row, sort_keys=True))


def open_cache(settings: Settings) -> EvaluationCache:
    """The cache of this home, or one that is off (`FT_DOCKER_ENABLE_CACHE`)."""
    return EvaluationCache(settings.home.cache if settings.enable_cache else None)
