"""GRPO trainings of the matrix: TRL's trainer, and beside it the job that scores replies and alone has the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.experiment import Training, TrainingFinding
from tuneloop.core.files import digest, write_atomic, write_json, write_lines
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import RunFolder, job_input_file
from tuneloop.tools.evaluation.item_sets import ANSWERS
from tuneloop.tools.evaluation.jobs import EXECUTE, run_stage
from tuneloop.tools.evaluation.standalone.run_tools import KILLS, wait_for
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.matrix.configs import GRPO, GrpoConfig
from tuneloop.tools.matrix.experiments import Experiment
from tuneloop.tools.matrix.tasks import Task
from tuneloop.tools.matrix.training import CellTraining, Say, TrainingRunTools, check_chat_template, check_target, held
from tuneloop.tools.scoring.scorer import JUDGING, SCORING, scorer_file
from tuneloop.tools.training.launch import DISCARD, KILLED, was_training_killed
from tuneloop.tools.training.metrics import grace_seconds
from tuneloop.tools.training.monitor import MonitorSigns, monitor_findings
from tuneloop.tools.training.result import log_points, trainer_state, training_cost
from tuneloop.tools.weights.delivery import is_adapter
from tuneloop.tools.weights.fingerprints import model_fingerprint

SHARED = ENGINES / "llamafactory"
TEMPLATE = ENGINES / "opencompass" / "oc_template.py"
OF_TRAININGS = tuple(SHARED / f"{name}.py" for name in ("lf_checkpoints", "lf_watch", "lf_cost"))
SCRIPTS = (ENGINES / "trl" / "grpo.py", TEMPLATE, *OF_TRAININGS)
REWARDS = ENGINES / "answers" / "serve_rewards.py"
SCORE, SMOKE, TRAIN = "score", "smoke_run", "train"
SMOKE_STEPS, SMOKE_GROUPS = 3, 4  # groups of replies a step
EARNS = 0.05  # mean reward from which a model has something to learn from by itself
OVER = "over"  # a file of the exchange: the training has ended, and its scorer may
ENDS = (75, *KILLED)  # of a scorer: nobody asked any more, or somebody ended it
IDLE = 900.0  # seconds after which a scorer that nobody asks ends
WAIT = 1800.0  # seconds that a training waits for scores: somebody may have to come back and start the scorer again
POINTS = 200  # of a reward curve, in a note
CURE = "right is an SFT first (start_from: sft), easier problems, or more num_generations"
OF_LOSS = ("zero", "flat", "diverged", "exploded")  # say something only of a loss that is to fall
WATCH = "watch.jsonl"
KEPT = ("step", "reward", "length", "kl", "clipped", "alike")


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
        rewards = [row["reward"] for row in self.curve() if row.get("reward") is not None]
        return f"{self.experiment.model}, reward {rewards[-1]:.2f}" if rewards else self.experiment.model

    @property
    def task(self) -> Task:
        """What is trained on."""
        assert self.tools.task is not None, "a training has a task"
        return self.tools.task

    @cached_property
    def exchange(self) -> Path:
        """Where replies go to the scorer and scores come back."""
        return self.folder.work / "exchange"

    def write_recipe(self) -> None:
        """Config, prompts and, where the trainer cannot look, answers; what is there already stays."""
        folder = self.folder
        if not (folder.data / "report.json").is_file():
            write_atomic(folder.config, self.config)
            write_lines(folder.data / "prompts.jsonl", self.rows)
            write_lines(job_input_file(folder.work, SCORE) / "golds.jsonl", self.golds)
            write_json(folder.data / "report.json", {"rows": len(self.rows)})

    def start(self) -> None:
        """Launch scorer and training, or find them."""
        self.launch(TRAIN, self.folder.model, self.values)

    def launch(self, name: str, out: Path, values: GrpoConfig) -> None:
        """Launch a training into `out`; what another recipe left there goes first."""
        tools, folder = self.tools, self.folder
        inputs, work = job_input_file(folder.work, name), folder.work / name
        job = self.job(out, values)
        key = digest(self.key, json.dumps(job, sort_keys=True))
        mark = inputs / "key"
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
        command = Command(
            argv=(str(engine.python), str(SCRIPTS[0]), str(inputs / "job.json")),
            cwd=str(work),
            env={
                **tools.environment(work),
                **engine.env,
                "PATH": f"{engine.bin}:/usr/bin:/bin",
                "PYTHONPATH": f"{SHARED}:{TEMPLATE.parent}",
            },
            read=(*engine.readable, *map(str, SCRIPTS), str(inputs), str(folder.data), *sorted(start)),
            write=(str(out), str(work), str(self.exchange)),
            limits=job_limits(settings, settings.full_timeout, folder.root).model_copy(
                update={"grace": grace_seconds(out)}
            ),
            key=key,
        )
        tools.launch(folder.jobs, name, command, retry=was_training_killed(tools.status(folder.jobs, name)[0]))

    def job(self, out: Path, values: GrpoConfig) -> dict[str, Any]:
        """What the engine is told."""
        cpu, seed = self.tools.setup.device == "cpu", self.tools.training_seed
        adapter = is_adapter(self.begin)
        lora = {"r": values.lora_rank, "lora_alpha": values.lora_alpha, "target_modules": "all-linear"}
        return {
            "model": str(self.tools.setup.model_root if adapter else self.begin),
            "adapter": str(self.begin) if adapter else "",
            "lora": lora if self.new_adapter else {},
            "rows": str(self.folder.data / "prompts.jsonl"),
            "chat": self.experiment.chat,
            "options": json.loads(self.config)["options"],
            "longest": values.max_prompt_length,
            "exchange": str(self.exchange),
            "seconds": WAIT,
            "args": {
                **values.trl_values(),
                "output_dir": str(out),
                "seed": seed,
                "data_seed": seed,
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

    @property
    def new_adapter(self) -> bool:
        """Whether LoRA begins anew; after an SFT of all weights, all weights are trained."""
        return self.began_with == "base" and self.values.finetuning_type == "lora"

    def tend(self) -> None:
        """Start the scorer where none runs. Raises InfrastructureError where it ended by itself: replies would wait in vain."""
        seen, job = self.tools.status(self.folder.jobs, SCORE)
        if job is not None and seen.exit is not None and seen.exit.reason == "finished" and seen.exit.code not in ENDS:
            self.stop(save=False)
            why = self.tools.failure_text(job, seen)
            raise InfrastructureError(f"{self.experiment.model}: replies cannot be scored: {why}")
        self.start_scorer()

    def start_scorer(self) -> None:
        """Launch it, or find it running."""
        tools, folder, declared = self.tools, self.folder, self.task.folder.benchmark
        if tools.status(folder.jobs, SCORE)[0].state == "running":
            return
        inputs, work = job_input_file(folder.work, SCORE), folder.work / SCORE
        work.mkdir(parents=True, exist_ok=True)
        self.exchange.mkdir(parents=True, exist_ok=True)
        (self.exchange / OVER).unlink(missing_ok=True)
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
        write_json(inputs / "job.json", {**job, "seconds": declared.seconds, "idle": IDLE})
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
            limits=job_limits(tools.settings, None, folder.root),
            key=digest(self.key),
        )
        tools.launch(folder.jobs, SCORE, command, retry=True)

    def stop(self, *, save: bool) -> None:
        """End the training where the steps at hand are done; its scorer ends with it."""
        tools, folder = self.tools, self.folder
        if not save:
            write_atomic(job_input_file(folder.work, TRAIN) / DISCARD, "")
        tools.stop(folder.jobs, TRAIN, grace_seconds(folder.model))
        if not save:
            for name in (SMOKE, SCORE):
                tools.stop(folder.jobs, name)

    def curve(self) -> list[dict[str, float]]:
        """Reward and what goes with it, by step."""
        file = self.folder.model / WATCH
        return read_curve(file.parent, file.stat().st_size if file.is_file() else 0)

    def findings(self, signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
        """What ends it: that of any training but what a loss around 0 says, and what rewards say."""
        if not signs.step and (signs.quiet or 0.0) < WAIT:  # the first replies may take long, and nothing tells of them
            signs = replace(signs, quiet=None)
        usual = [found for found in monitor_findings(signs) if found.kind not in OF_LOSS]
        return (*usual, *reward_findings(self.curve()))

    def result(self, seen: JobStatus, job: Path) -> Training:
        """Proof that every step was done and weights are there. Raises RecipeError."""
        self.tools.stop(self.folder.jobs, SCORE)
        if seen.exit is None or not seen.exit.ok:
            raise RecipeError(f"training failed. {self.tools.failure_text(job, seen)}", culprit="config")
        out, curve = self.folder.model, self.curve()
        state = trainer_state(out)
        if state["global_step"] != self.values.max_steps:
            raise RecipeError(
                f"training ended at step {state['global_step']} of {self.values.max_steps}", culprit="config"
            )
        losses = [float(row["loss"]) for row in state["log_history"] if "loss" in row]
        if not losses or not curve or not any(out.glob("*.safetensors")):
            raise RecipeError("training left no losses, no rewards or no weights", culprit="config")
        spent = training_cost(self.folder, self.tools)
        return Training(
            steps=state["global_step"],
            seconds=round(spent.seconds, 1),
            rows=len(self.rows),
            first_loss=losses[0],
            last_loss=losses[-1],
            tail_slope=0.0,
            method="lora" if is_adapter(out) else "full",
            spent=spent,
        )

    def told(self) -> dict[str, Any]:
        """The model that it began with, and the curve."""
        curve = self.curve()
        return {"start": self.began_with, "rewards": curve[:: max(1, -(-len(curve) // POINTS))]}


@lru_cache(maxsize=64)
def read_curve(out: Path, size: int) -> list[dict[str, float]]:  # noqa: ARG001 - the file is read again when it has grown
    """Rewards in a training's folder, by step."""
    rows = log_points(out, WATCH, "step")
    return [{name: row[name] for name in KEPT if row.get(name) is not None} for row in rows if "reward" in row]


