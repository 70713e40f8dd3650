"""Rehearsal and estimate against what trainings really cost: CPU seconds and peak memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from figures import figure
from place import Place
from trials import Trial, larger_run, opened, tiny_run

from tuneloop.core.experiment import Cost, forecast_error_percent
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.smoke_run import smoke_run
from tuneloop.graph.nodes.train import finished_training, train
from tuneloop.tools.config.memory import estimate_memory
from tuneloop.tools.training.launch import config_context
from tuneloop.tools.training.result import training_cost

FAST = {"disable_gradient_checkpointing": True}
FORECAST = (
    Trial({"finetuning_type": "full", "max_steps": 160, "per_device_train_batch_size": 16, "cutoff_len": 320, **FAST}),
    Trial(
        {"finetuning_type": "lora", "lora_rank": 16, "max_steps": 60, "per_device_train_batch_size": 8}
        | {"gradient_accumulation_steps": 2, "cutoff_len": 128, **FAST}
    ),
    Trial(
        {"finetuning_type": "freeze", "num_train_epochs": 1, "per_device_train_batch_size": 4, "cutoff_len": 512}
        | {"val_size": 0.1, "eval_strategy": "steps", "eval_steps": 0.25},
        rows=500,
    ),
    Trial(
        {"finetuning_type": "full", "max_steps": 60, "per_device_train_batch_size": 8, "cutoff_len": 512, **FAST},
        joined=2,
        long={6: 20},
    ),
    Trial(
        {"finetuning_type": "lora", "max_steps": 30, "per_device_train_batch_size": 2, "cutoff_len": 128, **FAST},
        larger=True,
    ),
)
SMALL_FORECAST = (
    Trial({"finetuning_type": "full", "max_steps": 12, "per_device_train_batch_size": 4, **FAST}, rows=60),
)


def shape(larger: bool, method: str, batch: int, cutoff: int, fast: bool) -> Trial:
    """Two steps of rows that fill `cutoff`."""
    values = {"finetuning_type": method, "max_steps": 2, "per_device_train_batch_size": batch, "cutoff_len": cutoff}
    return Trial({**values, **(FAST if fast else {})}, larger, rows=2 * batch, joined=cutoff // 50 + 1)


ESTIMATE = (
    shape(False, "full", 16, 1024, True),
    shape(False, "lora", 16, 512, True),
    shape(False, "full", 8, 512, False),
    shape(False, "freeze", 1, 128, True),
    shape(True, "full", 1, 1024, False),
    shape(True, "full", 4, 256, True),
    shape(True, "lora", 8, 128, True),
    shape(True, "lora", 2, 512, False),
    shape(True, "freeze", 4, 128, True),
)
SMALL_ESTIMATE = ESTIMATE[3:4]


@dataclass(frozen=True)
class Held:
    """A forecast beside what was spent."""

    said: Cost
    took: Cost

    @property
    def cpu(self) -> float:
        """Error in percent, without sign."""
        return abs(forecast_error_percent(self.said.cpu, self.took.cpu))

    @property
    def memory(self) -> float:
        """Error in percent, without sign."""
        return abs(forecast_error_percent(self.said.memory, self.took.memory))


@contextmanager
def runs(place: Place) -> Iterator[None]:
    """Workers that jobs have started are retired in the end."""
    try:
        yield
    finally:
        for run in (tiny_run, larger_run):
            place.once(run).run_tools.workers.stop()


def forecasts(place: Place) -> list[Held]:
    """Each recipe smoke_run, then trained."""
    with runs(place):
        return [held(place, n, trial) for n, trial in enumerate(SMALL_FORECAST if place.small else FORECAST, 1)]


def held(place: Place, number: int, trial: Trial) -> Held:
    """One of them."""
    place.say(f"forecast: {trial.name}")
    ctx = opened(place, number, trial)
    smoke_run(ctx)
    done = finished_training(ctx)
    assert done.forecast is not None and done.spent is not None
    found = Held(done.forecast, done.spent)
    place.note(f"forecast: {trial.name}", {"said": found.said.model_dump(), "took": found.took.model_dump()})
    return found


def estimates(place: Place) -> list[float]:
    """Errors of the memory estimate, in percent."""
    with runs(place):
        return [estimated(place, n, trial) for n, trial in enumerate(SMALL_ESTIMATE if place.small else ESTIMATE, 101)]


def estimated(place: Place, number: int, trial: Trial) -> float:
    """One of them."""
    place.say(f"estimate: {trial.name}")
    ctx = opened(place, number, trial)
    train(ctx)
    real, said = peak(ctx), estimate_memory(config_context(ctx.run_tools, ctx.folder))
    place.note(f"estimate: {trial.name}", {"said": said.total, "took": real, **said.components})
    return forecast_error_percent(said.total, real)


def peak(ctx: Context) -> int:
    """Resident bytes of the training at most."""
    return training_cost(ctx.folder, ctx.run_tools).memory


@figure("forecast CPU seconds, median error", "%", "<= 20")
def cpu(place: Place) -> float:
    """Of the smoke runs of five recipes."""
    return median(one.cpu for one in place.once(forecasts))


@figure("forecast peak memory, median error", "%", "<= 20")
def memory(place: Place) -> float:
    """Of the same."""
    return median(one.memory for one in place.once(forecasts))


@figure("memory estimate against peak memory, largest error", "%", "<= 20")
def estimate(place: Place) -> float:
    """Of nine recipes on two models."""
    return max(map(abs, place.once(estimates)))
