"""Runs as a batch finds them, made without an engine."""

from __future__ import annotations

from typing import Any

from tuneloop.core.files import write_json
from tuneloop.core.layout import Home

TASK = {"model": "tiny", "benchmark": "wordproblems", "loop_n": 1}


def finished(home: Home, name: str) -> None:
    """As a run leaves it that has come to its end."""
    score = {"value": 50.0, "low": 40.0, "high": 60.0, "n": 100}
    told: dict[str, Any] = {
        "baseline": {"test": {**score, "value": 20.0}},
        "best": {"test": score, "delivered": True, "claimed": True},
        "claim": {"low": 21.0, "high": 39.0},
        "budget": {"experiments": 1, "seconds": 60.0, "spent": {"money": {"spent": 0.0}}},
    }
    home.run(name).root.mkdir(parents=True)
    write_json(home.run(name).report_json, told)
