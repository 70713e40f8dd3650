"""A GRPO training: TRL's trainer, and beside it the job that scores replies and alone has the right answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.experiment import EarlyStop, Forecast, Training, TrainingFinding
from tuneloop.core.files import digest, digest_file, read_field, write_atomic, write_json, write_lines
from tuneloop.core.job import Command, Exit, JobStatus
from tuneloop.core.layout import ExperimentFolder, job_input_file
from tuneloop.sandboxes.jobs import read_command, stop_and_wait
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.evaluation.item_sets import ANSWERS
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.scoring.scorer import JUDGING, SCORING, scorer_file, scorer_hash, unpinned_files
from tuneloop.tools.training.launch import DISCARD, KEY, KILLED, was_training_killed
from tuneloop.tools.training.metrics import grace_seconds
from tuneloop.tools.training.monitor import MonitorSigns, monitor_findings
from tuneloop.tools.training.result import log_points, mean, trainer_state, training_cost
from tuneloop.tools.weights.delivery import is_adapter

SHARED = ENGINES / "llamafactory"
TEMPLATE = ENGINES / "opencompass" / "oc_template.py"
OF_TRAININGS = tuple(SHARED / f"{name}.py" for name in ("lf_checkpoints", "lf_watch", "lf_cost", "lf_processes"))
SCRIPTS = (ENGINES / "trl" / "grpo.py", TEMPLATE, *OF_TRAININGS)
REWARDS = ENGINES / "answers" / "serve_rewards.py"
SCORE, SMOKE, TRAIN = "score", "smoke_run", "train"
EARNS = 0.05  # mean reward from which a model has something to learn from by itself
OVER = "over"  # a file of the exchange: the training has ended, and its scorer may
ASKED = ("part", "ask", "scored", "told")  # how files of the exchange end: replies, and what they are worth
ENDS = (75, *KILLED)  # of a scorer: nobody asked any more, or somebody ended it
IDLE = 900.0  # seconds after which a scorer that nobody asks ends
WAIT = 1800.0  # seconds that a training waits for scores: somebody may have to come back and start the scorer again
CURE = "right is an SFT first (start_from: sft), easier problems, or more num_generations"
OF_LOSS = ("zero", "flat", "diverged", "exploded")  # say something only of a loss that is to fall
WATCH = "watch.jsonl"
KEPT = ("step", "reward", "length", "kl", "clipped", "alike")


@dataclass(frozen=True)
class GrpoJobs:
    """Trainer and scorer of one training in `folder`.

    `key`: everything that decides it. `benchmark`: whose checker scores. `begin`: the model that it starts with, an adapter
    or weights. `new_adapter`: LoRA begins anew on it. `options`: arguments of the chat template, in which prompts stand
    where `chat` is true. `name`: what errors call it.
    """

    tools: RunTools
    folder: ExperimentFolder
    key: str
    values: GrpoConfig
    benchmark: Benchmark
    begin: Path
    new_adapter: bool
    seed: int
    chat: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = "GRPO"

    @property
    def exchange(self) -> Path:
        """Where replies go to the scorer and scores come back."""
        return exchange_folder(self.folder)

    @property
    def method(self) -> Literal["lora", "full"]:
        """What is trained: an adapter, or after an SFT of all weights, all of them."""
        return "lora" if self.new_adapter or is_adapter(self.begin) else "full"

    @property
    def prompts(self) -> Path:
        """What the trainer reads; no right answer is in there."""
        return job_input_file(self.folder.work, "prompts") / "prompts.jsonl"

    def output(self, name: str) -> Path:
        """Where the job `train` or `smoke_run` writes."""
        return self.folder.model if name == TRAIN else self.folder.work / "smoke_run_model"

    def write_items(self, prompts: Sequence[Mapping[str, Any]], golds: Sequence[Mapping[str, Any]]) -> None:
        """Prompts and, where the trainer cannot look, answers."""
        write_lines(self.prompts, prompts)
        write_lines(job_input_file(self.folder.work, SCORE) / "golds.jsonl", golds)

    def launch(self, name: str, values: GrpoConfig) -> None:
        """Launch scorer and training, or find them; what another recipe left in its output goes first."""
        tools, folder, out = self.tools, self.folder, self.output(name)
        inputs, work = job_input_file(folder.work, name), folder.work / name
        job = self.job(out, values)
        key = digest(self.key, json.dumps(job, sort_keys=True))
        mark = inputs / KEY
        if not mark.is_file() or mark.read_text() != key:
            remove_path(out)
        write_json(inputs / "job.json", job)
        write_atomic(mark, key)
        if tools.status(folder.jobs, name)[0].state != "running":
            (inputs / DISCARD).unlink(missing_ok=True)
        for place in (work, out, self.exchange):
            place.mkdir(parents=True, exist_ok=True)
        self.start_scorer()
        engine, settings = tools.engine("trl"), tools.settings
        start = {str(tools.setup.model_root), str(self.begin)}
        limit = settings.full_timeout if name == TRAIN else settings.smoke_run_timeout
        command = Command(
            argv=(str(engine.python), str(SCRIPTS[0]), str(inputs / "job.json")),
            cwd=str(work),
            env={
                **tools.environment(work),
                **engine.env,
                "PATH": f"{engine.bin}:/usr/bin:/bin",
                "PYTHONPATH": f"{SHARED}:{TEMPLATE.parent}",
            },
            read=(*engine.readable, *map(str, SCRIPTS), str(inputs), str(self.prompts.parent), *sorted(start)),
            write=(str(out), str(work), str(self.exchange)),
            limits=job_limits(settings, limit, folder.root).model_copy(update={"grace": grace_seconds(out)}),
            beside=settings.node_files == "storage",  # its scorer stays here, and they share a folder
            key=key,
        )
        tools.launch(folder.jobs, name, command, retry=was_training_killed(tools.status(folder.jobs, name)[0]))

    def job(self, out: Path, values: GrpoConfig) -> dict[str, Any]:
        """What the engine is told."""
        cpu, adapter = self.tools.device == "cpu", is_adapter(self.begin)
        lora = {"r": values.lora_rank, "lora_alpha": values.lora_alpha, "target_modules": "all-linear"}
        return {
            "model": str(self.tools.setup.model_root if adapter else self.begin),
            "adapter": str(self.begin) if adapter else "",
            "lora": lora if self.new_adapter else {},
            "rows": str(self.prompts),
            "chat": self.chat,
            "options": dict(self.options),
            "longest": values.max_prompt_length,
            "exchange": str(self.exchange),
            "seconds": WAIT,
            "args": {
                **values.trl_values(),
                "output_dir": str(out),
                "seed": self.seed,
                "data_seed": self.seed,
                "save_steps": values.checkpoint_steps,
                "save_total_limit": 2,
                "logging_steps": 1,
                "use_cpu": cpu,
                "bf16": not cpu,
                "dataloader_pin_memory": not cpu,
                "report_to": "none",
                "disable_tqdm": True,
            },
        }

    def tend(self) -> None:
        """Start the scorer where none runs and replies may come.

        Raises InfrastructureError where it ended by itself: replies would wait in vain.
        """
        if is_over(self.folder):
            return
        seen, job = self.tools.status(self.folder.jobs, SCORE)
        if job is not None and seen.exit is not None and seen.exit.reason == "finished" and seen.exit.code not in ENDS:
            self.stop(save=False)
            raise InfrastructureError(f"{self.name}: replies cannot be scored: {self.tools.failure_text(job, seen)}")
        self.start_scorer()

    def start_scorer(self) -> None:
        """Launch it, or find it running with these answers."""
        tools, folder, declared = self.tools, self.folder, self.benchmark
        self.exchange.mkdir(parents=True, exist_ok=True)
        (self.exchange / OVER).unlink(missing_ok=True)
        key, (seen, attempt) = digest(self.key), tools.status(folder.jobs, SCORE)
        if attempt is not None and read_command(attempt).key != key:
            self.forget_scores(attempt)
        elif seen.state == "running":
            return
        inputs, work = job_input_file(folder.work, SCORE), folder.work / SCORE
        work.mkdir(parents=True, exist_ok=True)
        file, files = scorer_file(declared), tools.settings.scorer_folder
        judge: dict[str, str] = {
            "loader": str(JUDGING),
            "scoring": str(SCORING),
            "kind": declared.answer,
            "scorer": str(file or ""),
            "files": str(files or ""),
        }
        if declared.verified:
            write_atomic(inputs / "verifier.py", declared.verifier)
            judge["verifier"] = str(inputs / "verifier.py")
        job = {"exchange": str(self.exchange), "out": str(work), "golds": str(inputs / "golds.jsonl"), **judge}
        write_json(inputs / "job.json", {**job, "seconds": declared.seconds, "idle": IDLE, "stop": list(declared.stop)})
        engine = tools.engine(declared.engine or "opencompass")
        scorers = [file.parent] if file else []
        command = Command(
            argv=(str(engine.python), "-B", str(REWARDS), str(inputs / "job.json")),
            cwd=str(work),
            env={"PYTHONPATH": str(ENGINES), "PYTHONNOUSERSITE": "1", "HOME": str(work), "CUDA_VISIBLE_DEVICES": ""},
            read=tuple(
                map(str, (*engine.readable, *ANSWERS, inputs, JUDGING, SCORING, *scorers, *([files] if files else [])))
            ),
            write=(str(work), str(self.exchange)),
            generated=declared.verified,
            beside=True,
            limits=job_limits(tools.settings, None, folder.root),
            key=key,
        )
        tools.launch(folder.jobs, SCORE, command, retry=True)

    def forget_scores(self, attempt: Path) -> None:
        """End the scorer of another recipe, which has other answers, and remove what it was asked and has told."""
        if self.tools.sandbox.poll(attempt).state == "running":
            stop_and_wait(self.tools.sandbox, attempt)
        for end in ASKED:
            for left in self.exchange.glob(f"*.{end}"):
                left.unlink(missing_ok=True)

    def stop(self, *, save: bool) -> None:
        """End the training where the steps at hand are done; its scorer ends with it."""
        stop_grpo(self.tools, self.folder, TRAIN, save=save)
        if not save:
            for name in (SMOKE, SCORE):
                self.tools.stop(self.folder.jobs, name)

    def smoke_result(self, status: JobStatus) -> tuple[Forecast, float]:
        """The forecast by a few steps that are over, and their mean reward; the scorer ends. Raises RecipeError."""
        tools, folder = self.tools, self.folder
        tools.stop(folder.jobs, SCORE)
        _, job = tools.status(folder.jobs, SMOKE)
        if status.exit is None or not status.exit.ok:
            raise RecipeError(tools.failure_text(job, status) if job else "never launched", culprit="config")
        rows = log_points(self.output(SMOKE), WATCH, "step")
        told = read_field(job_input_file(folder.work, SMOKE) / "job.json", "args", dict[str, Any])
        if len(rows) < told["max_steps"]:
            raise RecipeError("a few steps left no log", culprit="config")
        replies = told["per_device_train_batch_size"] * told["gradient_accumulation_steps"]
        return grpo_forecast(self.values, rows, status.exit, replies), mean([row.get("reward", 0.0) for row in rows])

    def result(self, seen: JobStatus, job: Path) -> Training:
        """Proof that every step was done and weights are there. Raises RecipeError."""
        self.tools.stop(self.folder.jobs, SCORE)
        if seen.exit is None or not seen.exit.ok:
            raise RecipeError(f"training failed. {self.tools.failure_text(job, seen)}", culprit="config")
        return verify_grpo(self.tools, self.folder, self.values.max_steps)


def scoring_facts(tools: RunTools, benchmark: Benchmark) -> list[str]:
    """Everything beside right answers that decides what a reply is worth: declaration, code, files, engine."""
    code = [digest_file(path) for path in (SCORING, JUDGING, *ANSWERS)]
    files = unpinned_files(benchmark, tools.settings.scorer_folder, None)
    engine = tools.engine(benchmark.engine or "opencompass")
    return [benchmark.model_dump_json(), *code, scorer_hash(scorer_file(benchmark)), *files, engine.identity]


def exchange_folder(folder: ExperimentFolder) -> Path:
    """Where the replies and scores of an experiment's training meet."""
    return folder.work / "exchange"


