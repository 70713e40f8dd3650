"""The report of a run without a benchmark: what was trained and delivered, and that nothing is known of how good it is."""

from __future__ import annotations

from typing import Any

import yaml

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report import tables
from tuneloop.tools.report.caveats import left_out_line
from tuneloop.tools.report.data import RunFacts
from tuneloop.tools.report.markdown import course_parts, provenance
from tuneloop.tools.report.plots import draw_losses, draw_times
from tuneloop.tools.report.report_json import run_facts


def unevaluated_verdict(data: RunFacts) -> str:
    """The result in one line."""
    if data.number is not None:
        said = f"experiment {data.number} was trained and is delivered as it is."
        return f"Nothing was evaluated and nothing is proved: {said} The model: best/."
    failed = next((e.failure for e in data.journal.experiments if e.failure), None)
    why = f"experiment 1 failed in {failed.node}" if failed else "no experiment was made"
    return f"No model is delivered: {why}. Nothing was evaluated."


def unknown_lines(data: RunFacts) -> list[str]:
    """What a careful reader must know of a model that nobody measured."""
    return [
        f"This run has no benchmark: no model was measured, before or after the training. Whether the model is better or worse "
        f"than {data.base_model} is unknown.",
        "Its training rows were compared with no benchmark. Before a score is believed, look for the benchmark's items in "
        "them: `tuneloop data overlap DATA --benchmark NAME`.",
        "To measure it: `tuneloop eval MODEL_FOLDER --benchmark NAME`. To be told what a training gains: a run with a "
        "benchmark.",
        *left_out_line(data),
    ]


def unevaluated_markdown(run_id: str, data: RunFacts) -> str:
    """The whole page."""
    done = data.journal.experiments
    parts = [
        f"# {run_id}: {data.base_model}, trained without evaluation",
        f"**{unevaluated_verdict(data)}**",
        "## What is not known",
        "\n".join(f"- {line}" for line in unknown_lines(data)),
        "## Experiments",
        tables.experiments_table(data) if done else "No experiment was finished.",
        *course_parts(data),
    ]
    return "\n\n".join(parts) + "\n"


def unevaluated_card(run_id: str, data: RunFacts) -> str:
    """The model card `best/README.md`, without a result. Raises ValueError where no model is delivered."""
    if data.best is None:
        raise ValueError("there is no model to describe")
    front = {
        "base_model": data.base_model,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tuneloop", "llama-factory"],
    }
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---",
        f"# {data.base_model}, fine-tuned, not evaluated",
        f"**{unevaluated_verdict(data)}**",
        f"Trained by run `{run_id}`, experiment {data.best.number}: {data.best.hypothesis.statement} The recipe lies beside "
        "this page: `process_data.py`, `train.yaml`.",
        "## What is not known",
        "\n".join(f"- {line}" for line in unknown_lines(data)),
        provenance(data),
        "The base model's and the data's licences apply.",
    ]
    return "\n\n".join(parts) + "\n"


def unevaluated_facts(run_id: str, data: RunFacts) -> dict[str, Any]:
    """The content of `report.json`: the keys that scripts read of every report, null where a number would stand."""
    nothing = {"validation": None, "test": None}
    chosen = data.candidates.chosen
    return {
        **run_facts(run_id, data),
        "metric": None,
        "direction": None,
        "baseline": nothing,
        "best": {
            "experiment": data.number,
            "training": chosen.training if chosen else None,
            "delivered": chosen is not None,
            "claimed": False,
            **nothing,
        },
        "claim": None,
        "says": unevaluated_verdict(data),
    }


def write_unevaluated_report(run: RunFolder, data: RunFacts) -> None:
    """Plots, `report.md`, the model card and, last, `report.json`. Writing again gives the same files."""
    plots = run.root / "report"
    if any(data.losses.values()):
        draw_losses(plots / "losses.png", data.losses)
    if data.times:
        draw_times(plots / "times.png", data.times)
    write_atomic(run.report, unevaluated_markdown(run.id, data))
    if data.best is not None:
        write_atomic(run.best / "README.md", unevaluated_card(run.id, data))
    write_json(run.report_json, unevaluated_facts(run.id, data))
