"""What micro-runs measured of a recipe's memory: better than any estimate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tuneloop.core.cost import Forecast
from tuneloop.core.files import digest, read_json
from tuneloop.tools.params.memory import recipe_of
from tuneloop.tools.params.situation import Situation


def recipe_key(case: Situation, model: str) -> str:
    """The same for what needs the same memory; `model` is the base model's fingerprint."""
    return digest(model, case.device, repr(sorted(asdict(recipe_of(case)).items())))


def measured(experiments: Path, key: str) -> tuple[int, int] | None:
    """Bytes that the newest micro-run of this recipe took of its device, and its experiment; None: there was none."""
    for file in sorted(experiments.glob("*/forecast.json"), reverse=True):
        found = Forecast.model_validate(read_json(file))
        if found.recipe == key:
            return found.device_memory or found.memory, int(file.parent.name)
    return None
