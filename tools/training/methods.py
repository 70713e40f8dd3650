"""An experiment's training by the method of its recipe: SFT by LLaMA-Factory, or GRPO by TRL (`stage: grpo`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import EarlyStop, Forecast, Training, TrainingFinding
from tuneloop.core.files import read_field, read_model
from tuneloop.core.job import JobStatus
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.protocols import TrainingKind
from tuneloop.tools.config.check import check_run_config
from tuneloop.tools.config.config_text import (
    Config,
    ConfigError,
    engine_config,
    parse_config,
    readable_train_config,
    train_config,
)
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.grpo_config import grpo_values, is_grpo
from tuneloop.tools.config.memory import training_bytes
from tuneloop.tools.config.model_card import ModelCard, read_model_card
from tuneloop.tools.housekeeping.disk import check_room
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.grpo import (
    EARNS,
    SCORE,
    SMOKE,
    TRAIN,
    GrpoJobs,
    grpo_curve,
    grpo_findings,
    is_over,
    stop_grpo,
    verify_grpo,
)
from tuneloop.tools.training.grpo_recipe import check_grpo, plan_experiment, sft_first
from tuneloop.tools.training.launch import config_context, start_smoke_run, start_training, stop_training
from tuneloop.tools.training.monitor import MonitorSigns, monitor_findings
from tuneloop.tools.training.result import log_points, training_result, verify_state, verify_training
from tuneloop.tools.training.smoke_run import smoke_run_forecast
from tuneloop.tools.training.smoke_run_rows import check_smoke_run
from tuneloop.tools.training.tokens import Format, asked_format


def by_grpo(folder: ExperimentFolder) -> bool:
    """Whether the experiment's recipe says so."""
    return is_grpo(readable_train_config(folder).values)


def check_recipe(run_tools: RunTools, text: str) -> list[Finding]:
    """What is wrong with a `train.yaml` of a run; none of level error means that it may be trained."""
    try:
        config = parse_config(text)
    except ConfigError as e:
        return [Finding("error", e.line, e.key, e.text)]
    card = read_model_card(run_tools.setup.model_root)
    if is_grpo(config.values):
        return check_grpo(run_tools, config, card)
    asked = asked_format(run_tools)
    unlike = form_warnings(config.values, asked, card)
    # The check of the config itself thinks of an evaluation in a chat.
    found = [
        f for f in check_run_config(run_tools, text) if asked == "chat" or (f.level, f.key) != ("warning", "template")
    ]
    return [*found, *(Finding("warning", config.lines.get(k, 0), k, t) for k, t in unlike)]


def form_warnings(values: Mapping[str, Any], asked: Format, card: ModelCard) -> Iterator[tuple[str, str]]:
    """Key and text of what puts training rows into another form than the evaluation asks in.

    A chat template that is another one than the tokenizer's is found by the check of the config itself.
    """
    bare = values.get("template") == "empty"
    if asked == "raw" and not bare and card.chat_template is not None:
        told = "the evaluation asks plain text, and a template puts a chat around each row"
        yield "template", f"{told}; write empty, under which the run ends each output with the tokenizer's end of text"
    if asked == "chat" and bare and card.template is None:
        yield "template", "empty puts no chat around rows, as the evaluation does; leave it out"
    if asked == "chat" and values.get("default_system"):
        yield "default_system", "the evaluation asks without this system turn; leave it out"
    if asked == "chat" and values.get("enable_thinking") is False and "enable_thinking" in (card.chat_template or ""):
        yield "enable_thinking", "the evaluation asks with the template's own default, which is true; leave it out"


def launch(run_tools: RunTools, folder: ExperimentFolder, kind: TrainingKind) -> str:
    """Start the smoke run or the training, or find it; returns the job's name. Raises RecipeError, InfrastructureError."""
    if not by_grpo(folder):
        return start_smoke_run(run_tools, folder) if kind == SMOKE else start_training(run_tools, folder)
    jobs = plan_experiment(run_tools, folder)
    if kind == TRAIN and not (folder.model / "pulse.json").is_file():
        check_room(folder.root, disk_bytes(jobs), f"training experiment {folder.number}")
    # All replies of a step, not some: what memory it takes is to be seen.
    jobs.launch(kind, jobs.values if kind == TRAIN else jobs.values.few())
    return kind


