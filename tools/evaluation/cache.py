"""Results of evaluations that any run may use again, by the hash of everything that can change them.

`$FT_FILE_PATH/cache/evaluations/<key>/result.json`, one for each model and set. Writers of one key write the same; the
folder may be deleted at any time. What is read is scored again before it is believed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation.item_sets import ItemSet, Pair
from tuneloop.tools.scoring.verdicts import Row, make_score

# What one evaluation of a run takes from the cache and what its job measures; decided once, written down first.

FILE = "evaluation.json"


@dataclass(frozen=True)
class EvaluationPlan:
    """`keys` of all pairs (model, set); `known`: the results that the cache had."""

    keys: Mapping[Pair, str]
    known: Mapping[Pair, Row]

    @property
    def missing(self) -> list[Pair]:
        """What the job measures."""
        return [pair for pair in self.keys if pair not in self.known]


def write_plan(where: Path, plan: EvaluationPlan) -> None:
    """Into the folder of the evaluation, atomically."""
    rows = [{"model": m, "set": s, "key": key, "known": plan.known.get((m, s))} for (m, s), key in plan.keys.items()]
    write_json(where / FILE, {"asked": rows})


def plan_time(where: Path) -> float:
    """When the evaluation was planned, in seconds since 1970. Raises FileNotFoundError without a plan."""
    return (where / FILE).stat().st_mtime


def read_plan(where: Path) -> EvaluationPlan | None:
    """None when there is none or it is broken: then nothing has been decided."""
    try:
        asked = read_json(where / FILE)["asked"]
        keys = {(str(row["model"]), str(row["set"])): str(row["key"]) for row in asked}
        known = {(str(row["model"]), str(row["set"])): dict(row["known"]) for row in asked if row["known"] is not None}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return EvaluationPlan(keys, known)


def is_plan_usable(plan: EvaluationPlan, sets: Sequence[ItemSet]) -> bool:
    """Whether the results in it are still what was asked."""
    by_name = {one.name: one for one in sets}
    try:
        for (_, name), row in plan.known.items():
            make_score(row, by_name[name])
    except InfrastructureError:
        return False
    return True


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
            if entry["digest"] != result_checksum(key, row):
                raise InfrastructureError(f"{place} is not what was written")
            make_score(row, given)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, InfrastructureError):
            shutil.rmtree(place, ignore_errors=True)
            return None
        return row

    def write(self, key: str, row: Row, given: ItemSet) -> None:
        """Keep a verified result; where that fails it will be measured again. A test's results are never kept."""
        if self.root is None or given.split == "test":
            return
        kept = {name: row[name] for name in KEPT if name in row}
        with contextlib.suppress(OSError):
            write_json(
                self._place(self.root, key) / "result.json", {"digest": result_checksum(key, kept), "result": kept}
            )

    def find(self, keys: Mapping[Pair, str], sets: Mapping[str, ItemSet]) -> dict[Pair, Row]:
        """What is known of these pairs."""
        found = {pair: self.read(key, sets[pair[1]]) for pair, key in keys.items()}
        return {pair: row for pair, row in found.items() if row is not None}

    @staticmethod
    def _place(root: Path, key: str) -> Path:
        return root / "evaluations" / key


def result_checksum(key: str, row: Any) -> str:
    """Hash of a result under its key."""
    return digest(key, json.dumps(row, sort_keys=True))


def open_cache(settings: Settings) -> EvaluationCache:
    """The cache of this home, or one that is off (`FT_DOCKER_ENABLE_CACHE`)."""
    return EvaluationCache(settings.home.cache if settings.enable_cache else None)
