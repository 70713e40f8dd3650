"""Trainings of the matrix: each a job of its own under everything that decides it, several side by side, delivered whole."""

from __future__ import annotations

import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError, RecipeError
from tuneloop.core.experiment import Forecast, Training, TrainingFinding
from tuneloop.core.files import digest, fsync_tree, read_model, write_atomic, write_json
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import Setup
from tuneloop.tools.config.check import check_run_config
from tuneloop.tools.config.config_text import dump_config, engine_config
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.config.model_card import ModelCard, read_model_card
from tuneloop.tools.evaluation.standalone.run_tools import KILLS, LOOK, StandaloneRunTools, wait_for
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.hub.models import ModelFolder
from tuneloop.tools.jobs.machine import cpu_threads
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.matrix.experiments import EXPERIMENTS, Experiment
from tuneloop.tools.matrix.tasks import Task, text_ends, training_row
from tuneloop.tools.training.launch import (
    config_context,
    start_smoke_run,
    start_training,
    stop_training,
    was_training_killed,
)
from tuneloop.tools.training.metrics import read_signs
from tuneloop.tools.training.monitor import MonitorSigns, monitor_findings
from tuneloop.tools.training.result import log_points, training_result, verify_state
from tuneloop.tools.training.smoke_run import smoke_run_forecast
from tuneloop.tools.training.smoke_run_rows import check_smoke_run
from tuneloop.tools.weights.fingerprints import model_fingerprint
from tuneloop.tools.weights.trained_files import (
    ADAPTER,
    CONFIG,
    GENERATION,
    TOKENIZER,
    WEIGHTS,
    accept_model,
)

NOTE = "trained.json"  # last file of a delivered model
CUTOFF = 2048  # tokens of a row, where sft.yaml does not say
Say = Callable[[str, int, int], None]  # what, done, total


class Trained(BaseModel):
    """What a delivered model is: written last beside its weights.

    Of GRPO, `start` is the model that it began with, and `rewards` its curve: step, reward, length in tokens, kl, clipped and
    alike (shares of replies cut off, and of groups whose rewards are all the same).
    """

    key: str
    task: str
    experiment: str
    chat: bool
    mask_question: bool
    seed: int
    base_model: str
    base: str
    training: Training
    start: str = "base"
    rewards: list[dict[str, float]] = []


@dataclass(frozen=True)
class TrainingRunTools(StandaloneRunTools):
    """`run` is the folder of one training, whose only experiment is 001."""

    task: Task | None = None
    model: ModelFolder | None = None
    seed: int = 1
    parallel: int = 1

    @property
    def threads(self) -> int:
        """The machine's cores, shared by the trainings that run side by side."""
        return self.setup.threads

    def changed(self, *, run: RunFolder | None = None, seed: int | None = None) -> TrainingRunTools:
        """The same for another folder or seed. What was settled stays: a model is hashed once."""
        other = replace(self, run=run or self.run, seed=self.seed if seed is None else seed)
        vars(other)["setup"] = self.setup
        return other

    @property
    def card(self) -> ModelCard:
        """What the base model says of itself."""
        assert self.model is not None, "a training has one"
        return read_model_card(self.model.root)

    @property
    def training_seed(self) -> int:
        """What data and training are seeded with."""
        return self.seed

    @cached_property
    def setup(self) -> Setup:
        """What a run's `prepare` would have settled."""
        assert self.task is not None and self.model is not None, "a training has both"
        memory = self.settings.home.cache / "digests" if self.settings.enable_cache else None
        return Setup(
            benchmark=self.task.folder.benchmark,
            benchmark_root=self.task.folder.root,
            benchmark_fingerprint=self.task.folder.fingerprint,
            model_name=self.model.name,
            model_root=self.model.root,
            model_fingerprint=model_fingerprint(self.model.root, memory),
            datasets={},
            dataset_fingerprints={},
            sandbox=self.kind,
            device=self.computes_on,
            threads=cpu_threads(self.model.root, self.parallel),
            planner="none",
            versions={},
        )

    def launch(
        self,
        jobs: Path,
        name: str,
        command: Command,
        *,
        retry: bool = False,
        worker: str = "",
        access: Access | None = None,
    ) -> Path:
        """As a run's, but cold: after a kill nobody would come back to end a warm engine."""
        del worker
        return super().launch(jobs, name, command, retry=retry, access=access)


