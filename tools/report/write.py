"""Write everything a report consists of; `report.json` comes last and says that the run is over."""

from __future__ import annotations

from typing import Any

import yaml

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score
from tuneloop.tools.report import tables
from tuneloop.tools.report.caveats import caveat_lines
from tuneloop.tools.report.data import ReportData
from tuneloop.tools.report.markdown import provenance, report_markdown, verdict_line
from tuneloop.tools.report.plots import draw_losses, draw_scores, draw_times
from tuneloop.tools.report.report_json import report_facts

# The model card `best/README.md`, in the form that model hubs read.


def model_card(run_id: str, data: ReportData) -> str:
    """Front matter and text; only called when there is a best model."""
    best = data.best
    if best is None:
        raise ValueError("there is no best model to describe")
    front = yaml.safe_dump(_front(data), sort_keys=False, allow_unicode=True)
    parts = [
        f"---\n{front}---",
        f"# {data.base_model}, fine-tuned for {data.benchmark.name}",
        verdict_line(data),
        tables.result_table(data),
        f"Task: {data.benchmark.description}",
        f"Trained by run `{run_id}`, experiment {best.number}: {best.hypothesis.statement} The recipe lies beside this "
        "page: `process_data.py`, `train.yaml`.",
        "## How far to trust this",
        "\n".join(f"- {line}" for line in caveat_lines(data)),
        provenance(data),
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


def write_report(run: RunFolder, data: ReportData) -> None:
    """Plots, `report.md`, the model card when `best/` is there, `report.json`. Writing again gives the same files."""
    plots = run.root / "report"
    draw_scores(plots / "scores.png", data.benchmark.metric, data.baseline_validation, data.journal)
    if any(data.losses.values()):
        draw_losses(plots / "losses.png", data.losses)
    if data.times:
        draw_times(plots / "times.png", data.times)
    write_atomic(run.report, report_markdown(run.id, data))
    if data.best is not None and run.best.is_dir():
        write_atomic(run.best / "README.md", model_card(run.id, data))
    write_json(run.report_json, report_facts(run.id, data))
