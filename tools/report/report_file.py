"""`report.json` as it is read again: checked where code goes by it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

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
    spent: dict[str, _Spent | None]


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