@dataclass(frozen=True)
class CellTraining:
    """One training of the matrix: `config` and `rows` as the engine gets them; its model is delivered to `target`."""

    experiment: Experiment
    tools: TrainingRunTools
    key: str
    target: Path
    config: str
    rows: tuple[dict[str, str], ...]

    @property
    def folder(self) -> ExperimentFolder:
        """Recipe, data, jobs and model."""
        return self.tools.run.experiment(1)

    @property
    def delivered(self) -> bool:
        """Whether the model of this very key is there."""
        note = self.target / NOTE
        return note.is_file() and read_model(note, Trained).key == self.key

    @property
    def label(self) -> str:
        """What progress calls it."""
        return self.experiment.model

    def write_recipe(self) -> None:
        """Config and data, the report of the rows last; what is there already stays."""
        folder = self.folder
        if not (folder.data / "report.json").is_file():
            write_atomic(folder.config, self.config)
            write_json(folder.data / "data.json", list(self.rows))
            write_dataset_info(folder.data)
            write_json(folder.data / "report.json", {"rows": len(self.rows)})

    def start(self) -> None:
        """Launch the training, or find it."""
        start_training(self.tools, self.folder)

    def tend(self) -> None:
        """Keep running what it needs beside it."""

    def stop(self, *, save: bool) -> None:
        """End it; with `save` it leaves a checkpoint."""
        stop_training(self.tools, self.folder, "train", save=save)

    def findings(self, signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
        """What its watch says."""
        return monitor_findings(signs)

    def result(self, seen: JobStatus, job: Path) -> Training:
        """Proof that it is whole. Raises RecipeError."""
        return training_result(self.tools, self.folder, seen, job)

    def told(self) -> dict[str, Any]:
        """What else its note says."""
        return {}


def plan_training(
    experiment: Experiment, tools: TrainingRunTools, values: Mapping[str, Any], options: Mapping[str, Any], target: Path
) -> CellTraining:
    """What would be trained; nothing is launched or written.

    `tools.run` is the folder of all trainings. Raises InvalidRequestError for a config that the engine would not take, or a
    `target` that holds something else.
    """
    assert tools.task is not None and tools.model is not None, "a training has both"
    ends = text_ends(tools.model.root)
    rows = [training_row(experiment, sample, ends) for sample in tools.task.train]
    text = dump_config(experiment_values(experiment, values, options, tools.card))
    check_config_text(tools, text)
    facts = (
        text,
        *(f"{row['instruction']}\0{row['output']}" for row in rows),
        str(tools.seed),
        tools.device,
        str(tools.threads),
    )
    key = digest(*facts, tools.setup.model_fingerprint, tools.engine("llamafactory").identity)
    check_target(target)
    name = f"{tools.task.name[:40]}-{experiment.model}-{key}"
    own = tools.changed(run=RunFolder(tools.run.root / name))
    return CellTraining(experiment, own, key, target, text, tuple(rows))


def experiment_values(
    experiment: Experiment, values: Mapping[str, Any], options: Mapping[str, Any], card: ModelCard
) -> dict[str, Any]:
    """A training's config: the user's values and what the experiment decides. Raises InvalidRequestError without a template.

    Rows are cut at what the model can read. Without a template the rows are texts that carry their own end
    (`tasks.training_row`); LLaMA-Factory calls that `empty`.
    """
    values = {"cutoff_len": min(CUTOFF, card.max_positions or CUTOFF), **values}
    if not experiment.chat:
        return {**values, "template": "empty", "train_on_prompt": not experiment.mask_question}
    check_chat_template(experiment, card)
    own = (
        {"template": card.template} if card.template else {}
    )  # without a name LLaMA-Factory parses the tokenizer's own
    thinking = {"enable_thinking": options["enable_thinking"]} if "enable_thinking" in options else {}
    return {**values, **own, **thinking}


def check_chat_template(experiment: Experiment, card: ModelCard) -> None:
    """Raises InvalidRequestError where an experiment asks in a template that the model does not have."""
    if experiment.chat and card.chat_template is None:
        others = " ".join(one.name for one in EXPERIMENTS if not one.chat)
        raise InvalidRequestError(
            f"experiment {experiment.name}: {card.folder} has no chat template; right is a model with one, or the "
            f"experiments {others}"
        )


def check_target(target: Path) -> None:
    """Raises InvalidRequestError where a model would be delivered into something else."""
    if target.exists() and any(target.iterdir()) and not (target / NOTE).is_file():
        raise InvalidRequestError(
            f"{target}: holds something that no training of this matrix left; right is another folder"
        )


def check_config_text(tools: TrainingRunTools, text: str) -> None:
    """Raises InvalidRequestError with the first thing that the installed LLaMA-Factory, or the model, would not take."""
    wrong = [found for found in check_run_config(tools, text) if found.level == "error"]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InvalidRequestError(f"sft.yaml: {wrong[0].key}: {wrong[0].text}{more}")


def forecast_training(one: CellTraining, say: Say) -> Forecast | None:
    """A smoke run and what it forecasts; None where the training is over already.

    Raises InvalidRequestError where the config cannot train the model.
    """
    folder, tools = one.folder, one.tools
    if one.delivered or folder.training.is_file():
        return None
    try:
        with held(one):
            for _ in range(KILLS):
                start_smoke_run(tools, folder)
                status = wait_for(
                    tools, folder.jobs, "smoke_run", say, lambda: stop_training(tools, folder, "smoke_run", save=False)
                )
                if not (status.killed or was_training_killed(status)):
                    break
            _, job = tools.status(folder.jobs, "smoke_run")
            if status.exit is None or not status.exit.ok:
                raise RecipeError(tools.failure_text(job, status) if job else "never launched", culprit="config")
            out = folder.work / "smoke_run_model"
            verify_state(out, engine_config(folder, "smoke_run").values, rows=0, seconds=0)
            if wrong := check_smoke_run(log_points(out), status.exit):
                raise RecipeError("; ".join(wrong), culprit="config")
            case = config_context(tools, folder)
            found = smoke_run_forecast(folder, case, tools.setup.model_fingerprint, status.exit)
            write_json(folder.forecast, found.model_dump(mode="json"))
            return found
    except RecipeError as e:
        raise InvalidRequestError(f"{one.experiment.model}: a few steps of its training failed: {e}") from e


@contextmanager
def held(one: CellTraining) -> Iterator[None]:
    """Nobody else works on this training."""
    with hold_lease(one.tools.settings.home.root), exclusive(one.tools.run.lock):
        yield


def train_all(trainings: Sequence[CellTraining], parallel: int, say: Say) -> None:
    """Train and deliver what is not there yet, `parallel` at a time.

    Whoever interrupts ends the jobs, which leave a checkpoint; asked again, they go on from it. Raises
    InfrastructureError saying what failed.
    """
    for one in trainings:
        os.utime(one.tools.run.root)  # it is asked for: `tuneloop clean --runs` goes by that
    waiting = deque(one for one in trainings if not one.delivered)
    launches: Counter[str] = Counter()
    with ExitStack() as locks:
        active: list[CellTraining] = []
        try:
            while waiting or active:
                while waiting and len(active) < parallel:
                    locks.enter_context(held(waiting[0]))
                    active.append(waiting.popleft())
                active = [one for one in active if not advance(one, launches, say)]
                if active:
                    pause(LOOK)
        except (KeyboardInterrupt, PausedError):
            for one in active:
                one.stop(save=True)
            raise


def advance(one: CellTraining, launches: Counter[str], say: Say) -> bool:
    """Launch it, look at it, deliver it; whether it is done. `launches` of this session are bounded. Raises InfrastructureError."""
    folder, tools = one.folder, one.tools
    if folder.training.is_file():
        deliver(one)
        return True
    seen, job = tools.status(folder.jobs, "train")
    if job is None or seen.killed or was_training_killed(seen):
        launches[one.key] += 1
        if launches[one.key] > KILLS:
            raise InfrastructureError(
                f"{one.experiment.model}: its training was killed {KILLS} times; look at {folder.jobs}"
            )
        one.start()
        return False
    signs = read_signs(tools, folder, None)
    say(one.label, signs.step, signs.of)
    if seen.state == "running":
        one.tend()
        for found in one.findings(signs):
            if found.level == "stop":
                one.stop(save=False)
                raise InfrastructureError(f"{one.experiment.model}: its training was stopped: {found.text}")
        return False
    try:
        done = one.result(seen, job)
        accept_model(folder, tools.setup.model_root)
    except RecipeError as e:
        raise InfrastructureError(f"{one.experiment.model}: {e}") from e
    write_json(folder.training, done.model_dump(mode="json"))
    return False


def deliver(one: CellTraining) -> None:
    """Put weights, with the base model's tokenizer, to where the user wants them: whole or not at all."""
    folder, tools, target = one.folder, one.tools, one.target
    part = target.with_name(f".{target.name}.part")
    remove_path(part)
    part.mkdir(parents=True)
    for path in folder.model.iterdir():
        if WEIGHTS.fullmatch(path.name) or path.name in (CONFIG, GENERATION, ADAPTER):
            shutil.copyfile(path, part / path.name)
    for name in TOKENIZER:
        if (tools.setup.model_root / name).is_file():
            shutil.copyfile(tools.setup.model_root / name, part / name)
    told = one.experiment
    note = Trained(
        key=one.key,
        task=tools.setup.benchmark.name,
        experiment=told.name,
        chat=told.chat,
        mask_question=told.mask_question,
        seed=told.seed,
        base_model=tools.setup.model_name,
        base=str(tools.setup.model_root),
        training=read_model(folder.training, Training),
        **one.told(),
    )
    write_json(part / NOTE, note.model_dump(mode="json"))
    fsync_tree(part)
    remove_path(target)
    part.rename(target)
