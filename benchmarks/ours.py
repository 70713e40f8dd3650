"""The reference experiment on our side: the graph's own nodes `train` and `evaluate` on a run whose recipe is given."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from place import Place
from stock import plain_environment, trainer_seconds
from value import oracle_rows

from tuneloop.core.files import digest, digest_file, write_atomic, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.evaluate import measure
from tuneloop.graph.nodes.prepare import settle
from tuneloop.graph.nodes.train import train
from tuneloop.graph.runs import create_run
from tuneloop.graph.state import State
from tuneloop.tools.params.finalize import write_dataset_info

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
PROBE = Path(__file__).with_name("generation_probe.py")


@dataclass(frozen=True)
class Ours:
    """Seconds: `train` and `evaluate` are whole nodes, `steps` and `generation` the engines' own clocks inside them."""

    train: float
    steps: float
    evaluate: float
    generation: float
    score: Score
    folder: ExperimentFolder

    @property
    def weights(self) -> str:
        """Hash of what was trained."""
        return digest_file(self.folder.model / "model.safetensors")


def open_reference(place: Place, items: int) -> Context:
    """A prepared run without a baseline; its experiments are made by `experiment`."""
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", benchmark_limit=items)
    run = create_run(spec, place.settings, "reference")
    ctx = Context(run, place.settings, State(run_id=run.id))
    write_json(run.setup, settle(ctx).model_dump(mode="json"))
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


def timed(ctx: Context) -> tuple[float, float, Score]:
    """Seconds of `train`, seconds of `evaluate`, what was measured."""
    began = time.perf_counter()
    train(ctx)
    trained = time.perf_counter()
    score = measure(ctx, ctx.state.experiment)
    return trained - began, time.perf_counter() - trained, score


def reference(place: Place, ctx: Context) -> Ours:
    """Train and evaluate one experiment, with the engines' own clocks."""
    training, evaluation, score = timed(ctx)
    generation = generation_seconds(place, ctx.folder)
    steps = trainer_seconds(ctx.folder.model)
    return Ours(training, steps, evaluation, generation, score, ctx.folder)


def generation_seconds(place: Place, folder: ExperimentFolder) -> float:
    """Seconds in the model's `generate`, from the evaluation's own results; measured again where it does not say."""
    said = json.loads((folder.work / "evaluate" / "results.json").read_text())["models"][0].get("generation_seconds")
    return float(said) if said is not None else probed(place, folder)


def probed(place: Place, folder: ExperimentFolder) -> float:
    """The same job once more in a process of its own, with a clock around `generate`."""
    env = {**plain_environment(place, "opencompass"), "PYTHONHASHSEED": "0"}
    out = place.root / "probe"
    argv = [
        str(place.engines["opencompass"].python),
        str(PROBE),
        str(folder.work / "evaluate.input" / "job.json"),
        str(out),
    ]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["generation"])


def evaluation_batch(folder: ExperimentFolder) -> int:
    """Items that are answered together."""
    return int(json.loads((folder.work / "evaluate.input" / "job.json").read_text())["batch_size"])
