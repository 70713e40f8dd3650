"""The model card `best/README.md`, in the form that model hubs read."""

from __future__ import annotations

from typing import Any

import yaml

from tuneloop.core.score import Score
from tuneloop.tools.report import tables
from tuneloop.tools.report.data import ReportData
from tuneloop.tools.report.markdown import made_with, verdict
from tuneloop.tools.report.trust import honesty


def model_card(run_id: str, data: ReportData) -> str:
    """Front matter and text; only called when there is a best model."""
    best = data.best
    if best is None:
        raise ValueError("there is no best model to describe")
    shown = data.model_copy(update={"leaked": ()})  # a card travels with the model, and test items with it
    front = yaml.safe_dump(_front(data), sort_keys=False, allow_unicode=True)
    parts = [
        f"---\n{front}---",
        f"# {data.base_model}, fine-tuned for {data.benchmark.name}",
        verdict(data),
        tables.result(data),
        f"Task: {data.benchmark.description}",
        f"Trained by run `{run_id}`, experiment {best.number}: {best.hypothesis.statement} The recipe lies beside this "
        "page: `process_data.py`, `train.yaml`.",
        "## How far to trust this",
        "\n".join(f"- {line}" for line in honesty(shown)),
        made_with(data),
        "Measured on this benchmark only; nothing is known about other skills or about safety. The base model's and "
        "the data's licences apply.",
    ]
    return "\n\n".join(parts) + "\n"


def _front(data: ReportData) -> dict[str, Any]:
    scores = (data.best_validation, data.best_test)
    results = [_result(data, score) for score in scores if score]
    return {
        "base_model": data.base_model,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tuneloop", "llama-factory", data.benchmark.domain],
        "model-index": [{"name": f"{data.base_model}-{data.benchmark.name}", "results": results}],
    }


def _result(data: ReportData, score: Score) -> dict[str, Any]:
    return {
        "task": {"type": "text-generation"},
        "dataset": {"name": data.benchmark.name, "type": data.benchmark.name, "split": score.split},
        "metrics": [{"type": score.metric, "value": round(score.value, 2)}],
    }