def is_over(folder: ExperimentFolder) -> bool:
    """Whether the training has said that no more replies come."""
    return (exchange_folder(folder) / OVER).exists()


def stop_grpo(tools: RunTools, folder: ExperimentFolder, name: str, *, save: bool) -> None:
    """Ask a training, or its smoke run, to end; with `save` it leaves a checkpoint. Returns at once."""
    out = folder.model if name == TRAIN else folder.work / "smoke_run_model"
    if not save:
        write_atomic(job_input_file(folder.work, name) / DISCARD, "")
    tools.stop(folder.jobs, name, grace_seconds(out))


def grpo_forecast(values: GrpoConfig, rows: Sequence[Mapping[str, Any]], end: Exit, replies: int) -> Forecast:
    """From a few logged steps of `replies` replies each, and how their job ended."""
    seen = float(rows[-1].get("step_seconds") or end.seconds / len(rows))
    overhead = max(0.0, end.seconds - len(rows) * seen)
    each = seen * values.replies / replies
    seconds = overhead + values.max_steps * each
    return Forecast(
        seconds=round(seconds, 2),
        cpu=round(end.cpu * seconds / max(1e-9, end.seconds), 2),
        memory=end.peak_memory,
        steps=values.max_steps,
        seconds_per_step=each,
        overhead=round(overhead, 2),
    )


