"""The smoke run's rows, and the forecast that it makes possible, from an experiment's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Forecast, smoke_run_steps
from tuneloop.core.files import read_field, read_json, write_json
from tuneloop.core.job import Exit
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.config.config_text import engine_config, train_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finalize import agent_values, held_out_rows, planned_steps, trained_rows, write_dataset_info
from tuneloop.tools.config.memory import checkpoint_bytes, recipe_key, saved_model_bytes, training_bytes
from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.training.forecast import FORWARD, FORWARD_FROZEN, Plan, logged_every, make_forecast
from tuneloop.tools.training.smoke_run_rows import smoke_run_rows

MAX_ROWS_READ = 4000  # rows that a smoke run reads besides those it trains on
NEAR = 4  # times as many rows as are needed are counted in tokens to find the longest


def write_smoke_run_data(folder: ExperimentFolder, tokenizer: Path) -> int:
    """Write `work/smoke_run_data/`: the rows of each step, then all rows or READ of them; returns the steps."""
    values = train_config(folder).values
    rows: list[dict[str, str]] = read_json(folder.data / "data.json")[: values.get("max_samples")]
    if trained_rows(values, len(rows)) < 1:
        raise RecipeError(
            f"train.yaml val_size: holds out {values['val_size']} of {len(rows)} rows, none is left to train on; "
            "write a share such as 0.1",
            culprit="config",
        )
    batch = step_rows(values)
    steps = smoke_run_steps(planned_steps(values, len(rows)))
    picked = smoke_run_rows(row_lengths(rows, NEAR * batch, tokenizer), batch, steps)
    write_json(
        smoke_run_data(folder) / "data.json", [rows[i] for i in picked] + [rows[i] for i in spread_positions(len(rows))]
    )
    write_dataset_info(smoke_run_data(folder))
    return steps


def smoke_run_data(folder: ExperimentFolder) -> Path:
    """Where the smoke run's data lie."""
    return folder.work / "smoke_run_data"


def step_rows(values: Mapping[str, Any]) -> int:
    """Rows of one optimizer step."""
    return int(values.get("per_device_train_batch_size") or 8) * int(values.get("gradient_accumulation_steps") or 1)


def spread_positions(count: int) -> list[int]:
    """At most READ places out of `count`."""
    return [i * count // min(MAX_ROWS_READ, count) for i in range(min(MAX_ROWS_READ, count))]


def row_lengths(rows: list[dict[str, str]], near: int, tokenizer: Path) -> list[int]:
    """Characters of each row; above them, for the `near` longest, their order by tokens."""
    found = [row_size(row) for row in rows]
    if not tokenizer.is_file():
        return found
    longest = sorted(range(len(rows)), key=lambda i: -found[i])[:near]
    encoded = load_tokenizer(tokenizer).encode_batch_fast([row_text(rows[i]) for i in longest])
    ceiling = max(found, default=0)
    return [*map(dict(zip(longest, (ceiling + len(e) for e in encoded), strict=True)).get, range(len(rows)), found)]


def row_text(row: Mapping[str, str]) -> str:
    """What a row is trained on, without its template."""
    return f"{row['instruction']}\n{row.get('input', '')}\n{row['output']}"


def row_size(row: Mapping[str, str]) -> int:
    """Its characters."""
    return len(row["instruction"]) + len(row.get("input", "")) + len(row["output"])


def smoke_run_forecast(folder: ExperimentFolder, case: ConfigContext, model: str, end: Exit) -> Forecast:
    """The forecast from a smoke run that is over; `model` is the base model's fingerprint.

    Raises RecipeError when it left nothing to forecast from.
    """
    try:
        cost = read_untrusted_json(folder.work / "smoke_run_model" / "cost.json")
        rows = read_field(folder.data / "report.json", "rows", int)
        done = engine_config(folder, "smoke_run").values
        plan = training_plan(case, rows, int(done["max_steps"]), len(cost["lengths"]))
        return make_forecast(cost, end, plan, recipe_key(case, model))
    except FileNotFoundError as e:
        raise RecipeError("the smoke run left no results to forecast from", culprit="config") from e
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as e:
        raise RecipeError(f"the smoke run left a cost.json that is none: {e!r}"[:500], culprit="config") from e


def training_plan(case: ConfigContext, rows: int, smoke_steps: int, told: int) -> Plan:
    """The full run of a config on `rows` rows; `smoke_run` steps were made, `told`: rows that the engine made of them."""
    values = agent_values(case.config.values)
    rows = min(rows, values.get("max_samples") or rows)
    written = smoke_steps * step_rows(values) + min(MAX_ROWS_READ, rows)
    shrink = told / written if told else 1.0  # packing makes fewer rows of them, once some are held out
    kept, held = (round(count * shrink) for count in (trained_rows(values, rows), held_out_rows(values, rows)))
    steps = planned_steps({**values, "val_size": 0}, kept)
    epochs = steps / max(1, math.ceil(kept / step_rows(values)))
    within = event_count(values, "eval", steps, math.ceil(epochs)) if held else 0
    adapter = case.method in ("lora", "oft", "freeze")
    return Plan(
        steps=steps,
        epochs=epochs,
        batch=int(values.get("per_device_train_batch_size") or 8),
        accumulation=int(values.get("gradient_accumulation_steps") or 1),
        rows=rows,
        written=written,
        sample=min(MAX_ROWS_READ, rows),
        saves=event_count(values, "save", steps, math.ceil(epochs)),
        saved=checkpoint_bytes(case) / saved_model_bytes(case),
        logs=steps // logged_every(steps),
        evaluations=within + bool(held and (within or values.get("do_eval"))),  # the last one at the end
        evaluated=held,
        forward=FORWARD_FROZEN if adapter else FORWARD,
        grouped=values.get("train_sampling_strategy") == "group_by_length",
        disk=training_bytes(case),
    )


def event_count(values: Mapping[str, Any], what: str, steps: int, epochs: int) -> int:
    """How often a run saves or evaluates, by its strategy."""
    match values.get(f"{what}_strategy"):
        case "epoch":
            return epochs
        case "steps":
            usual = values.get("logging_steps") if what == "eval" else None  # as transformers has it
            every = float(values.get(f"{what}_steps") or usual or 500)
            return math.ceil(steps / (math.ceil(steps * every) if every < 1 else int(every)))
    return 0
