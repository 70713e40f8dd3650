"""GRPO trainings of the matrix: what is trained on, from which model, and what a few steps tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.experiment import Training, TrainingFinding
from tuneloop.core.files import digest, write_atomic, write_json
from tuneloop.core.job import JobStatus
from tuneloop.core.layout import RunFolder
from tuneloop.tools.config.grpo_config import GrpoConfig, fit_prompts, reply_problem
from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.evaluation.jobs import EXECUTE, run_stage
from tuneloop.tools.evaluation.standalone.run_tools import KILLS, wait_for
from tuneloop.tools.matrix.configs import GRPO
from tuneloop.tools.matrix.experiments import Experiment
from tuneloop.tools.matrix.tasks import Task
from tuneloop.tools.matrix.training import CellTraining, Say, TrainingRunTools, check_chat_template, check_target, held
from tuneloop.tools.training.grpo import (
    EARNS,
    SCRIPTS,
    SMOKE,
    TRAIN,
    GrpoJobs,
    grpo_curve,
    grpo_findings,
    scoring_facts,
)
from tuneloop.tools.training.launch import was_training_killed
from tuneloop.tools.training.monitor import MonitorSigns
from tuneloop.tools.weights.fingerprints import model_fingerprint

SMOKE_GROUPS = 4  # groups of replies a step
POINTS = 200  # of a reward curve, in a note


@dataclass(frozen=True, kw_only=True)
class GrpoTraining(CellTraining):
    """`rows`: prompts. `golds`: what the scorer has of each. `begin`: the model that it starts with, an adapter or weights."""

    values: GrpoConfig
    golds: tuple[dict[str, Any], ...]
    begin: Path
    began_with: str

    @property
    def label(self) -> str:
        """With the newest reward."""
        rewards = [row["reward"] for row in grpo_curve(self.folder) if row.get("reward") is not None]
        return f"{self.experiment.model}, reward {rewards[-1]:.2f}" if rewards else self.experiment.model

    @cached_property
    def both(self) -> GrpoJobs:
        """Its trainer and scorer. After an SFT of all weights, all weights are trained."""
        assert self.tools.task is not None, "a training has a task"
        return GrpoJobs(
            self.tools,
            self.folder,
            self.key,
            self.values,
            self.tools.task.folder.benchmark,
            self.begin,
            new_adapter=self.began_with == "base" and self.values.finetuning_type == "lora",
            seed=self.tools.training_seed,
            chat=self.experiment.chat,
            options=json.loads(self.config)["options"],
            name=self.experiment.model,
        )

    def write_recipe(self) -> None:
        """Config, prompts and, where the trainer cannot look, answers; what is there already stays."""
        folder = self.folder
        if not (folder.data / "report.json").is_file():
            write_atomic(folder.config, self.config)
            self.both.write_items(self.rows, self.golds)
            write_json(folder.data / "report.json", {"rows": len(self.rows)})

    def start(self) -> None:
        """Launch scorer and training, or find them."""
        self.both.launch(TRAIN, self.values)

    def tend(self) -> None:
        """Keep its scorer running. Raises InfrastructureError where it cannot score."""
        self.both.tend()

    def stop(self, *, save: bool) -> None:
        """End it; its scorer ends with it."""
        self.both.stop(save=save)

    def findings(self, signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
        """What its watch says."""
        return grpo_findings(self.folder, signs)

    def result(self, seen: JobStatus, job: Path) -> Training:
        """Proof that it is whole. Raises RecipeError."""
        return self.both.result(seen, job)

    def told(self) -> dict[str, Any]:
        """The model that it began with, and the curve."""
        curve = grpo_curve(self.folder)
        return {"start": self.began_with, "rewards": curve[:: max(1, -(-len(curve) // POINTS))]}


def plan_grpo(
    experiment: Experiment,
    tools: TrainingRunTools,
    values: GrpoConfig,
    options: Mapping[str, Any],
    target: Path,
    sft: Path | None = None,
) -> GrpoTraining:
    """What would be trained, from the base model or from `sft`, a trained one; nothing is launched or written.

    Raises InvalidRequestError as `check_grpo` does, and for a `target` that holds something else.
    """
    assert tools.task is not None, "a training has a task"
    values = fit_prompts(values, tools.card.max_positions)
    check_grpo(experiment, tools, tools.task, values)
    check_target(target)
    rows = tuple({"prompt": one.prompt} for one in tools.task.train)
    golds = tuple({"answer": one.gold, "item": one.item} for one in tools.task.train)
    config = json.dumps({"options": dict(options), **values.model_dump()}, sort_keys=True)
    key = training_key(experiment, tools, tools.task, config, [*zip(rows, golds, strict=True)], sft)
    own = RunFolder(tools.run.root / f"{tools.task.name[:40]}-{experiment.model}-{key}")
    return GrpoTraining(
        experiment,
        tools.changed(run=own),
        key,
        target,
        config,
        rows,
        values=values,
        golds=golds,
        begin=sft or tools.setup.model_root,
        began_with="sft" if sft else "base",
    )


def check_grpo(experiment: Experiment, tools: TrainingRunTools, task: Task, values: GrpoConfig) -> None:
    """Raises InvalidRequestError for a task that cannot be scored or has too few prompts, and a model without template or room."""
    if run_stage(task.folder.benchmark) == EXECUTE:
        raise InvalidRequestError(
            f"experiment {experiment.name}: GRPO needs a checker of answers, and {task.name} runs code"
        )
    check_chat_template(experiment, tools.card)
    if task.folder.benchmark.verified and any(one.item is None for one in task.train):
        root = task.folder.root
        raise InvalidRequestError(
            f"{root}: an older version made it, without what GRPO needs; remove it, and it is made again"
        )
    if values.prompts > len(task.train):
        raise InvalidRequestError(
            f"{GRPO}: replies to {values.prompts} prompts are drawn at once, and {task.name} has {len(task.train)}; right is a "
            "smaller per_device_train_batch_size, or more num_generations"
        )
    check_lengths(tools, task, values)


def check_lengths(tools: TrainingRunTools, task: Task, values: GrpoConfig) -> None:
    """Raises InvalidRequestError where the model has no room for a reply, or for too few prompts beside one.

    What a chat template adds is not counted: the engine leaves out prompts that are too long with it.
    """
    if why := reply_problem(values, tools.card.max_positions):
        raise InvalidRequestError(f"{GRPO}: max_completion_length: {values.max_completion_length} {why}")
    tokenizer = load_tokenizer(tools.setup.model_root / "tokenizer.json")
    encoded = tokenizer.encode_batch([one.prompt for one in task.train], add_special_tokens=False)
    short = sum(len(one.ids) <= values.max_prompt_length for one in encoded)
    if short < values.prompts:
        raise InvalidRequestError(
            f"{GRPO}: replies to {values.prompts} prompts are drawn at once, and {short} of the {len(encoded)} of {task.name} "
            f"have at most {values.max_prompt_length} tokens; right is a larger max_prompt_length or, within the model's "
            f"{tools.card.max_positions} positions, a smaller max_completion_length"
        )


def training_key(
    experiment: Experiment,
    tools: TrainingRunTools,
    task: Task,
    config: str,
    items: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    sft: Path | None,
) -> str:
    """Over everything that decides the training; what its job is told is added when it is launched."""
    start = model_fingerprint(sft, None) if sft else tools.setup.model_fingerprint
    machine = (str(tools.seed), tools.device, str(tools.threads))
    facts = (config, str(experiment.chat), *machine, start, tools.setup.model_fingerprint)
    scripts = (path.read_bytes() for path in SCRIPTS)
    scoring = scoring_facts(tools, task.folder.benchmark)
    rows = (json.dumps(one, sort_keys=True) for pair in items for one in pair)
    return digest(*facts, tools.engine("trl").identity, *scripts, *scoring, *rows)


def try_grpo(one: GrpoTraining, say: Say) -> tuple[float, bool]:
    """A few steps: seconds that all will take, and whether replies earn enough to learn from. Raises InvalidRequestError."""
    tools, folder = one.tools, one.folder

    def look(what: str, done: int, total: int) -> None:
        say(what, done, total)
        if tools.status(folder.jobs, SMOKE)[0].state == "running":
            one.tend()

    try:
        with held(one):
            for _ in range(KILLS):
                one.both.launch(SMOKE, one.values.few(SMOKE_GROUPS))
                status = wait_for(tools, folder.jobs, SMOKE, look, lambda: one.stop(save=False))
                if not (status.killed or was_training_killed(status)):
                    break
            forecast, reward = one.both.smoke_result(status)
    except (RecipeError, InfrastructureError) as e:
        raise InvalidRequestError(f"{GRPO}: {one.experiment.model}: a few steps of its training failed: {e}") from e
    return forecast.seconds, reward >= EARNS