def verify_grpo(tools: RunTools, folder: ExperimentFolder, steps: int, stopped: EarlyStop | None = None) -> Training:
    """The training in `model/`, whole or stopped before its end. Raises RecipeError saying what is wrong."""
    out, curve = folder.model, grpo_curve(folder)
    state = trainer_state(out)
    if state["global_step"] != steps and stopped is None:
        raise RecipeError(f"training ended at step {state['global_step']} of {steps}", culprit="config")
    losses = [float(row["loss"]) for row in state["log_history"] if "loss" in row]
    if not losses or not curve or not any(out.glob("*.safetensors")):
        raise RecipeError("training left no losses, no rewards or no weights", culprit="config")
    spent, rewards = training_cost(folder, tools), [row["reward"] for row in curve]
    tenth = max(1, len(rewards) // 10)
    return Training(
        steps=state["global_step"],
        seconds=round(spent.seconds, 1),
        rows=read_field(folder.data / "report.json", "rows", int),
        first_loss=losses[0],
        last_loss=losses[-1],
        tail_slope=0.0,
        method="lora" if is_adapter(out) else "full",
        reward=(round(mean(rewards[:tenth]), 4), round(mean(rewards[-tenth:]), 4)),
        stopped=stopped,
        spent=spent,
    )


def grpo_curve(folder: ExperimentFolder) -> list[dict[str, float]]:
    """Reward and what goes with it, by step."""
    file = folder.model / WATCH
    return _read_curve(file.parent, file.stat().st_size if file.is_file() else 0)


@lru_cache(maxsize=64)
def _read_curve(out: Path, size: int) -> list[dict[str, float]]:  # noqa: ARG001 - the file is read again when it has grown
    rows = log_points(out, WATCH, "step")
    return [{name: row[name] for name in KEPT if row.get(name) is not None} for row in rows if "reward" in row]


def grpo_findings(folder: ExperimentFolder, signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
    """What ends it: that of any training but what a loss around 0 says, and what rewards say."""
    if not signs.step and (signs.quiet or 0.0) < WAIT:  # the first replies may take long, and nothing tells of them
        signs = replace(signs, quiet=None)
    usual = [found for found in monitor_findings(signs) if found.kind not in OF_LOSS]
    return (*usual, *reward_findings(grpo_curve(folder)))


def reward_findings(curve: Sequence[Mapping[str, float]]) -> tuple[TrainingFinding, ...]:
    """What rewards show to be wrong: nothing is ever earned, what was earned is lost, replies no longer end."""
    few, many = 5, 20
    if len(curve) < many:
        return ()
    step = int(curve[-1]["step"])
    rewards = [row["reward"] for row in curve]
    if not any(rewards):
        text = f"no reply earned anything in {len(rewards)} steps: there is nothing to learn from; {CURE}"
        return (TrainingFinding("no_reward", "stop", text, step, 0),)
    means = [sum(rewards[at : at + few]) / few for at in range(len(rewards) - few + 1)]
    best = max(means)
    if best >= 0.1 and means[-1] < best / 4:
        text = f"the reward fell from {best:.2f} to {means[-1]:.2f}; right is a lower learning_rate, or a higher beta"
        return (TrainingFinding("collapse", "stop", text, step, 0),)
    clipped = [row.get("clipped", 0.0) for row in curve]
    if min(clipped[-few:]) > 0.95 and sum(clipped[:few]) / few < 0.5:
        text = "replies no longer end within max_completion_length; right is a lower learning_rate, or a higher beta"
        return (TrainingFinding("length", "stop", text, step, 0),)
    return ()