def tend(run_tools: RunTools, folder: ExperimentFolder, kind: TrainingKind) -> None:
    """Keep running what a running training needs beside it. Raises InfrastructureError where replies cannot be scored."""
    alive = [run_tools.status(folder.jobs, name)[0].state == "running" for name in (kind, SCORE)]
    if by_grpo(folder) and alive == [True, False] and not is_over(folder):
        plan_experiment(run_tools, folder).tend()


def stop(run_tools: RunTools, folder: ExperimentFolder, kind: TrainingKind, *, save: bool) -> None:
    """Ask it to end after the step at hand; with `save` it leaves a checkpoint there. Returns at once."""
    (stop_grpo if by_grpo(folder) else stop_training)(run_tools, folder, kind, save=save)


def end(run_tools: RunTools, folder: ExperimentFolder) -> None:
    """End what ran beside a training that is over. Returns at once."""
    run_tools.stop(folder.jobs, SCORE)


def findings(folder: ExperimentFolder, signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
    """What the watch of a full training says."""
    return grpo_findings(folder, signs) if by_grpo(folder) else monitor_findings(signs)


def newest_reward(folder: ExperimentFolder) -> float | None:
    """Mean reward of the last step; None of an SFT, or before the first."""
    curve = grpo_curve(folder) if by_grpo(folder) else ()
    return curve[-1]["reward"] if curve else None


def result(run_tools: RunTools, folder: ExperimentFolder, seen: JobStatus, job: Path) -> Training:
    """Proof that a training is whole. Raises RecipeError."""
    if not by_grpo(folder):
        return training_result(run_tools, folder, seen, job)
    if seen.exit is None or not seen.exit.ok:
        raise RecipeError(f"training failed. {run_tools.failure_text(job, seen)}", culprit="config")
    return verify(run_tools, folder, None)


def verify(run_tools: RunTools, folder: ExperimentFolder, stopped: EarlyStop | None) -> Training:
    """The training in `model/`, whole or stopped before its end. Raises RecipeError saying what is wrong."""
    if not by_grpo(folder):
        return verify_training(folder, run_tools, stopped)
    end(run_tools, folder)
    found = verify_grpo(run_tools, folder, grpo_values(train_config(folder).values).max_steps, stopped)
    forecast = read_model(folder.forecast, Forecast) if folder.forecast.is_file() else None
    return found.model_copy(update={"forecast": forecast})


def forecast(run_tools: RunTools, folder: ExperimentFolder) -> Forecast:
    """By a smoke run that is over. Raises RecipeError naming what its files show to be wrong."""
    status, _ = run_tools.status(folder.jobs, SMOKE)
    assert status.exit is not None, "a smoke run that was waited for is over"
    if by_grpo(folder):
        return _grpo_forecast(run_tools, folder, status)
    out = folder.work / "smoke_run_model"
    verify_state(out, engine_config(folder, SMOKE).values, rows=0, seconds=0)
    if wrong := check_smoke_run(log_points(out), status.exit):
        raise RecipeError("; ".join(wrong), culprit="config")
    case = config_context(run_tools, folder)
    return smoke_run_forecast(folder, case, run_tools.setup.model_fingerprint, status.exit)


def _grpo_forecast(run_tools: RunTools, folder: ExperimentFolder, status: JobStatus) -> Forecast:
    jobs = plan_experiment(run_tools, folder)
    found, reward = jobs.smoke_result(status)
    if reward < EARNS and jobs.values.start_from != "base":
        start = "the base model" if jobs.begin == run_tools.setup.model_root else "the model that it goes on with"
        raise RecipeError(sft_first(f"the replies of {start} earn {reward:.3f} on average"), culprit="config")
    rows, values = read_field(folder.data / "report.json", "rows", int), jobs.values
    prompts = values.max_steps * values.replies / values.num_generations / values.num_iterations
    return found.model_copy(update={"epochs": round(prompts / max(1, rows), 2), "disk": disk_bytes(jobs)})


def disk_bytes(jobs: GrpoJobs) -> int:
    """What checkpoints and model of a GRPO training take at most: as much as those of an SFT by the same method."""
    case = config_context(jobs.tools, jobs.folder)
    return training_bytes(replace(case, config=Config({**case.config.values, "finetuning_type": jobs.method})))
