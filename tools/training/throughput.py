"""How fast the base model trains on this machine: a few steps on made-up rows of two lengths, before anything is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Forecast, Throughput
from tuneloop.core.files import digest, read_model, write_atomic, write_json
from tuneloop.core.job import JobReport
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.config.config_text import dump_config, train_config
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.config.grpo_config import is_grpo
from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.config.memory import estimate_memory
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.suggest import SuggestionFacts, suggest_config
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.jobs.machine import processor_name
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.forecast import PADDED, Pace, pace_of
from tuneloop.tools.training.launch import config_context, start_smoke_run, stop_training
from tuneloop.tools.training.metrics import read_pulse
from tuneloop.tools.training.smoke_run import smoke_run_forecast, step_rows, training_plan
from tuneloop.tools.training.smoke_run_rows import LONGEST

METHOD = "lora"  # what a model that is not tiny is trained with first
SHORT, LONG = 48, 128  # words of a row, about as many tokens: what a step costs between and beyond them follows
USUAL = 3  # steps with short rows, after those with the longest


def throughput_folder(run_tools: RunTools) -> ExperimentFolder:
    """Recipe, rows and job of the measurement: a smoke run that no experiment belongs to."""
    return ExperimentFolder(run_tools.run.baseline / "throughput")


def start_throughput(run_tools: RunTools) -> None:
    """Launch the measurement, or find it running or over."""
    folder = throughput_folder(run_tools)
    values = suggested_values(run_tools)
    rows = [made_up_row(LONG)] * step_rows(values) + [made_up_row(SHORT)] * (100 * step_rows(values))
    write_atomic(folder.config, dump_config(values))
    write_json(folder.data / "data.json", rows)
    write_dataset_info(folder.data)
    write_json(folder.data / "report.json", {"rows": len(rows)})
    start_smoke_run(run_tools, folder)


def suggested_values(run_tools: RunTools) -> dict[str, Any]:
    """The config that agents are suggested first, one batch a step: the others of a step cost the same again."""
    card = read_model_card(run_tools.setup.model_root)
    facts = SuggestionFacts(
        decisions={"method": METHOD},
        parameters=card.parameters,
        device=run_tools.setup.device,
        max_positions=card.max_positions,
        template=card.template,
        chat_template=card.chat_template is not None,
        typical=SHORT,
        steps=4 * (LONGEST + USUAL),  # a smoke run has a quarter of them
    )
    found = suggest_config(installed_catalog(run_tools.engine("llamafactory")), facts).values
    return {**found, "gradient_accumulation_steps": 1}


def made_up_row(words: int) -> dict[str, str]:
    """A row of so many words; what they say changes nothing of what it costs."""
    return {"instruction": "one " * (words - 1), "input": "", "output": "two"}


def throughput_status(run_tools: RunTools) -> JobReport:
    """State of the measurement, and how many of its steps are done."""
    folder = throughput_folder(run_tools)
    pulse = read_pulse(folder.work / "smoke_run_model")
    status, _ = run_tools.status(folder.jobs, "smoke_run")
    return JobReport.of(status, done=pulse.get("step", 0), total=pulse.get("of", 0))


def stop_throughput(run_tools: RunTools) -> None:
    """End it; what it measured so far is lost."""
    stop_training(run_tools, throughput_folder(run_tools), "smoke_run", save=False)


def measured_throughput(run_tools: RunTools) -> Throughput:
    """What a measurement that is over has found. Raises RecipeError where it ended badly or left nothing to read."""
    folder = throughput_folder(run_tools)
    status, job = run_tools.status(folder.jobs, "smoke_run")
    end = status.exit
    if end is None or not end.ok:
        raise RecipeError(run_tools.failure_text(job, status) if job else "never launched", culprit="environment")
    case = config_context(run_tools, folder)
    whole = smoke_run_forecast(folder, case, run_tools.setup.model_fingerprint, end)
    pace = _measured_pace(folder.work / "smoke_run_model" / "cost.json")
    return Throughput(
        method=METHOD,
        device=run_tools.setup.device,
        threads=run_tools.setup.threads,
        rows=step_rows(case.config.values),
        tokens=pace.tokens,
        seconds=pace.cost,
        per_token=pace.slope,
        overhead=whole.overhead,
    )


def _measured_pace(file: Path) -> Pace:
    """Of the wall clock; the file is a job's, and a forecast that could be made of it proves not every part."""
    try:
        return pace_of([(tokens, seconds) for tokens, _, seconds in read_untrusted_json(file)["steps"]])
    except (ValueError, LookupError, TypeError, ArithmeticError) as e:
        raise RecipeError(f"the measurement left a {file.name} that is none: {e!r}"[:500], culprit="environment") from e


def forecast_by_throughput(run_tools: RunTools, folder: ExperimentFolder) -> Forecast | None:
    """The forecast of an experiment that has config and data and no smoke run yet; memory is estimated.

    None where nothing was measured, or another method than the config's, or on another device.
    """
    if not run_tools.run.throughput.is_file():
        return None
    values = train_config(folder).values
    if is_grpo(values) or values.get("quantization_bit"):
        return None
    found = read_model(run_tools.run.throughput, Throughput)
    case = config_context(run_tools, folder)
    report = read_model(folder.data / "report.json", GateReport)
    if (case.method, run_tools.setup.device) != (found.method, found.device):
        return None
    plan = training_plan(case, report.rows, 0, 0)
    each = found.step_seconds(plan.batch * plan.accumulation, padded_tokens(report, plan.batch))
    return Forecast(
        seconds=round(plan.steps * each + found.overhead, 2),
        memory=estimate_memory(case, tokens=report.lengths.longest or None).total,
        steps=plan.steps,
        epochs=plan.epochs,
        seconds_per_step=each,
        overhead=found.overhead,
        disk=plan.disk,
    )


def padded_tokens(report: GateReport, batch: int) -> float:
    """Tokens of a row, those up to the longest of its batch included: between the mean and the longest of twenty."""
    lengths = report.lengths
    mean = lengths.total / max(1, report.rows)
    usual = mean + max(0.0, lengths.p95 - mean) * (1 - 1 / batch) + PADDED / 2
    return min(usual, lengths.cutoff_len or usual)


def known_throughput(run_tools: RunTools) -> Throughput | None:
    """What an earlier run of this home has measured under the same conditions; None: nobody, or caches are off."""
    file = cache_file(run_tools)
    if not run_tools.settings.enable_cache or not file.is_file():
        return None
    try:
        return read_model(file, Throughput)
    except ValueError:  # may be deleted or damaged at any time; then it is measured again
        return None


def keep_throughput(run_tools: RunTools, found: Throughput) -> None:
    """Let other runs of this home know."""
    if run_tools.settings.enable_cache:
        write_json(cache_file(run_tools), found.model_dump(mode="json"))


def cache_file(run_tools: RunTools) -> Path:
    """`cache/throughput/<key>.json`, by everything that can change it but what else the machine does."""
    setup = run_tools.setup
    config = dump_config(suggested_values(run_tools))
    where = (setup.device, str(setup.threads), processor_name(setup.device))
    settings = run_tools.settings
    asked = {"slurm": settings.slurm_options, "ray": (settings.ray_address, *settings.ray_resources)}
    executor = run_tools.spec.executor
    nodes = (executor, str(asked.get(executor, ())))  # a cluster's, not this machine's
    own = (*where, *nodes, f"{SHORT} {LONG} {USUAL}")
    key = digest(setup.model_fingerprint, run_tools.engine("llamafactory").identity, config, *own)
    return run_tools.settings.home.cache / "throughput" / f"{key}.json"