def plan_grpo(
    experiment: Experiment,
    tools: TrainingRunTools,
    values: GrpoConfig,
    options: Mapping[str, Any],
    target: Path,
    sft: Path | None = None,
) -> GrpoTraining:
    """What would be trained, from the base model or from `sft`, a trained one; nothing is launched or written.

    Raises InvalidRequestError for a task whose replies cannot be scored, or with too few prompts, a model without the template
    that is asked in, or a `target` that holds something else.
    """
    assert tools.task is not None, "a training has a task"
    task, declared = tools.task, tools.task.folder.benchmark
    if run_stage(declared) == EXECUTE:
        raise InvalidRequestError(
            f"experiment {experiment.name}: GRPO needs a checker of answers, and {task.name} runs code"
        )
    check_chat_template(experiment, tools.card)
    check_target(target)
    rows = tuple({"prompt": one.prompt} for one in task.train)
    if values.prompts > len(rows):
        raise InvalidRequestError(
            f"{GRPO}: replies to {values.prompts} prompts are drawn at once, and {task.name} has {len(rows)}; right is a smaller "
            "per_device_train_batch_size, or more num_generations"
        )
    golds = tuple({"answer": one.gold, "item": one.item} for one in task.train)
    begin = sft or tools.setup.model_root
    config = json.dumps({"options": dict(options), **values.model_dump()}, sort_keys=True)
    start = model_fingerprint(begin, None) if sft else tools.setup.model_fingerprint
    facts = (
        config,
        str(experiment.chat),
        str(tools.seed),
        tools.device,
        str(tools.threads),
        start,
        tools.setup.model_fingerprint,
    )
    engines = (tools.engine("trl").identity, tools.engine(declared.engine or "opencompass").identity)
    scripts = (path.read_bytes() for path in (*SCRIPTS, REWARDS, SCORING, JUDGING))
    items = (json.dumps(one, sort_keys=True) for pair in zip(rows, golds, strict=True) for one in pair)
    key = digest(*facts, *engines, *scripts, declared.model_dump_json(), *items)
    own = RunFolder(tools.run.root / f"{task.name[:40]}-{experiment.model}-{key}")
    return GrpoTraining(
        experiment,
        tools.changed(run=own),
        key,
        target,
        config,
        rows,
        values=values,
        golds=golds,
        begin=begin,
        began_with="sft" if sft else "base",
    )


