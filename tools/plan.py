"""What one evaluation of a run takes from the cache and what its job measures; decided once, written down first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.errors import WorldError
from tuneloop.core.files import read_json, write_json
from tuneloop.tools.evaluation import ItemSet, Pair
from tuneloop.tools.verdicts import Row, score_of

FILE = "evaluation.json"


@dataclass(frozen=True)
class Plan:
    """`keys` of all pairs (model, set); `known`: the results that the cache had."""

    keys: Mapping[Pair, str]
    known: Mapping[Pair, Row]

    @property
    def missing(self) -> list[Pair]:
        """What the job measures."""
        return [pair for pair in self.keys if pair not in self.known]


def write_plan(where: Path, plan: Plan) -> None:
    """Into the folder of the evaluation, atomically."""
    rows = [{"model": m, "set": s, "key": key, "known": plan.known.get((m, s))} for (m, s), key in plan.keys.items()]
    write_json(where / FILE, {"asked": rows})


def read_plan(where: Path) -> Plan | None:
    """None when there is none or it is broken: then nothing has been decided."""
    try:
        asked = read_json(where / FILE)["asked"]
        keys = {(str(row["model"]), str(row["set"])): str(row["key"]) for row in asked}
        known = {(str(row["model"]), str(row["set"])): dict(row["known"]) for row in asked if row["known"] is not None}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return Plan(keys, known)


def usable(plan: Plan, sets: Sequence[ItemSet]) -> bool:
    """Whether the results in it are still what was asked."""
    by_name = {one.name: one for one in sets}
    try:
        for (_, name), row in plan.known.items():
            score_of(row, by_name[name])
    except WorldError:
        return False
    return True


def from_cache(where: Path) -> bool:
    """Whether the evaluation in this folder needed no job."""
    plan = read_plan(where)
    return plan is not None and not plan.missing
