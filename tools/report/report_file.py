"""`report.json` as it is read again: checked where code goes by it."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, field_validator

from tuneloop.core.budget import Kind
from tuneloop.core.files import checked, read_model
from tuneloop.core.layout import RunFolder


class _Measured(BaseModel):
    value: float


class _Side(BaseModel):
    test: _Measured | None


class _Best(_Side):
    delivered: bool
    claimed: bool


class _Spent(BaseModel):
    spent: float | None = None


class _Budget(BaseModel):
    experiments: int
    seconds: float
    spent: dict[str, Any]

    @field_validator("spent")
    @classmethod
    def known_kinds(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Beside what has a limit there are other facts: disk, prices, models."""
        for kind in get_args(Kind):
            if value.get(kind) is not None:
                _Spent.model_validate(value[kind])
        return value


class _Claim(BaseModel):
    low: float
    high: float


class _Report(BaseModel):
    """What of a report is read again, besides being shown."""

    baseline: _Side
    best: _Best
    experiments: list[Any] = []
    budget: _Budget
    claim: _Claim | None


def read_report(run: RunFolder) -> dict[str, Any]:
    """`report.json` of a run. Raises FileNotFoundError, or DamagedFileError where what is read again is not of its type."""
    found = read_model(run.report_json, dict[str, Any])
    checked(run.report_json, found, _Report)
    return found
