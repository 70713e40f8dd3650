"""A run as experiment trackers want it: parameters, numbers, curves and files of the run and of each experiment.

Read from the run's files, so a finished run can be sent as well as one at work. No item of a benchmark is among it; the
sealed test is not before the report is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneloop.core.experiment import Experiment
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.graph.telemetry.spans import trace_id
from tuneloop.tools.config.config_text import readable_train_config
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.runs.journal import baseline_score, load_journal
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.training.result import log_points

Parameter = str | int | float | bool
CURVES = ("loss", "lr", "eval_loss")  # as the engine's log calls them
OF_THE_RUN = (
    "benchmark",
    "base_model",
    "loop_n",
    "patience",
    "parallel",
    "timeout",
    "seed",
    "seeds",
    "benchmark_limit",
    "upper_data_size_limit",
)


@dataclass(frozen=True)
class TrackedItem:
    """The run (`number` 0) or one of its experiments; `key` is the same in every sending, and of no other run."""

    key: str
    run: str
    number: int
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[int, Mapping[str, float]], ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """What people see."""
        return f"{self.run} experiment {self.number}" if self.number else self.run


def tracked_items(run: RunFolder, sent: set[int]) -> Iterator[TrackedItem]:
    """Experiments that are over and not among `sent`, then the run with their scores as a curve."""
    found = [e for e in load_journal(run).experiments if e.number not in sent]
    for experiment in found:
        yield experiment_item(run, experiment)
    yield run_item(run, found)


def experiment_item(run: RunFolder, experiment: Experiment) -> TrackedItem:
    """One experiment that is over."""
    folder = run.experiment(experiment.number)
    score, compared, training = experiment.score, experiment.feedback.comparison, experiment.training
    spent = training.spent if training else None
    numbers = {
        "validation": score and score.value,
        "validation_low": score and score.low,
        "validation_high": score and score.high,
        "gain": compared and compared.gain,
        "rows": training and training.rows,
        "steps": training and training.steps,
        "first_loss": training and training.first_loss,
        "last_loss": training and training.last_loss,
        "training_seconds": training and training.seconds,
        "training_memory": spent and spent.memory,
        "seconds": experiment.seconds,
        "repairs": experiment.repairs,
        **{f"validation/{name}": other.value for name, other in experiment.also.items()},
    }
    tags = {
        "outcome": experiment.outcome,
        "aspect": experiment.hypothesis.aspect,
        "hypothesis": experiment.hypothesis.statement,
        "base_model": read_spec(run).base_model or "",
        "failure": experiment.failure.node if experiment.failure else "",
    }
    return TrackedItem(
        key=item_key(run, experiment.number),
        run=run.id,
        number=experiment.number,
        parameters=config_parameters(folder),
        tags={name: text for name, text in tags.items() if text},
        metrics=known_numbers(numbers),
        curve=tuple(loss_curve(folder)),
        files=tuple(file for file in (folder.config, folder.script) if file.is_file()),
    )


def run_item(run: RunFolder, new: list[Experiment]) -> TrackedItem:
    """The run, with the scores of `new` experiments at their numbers; the sealed test once the report is written."""
    spec = read_spec(run).model_dump(mode="json")
    base = baseline_score(run)
    numbers: dict[str, Any] = {"base_validation": base and base.value}
    files: tuple[Path, ...] = ()
    if run.report_json.is_file():
        report = read_report(run)
        tests = {"base_test": report["baseline"]["test"], "best_test": report["best"]["test"]}
        numbers |= {name: score and score["value"] for name, score in tests.items()}
        if claim := report["claim"]:
            numbers |= {"test_gain": claim["gain"], "test_gain_low": claim["low"], "test_gain_high": claim["high"]}
        files = tuple(file for file in (run.report, run.best / "README.md") if file.is_file())
    curve = tuple((e.number, {"validation": e.score.value}) for e in new if e.score is not None)
    parameters = {name: spec[name] for name in OF_THE_RUN if isinstance(spec.get(name), Parameter)}
    return TrackedItem(item_key(run, 0), run.id, 0, parameters, {}, known_numbers(numbers), curve, files)


def item_key(run: RunFolder, number: int) -> str:
    """Of the run's name and first moment: a deleted run and its namesake are two."""
    return f"{trace_id(run):032x}-{number}"


def config_parameters(folder: ExperimentFolder) -> dict[str, Parameter]:
    """What `train.yaml` sets; what is no plain value as text, nothing where it cannot be read."""
    values = readable_train_config(folder).values
    return {name: value if isinstance(value, Parameter) else str(value) for name, value in values.items()}


def loss_curve(folder: ExperimentFolder) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Step and what the engine logged there."""
    for row in log_points(folder.model):
        if numbers := known_numbers({name: row.get(name) for name in CURVES}):
            yield row["current_steps"], numbers


def known_numbers(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Without what was not measured, and without what trackers refuse: infinity and NaN."""
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