def try_grpo(one: GrpoTraining, say: Say) -> tuple[float, bool]:
    """A few steps: seconds that all will take, and whether replies earn enough to learn from. Raises InvalidRequestError."""
    tools, folder, out = one.tools, one.folder, one.folder.work / "smoke_run_model"
    values = one.values.few(SMOKE_STEPS, SMOKE_GROUPS)

    def look(what: str, done: int, total: int) -> None:
        say(what, done, total)
        if tools.status(folder.jobs, SMOKE)[0].state == "running":
            one.tend()

    try:
        with held(one):
            for _ in range(KILLS):
                one.launch(SMOKE, out, values)
                status = wait_for(tools, folder.jobs, SMOKE, look, lambda: one.stop(save=False))
                if not (status.killed or was_training_killed(status)):
                    break
            tools.stop(folder.jobs, SCORE)
            _, job = tools.status(folder.jobs, SMOKE)
            if status.exit is None or not status.exit.ok:
                raise RecipeError(tools.failure_text(job, status) if job else "never launched", culprit="config")
            rows = log_points(out, WATCH, "step")
            if len(rows) < SMOKE_STEPS or status.exit is None:
                raise RecipeError("a few steps left no log", culprit="config")
    except (RecipeError, InfrastructureError) as e:
        raise InvalidRequestError(f"{GRPO}: {one.experiment.model}: a few steps of its training failed: {e}") from e
    each = float(rows[-1].get("step_seconds") or status.exit.seconds / SMOKE_STEPS)
    begin = max(0.0, status.exit.seconds - SMOKE_STEPS * each)
    each *= one.values.replies / values.replies
    rewards = [row.get("reward", 0.0) for row in rows]
    return begin + one.values.max_steps * each, sum(rewards) / len(rewards) >= EARNS


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
