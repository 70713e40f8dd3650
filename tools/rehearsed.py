"""The micro-run's rows, and the forecast that it makes possible, from an experiment's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tuneloop.core.cost import Forecast
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import Exit
from tuneloop.core.layout import ExperimentFolder, given
from tuneloop.core.untrusted import read_strange_json
from tuneloop.tools.forecast import FORWARD, FORWARD_FROZEN, Plan, forecast, logged_every
from tuneloop.tools.gate.rehearsal import LONGEST, STEPS, rehearsal_rows
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.disk import checkpoint_bytes, model_bytes, training_bytes
from tuneloop.tools.params.finalize import asked_of_run, held_out, planned_steps, write_dataset_info
from tuneloop.tools.params.measured import recipe_key
from tuneloop.tools.params.situation import Situation

READ = 4000  # rows that a micro-run reads besides those it trains on
NEAR = 4  # times as many rows as are needed are counted in tokens to find the longest


def write_sample(folder: ExperimentFolder, tokenizer: Path) -> int:
    """Write `work/rehearsal_data/`: the rows of each step, then all rows or READ of them; returns the steps."""
    values = parse_config(folder.config.read_text()).values
    rows: list[dict[str, str]] = read_json(folder.data / "data.json")[: values.get("max_samples")]
    batch = step_rows(values)
    steps = min(STEPS, max(LONGEST + 2, planned_steps(values, len(rows))))
    picked = rehearsal_rows(lengths(rows, NEAR * batch, tokenizer), batch, steps)
    write_json(sample(folder) / "data.json", [rows[i] for i in picked] + [rows[i] for i in evenly(len(rows))])
    write_dataset_info(sample(folder))
    return steps


def sample(folder: ExperimentFolder) -> Path:
    """Where the micro-run's data lie."""
    return folder.work / "rehearsal_data"


def step_rows(values: Mapping[str, Any]) -> int:
    """Rows of one optimizer step."""
    return int(values.get("per_device_train_batch_size") or 8) * int(values.get("gradient_accumulation_steps") or 1)


def evenly(count: int) -> list[int]:
    """At most READ places out of `count`."""
    return [i * count // min(READ, count) for i in range(min(READ, count))]


def lengths(rows: list[dict[str, str]], near: int, tokenizer: Path) -> list[int]:
    """Characters of each row; above them, for the `near` longest, their order by tokens."""
    found = [size(row) for row in rows]
    if not tokenizer.is_file():
        return found
    longest = sorted(range(len(rows)), key=lambda i: -found[i])[:near]
    encoded = Tokenizer.from_file(str(tokenizer)).encode_batch_fast([text(rows[i]) for i in longest])
    ceiling = max(found, default=0)
    return [*map(dict(zip(longest, (ceiling + len(e) for e in encoded), strict=True)).get, range(len(rows)), found)]


def text(row: Mapping[str, str]) -> str:
    """What a row is trained on, without its template."""
    return f"{row['instruction']}\n{row.get('input', '')}\n{row['output']}"


def size(row: Mapping[str, str]) -> int:
    """Its characters."""
    return len(row["instruction"]) + len(row.get("input", "")) + len(row["output"])


def forecast_of(folder: ExperimentFolder, case: Situation, model: str, end: Exit) -> Forecast:
    """The forecast from a micro-run that is over; `model` is the base model's fingerprint.

    Raises RecipeError when it left nothing to forecast from.
    """
    try:
        cost = read_strange_json(folder.work / "rehearsal_model" / "cost.json")
        rows = int(read_json(folder.data / "report.json")["rows"])
        done = parse_config((given(folder.work, "rehearse") / "config.yaml").read_text()).values
        plan = plan_of(case, rows, int(done["max_steps"]), len(cost["lengths"]))
        return forecast(cost, end, plan, recipe_key(case, model))
    except FileNotFoundError as e:
        raise RecipeError("the micro-run left no results to forecast from", culprit="config") from e
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as e:
        raise RecipeError(f"the micro-run left a cost.json that is none: {e!r}"[:500], culprit="config") from e


def plan_of(case: Situation, rows: int, rehearsed: int, told: int) -> Plan:
    """The full run of a config on `rows` rows; `rehearsed` steps were made, `told`: rows that the engine made of them."""
    values = asked_of_run(case.config.values)
    rows = min(rows, values.get("max_samples") or rows)
    written = rehearsed * step_rows(values) + min(READ, rows)
    kept = round(rows * told / written) if told else rows  # packing makes fewer of them
    steps, held = planned_steps(values, kept), held_out(values, kept)
    epochs = steps / max(1, math.ceil((kept - held) / step_rows(values)))
    within = times(values, "eval", steps, math.ceil(epochs)) if held else 0
    adapter = case.method in ("lora", "oft", "freeze")
    return Plan(
        steps=steps,
        epochs=epochs,
        batch=int(values.get("per_device_train_batch_size") or 8),
        accumulation=int(values.get("gradient_accumulation_steps") or 1),
        rows=rows,
        written=written,
        sample=min(READ, rows),
        saves=times(values, "save", steps, math.ceil(epochs)),
        saved=checkpoint_bytes(case) / model_bytes(case),
        logs=steps // logged_every(steps),
        evaluations=within + bool(held and (within or values.get("do_eval"))),  # the last one at the end
        evaluated=held,
        forward=FORWARD_FROZEN if adapter else FORWARD,
        grouped=values.get("train_sampling_strategy") == "group_by_length",
        disk=training_bytes(case),
    )


def times(values: Mapping[str, Any], what: str, steps: int, epochs: int) -> int:
    """How often a run saves or evaluates, by its strategy."""
    match values.get(f"{what}_strategy"):
        case "epoch":
            return epochs
        case "steps":
            every = float(values.get(f"{what}_steps") or 500)
            return math.ceil(steps / (math.ceil(steps * every) if every < 1 else int(every)))
    return 0
