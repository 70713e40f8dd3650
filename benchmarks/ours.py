"""The reference experiment on our side: the graph's own nodes `train` and `evaluate` on a run whose recipe is given."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import yaml
from place import Place
from processes import ever_busy
from stock import trainer_seconds
from value import oracle_rows

from tuneloop.core.files import digest, digest_file, write_atomic, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.run_spec import RunSpec, SandboxKind
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.drive import create_run
from tuneloop.graph.nodes.evaluate import measure_experiment
from tuneloop.graph.nodes.prepare import fetch_and_build
from tuneloop.graph.nodes.train import train
from tuneloop.graph.state import State
from tuneloop.sandboxes.jobs import newest_attempt
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.runs.signature import write_setup

BATCH = 8
RECIPE = {
    "finetuning_type": "full",
    "template": "chatml",
    "cutoff_len": 320,
    "per_device_train_batch_size": BATCH,
    "gradient_accumulation_steps": 1,
    "lr_scheduler_type": "cosine",
    "disable_gradient_checkpointing": True,
}


@dataclass(frozen=True)
class Timed:
    """Seconds of both nodes, CPU seconds of this process and of the workers with their jobs, and what was measured."""

    train: float
    evaluate: float
    own_cpu: float
    jobs_cpu: float
    score: Score


@dataclass(frozen=True)
class Ours:
    """`steps` and `generation`: seconds by the engines' own clocks, inside the nodes' own."""

    spent: Timed
    steps: float
    generation: float
    folder: ExperimentFolder

    @property
    def whole(self) -> float:
        """Both nodes."""
        return self.spent.train + self.spent.evaluate

    @property
    def weights(self) -> str:
        """Hash of what was trained."""
        return digest_file(self.folder.model / "model.safetensors")


def open_reference(place: Place, items: int, name: str = "reference", sandbox: SandboxKind = "auto") -> Context:
    """A prepared run without a baseline; its experiments are made by `experiment`."""
    spec = RunSpec(
        benchmark="wordproblems",
        base_model="tiny",
        benchmark_limit=items,
        sandbox="auto" if sandbox == "process" else sandbox,
    )
    settings = place.settings.model_copy(update={"unsandboxed": "always" if sandbox == "process" else "never"})
    run = create_run(spec, settings, name)
    ctx = Context(run, settings, State(run_id=run.id))
    write_setup(run, fetch_and_build(ctx))
    return ctx


def experiment(ctx: Context, number: int, steps: int) -> Context:
    """An experiment with data and recipe, ready for `train`; the learning rate tells one from the other."""
    folder = ctx.run.experiment(number)
    rows = oracle_rows()
    rows = (rows * (steps * BATCH // len(rows) + 1))[: steps * BATCH]
    write_json(folder.data / "data.json", rows)
    write_json(folder.data / "report.json", {"rows": len(rows), "source": digest(json.dumps(rows))})
    write_dataset_info(folder.data)
    values = {**RECIPE, "max_steps": steps, "learning_rate": 1e-3 + 1e-5 * number}
    write_atomic(folder.config, yaml.safe_dump(values))
    return Context(ctx.run, ctx.settings, State(run_id=ctx.run.id, experiment=number))


def timed(ctx: Context) -> Timed:
    """Train and evaluate."""
    began, own, jobs = time.perf_counter(), time.process_time(), workers_cpu(ctx)
    train(ctx)
    trained = time.perf_counter()
    score = measure_experiment(ctx, ctx.state.experiment)[0]
    ended = time.perf_counter()
    return Timed(trained - began, ended - trained, time.process_time() - own, workers_cpu(ctx) - jobs, score)


def workers_cpu(ctx: Context) -> float:
    """CPU seconds so far of this run's workers and of the jobs that they forked."""
    folders = [newest_attempt(ctx.run_tools.workers.jobs, engine) for engine in ("llamafactory", "opencompass")]
    return sum(ever_busy(int((folder / "lock").read_text().split()[0])) for folder in folders if folder)


def reference(ctx: Context) -> Ours:
    """Train and evaluate one experiment, with the engines' own clocks."""
    spent = timed(ctx)
    return Ours(spent, trainer_seconds(ctx.folder.model), generation_seconds(ctx.folder), ctx.folder)


def generation_seconds(folder: ExperimentFolder) -> float:
    """Seconds in the model's `generate`, by the evaluation's own clock."""
    return sum(float(row["seconds"]) for row in json.loads((folder.work / "evaluate" / "generation.json").read_text()))


def evaluation_batch(folder: ExperimentFolder) -> int:
    """Items that are answered together."""
    return int(json.loads((folder.work / "evaluate.input" / "job.json").read_text())["batch_size"])
