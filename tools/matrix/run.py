"""The whole matrix: check everything, forecast, train, evaluate, report; what is there already is not made again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, write_atomic
from tuneloop.core.formatting import format_duration
from tuneloop.core.layout import RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.models import resolve_model
from tuneloop.tools.jobs.machine import find_device
from tuneloop.tools.matrix.configs import EvalConfig, MatrixConfig
from tuneloop.tools.matrix.evaluation import Summary, evaluate_model, missing_models
from tuneloop.tools.matrix.experiments import FORMATS, Experiment, ResultTree
from tuneloop.tools.matrix.grpo import GrpoTraining, plan_grpo, try_grpo
from tuneloop.tools.matrix.report import write_report
from tuneloop.tools.matrix.tasks import Sample, Task, load_task, text_ends, training_row
from tuneloop.tools.matrix.training import (
    NOTE,
    CellTraining,
    Say,
    TrainingRunTools,
    experiment_values,
    forecast_training,
    plan_training,
    train_all,
)
from tuneloop.tools.training.tokens import Format, RowTokens, TokenCase, encode_rows, nowhere_config

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is asked for. `options`: arguments of the chat template, in training and evaluation."""

    task: str
    experiments: Sequence[Experiment]
    tree: ResultTree
    config: MatrixConfig
    base_model: str
    options: dict[str, Any] = field(default_factory=dict)
    parallel: int = 1
    sandbox: SandboxKind = "auto"


def training_tools(request: Request, task: Task, settings: Settings, say: Say) -> TrainingRunTools:
    """What every training starts from. Raises InvalidRequestError."""
    model = resolve_model(request.base_model, settings, say)
    run = RunFolder(settings.home.trainings)
    return TrainingRunTools(run, settings, request.sandbox, find_device(), say, task, model, parallel=request.parallel)


def run_matrix(request: Request, settings: Settings, say: Say, tell: Tell) -> Path:
    """Everything; the report's page. Raises InvalidRequestError before anything costs, InfrastructureError."""
    task = load_task(request.task, settings, say, request.sandbox)
    if task.dropped:
        tell(f"{task.dropped} training rows hold items of {task.name} and were left out")
    tools = training_tools(request, task, settings, say)
    if tools.card.chat_template is None:
        raise InvalidRequestError(
            f"base model {request.base_model}: has no chat template, in which every model is evaluated; right is another "
            "model, or tuneloop matrix train sft and tuneloop matrix eval without --use-chat-template"
        )
    train(request, {one: request.tree.model(one) for one in request.experiments}, tools, say, tell)
    evaluate(request, task, settings, say, tell)
    return report(request)


def train(request: Request, targets: Mapping[Experiment, Path], tools: TrainingRunTools, say: Say, tell: Tell) -> None:
    """Train what is not there yet. First configs and tokens are checked, then a few steps of each kind tell what it will take."""
    sft, grpo = plan_all(request, targets, tools)
    starts = try_all_grpo(request, grpo, say, tell)
    begun = [one.sft for one, start in starts.items() if start == "sft"]
    train_sft(request, [plan for one, plan in sft.items() if one in targets or one in begun], tools, say, tell)
    trainings = [
        plan_grpo(
            one, tools.changed(seed=one.seed), request.config.grpo, request.options, targets[one], sft[one.sft].target
        )
        if start == "sft"
        else grpo[one]
        for one, start in starts.items()
    ]
    for training in trainings:
        if not training.delivered:
            training.write_recipe()
    train_all(trainings, request.parallel, say)


def plan_all(
    request: Request, targets: Mapping[Experiment, Path], tools: TrainingRunTools
) -> tuple[dict[Experiment, CellTraining], dict[Experiment, GrpoTraining]]:
    """Everything that may be trained, each GRPO from the base model. Raises InvalidRequestError before anything costs."""
    config, options = request.config, request.options
    places = {one: target for one, target in targets.items() if one.method == "sft"}
    grpo: dict[Experiment, GrpoTraining] = {}
    for one, target in targets.items():
        if one.method == "grpo":
            grpo[one] = plan_grpo(one, tools.changed(seed=one.seed), config.grpo, options, target)
            if config.grpo.start_from != "base":
                places.setdefault(one.sft, target.parent / one.sft.model)
    sft = {
        one: plan_training(one, tools.changed(seed=one.seed), config.sft, options, place)
        for one, place in places.items()
    }
    return sft, grpo


def try_all_grpo(
    request: Request, planned: Mapping[Experiment, GrpoTraining], say: Say, tell: Tell
) -> dict[Experiment, str]:
    """What each GRPO begins with, base or sft: by the config, else sft where the base model earns next to nothing."""
    found: dict[Experiment, str] = {}
    for one, training in planned.items():
        wanted = request.config.grpo.start_from
        training.write_recipe()
        seconds, earned = try_grpo(training, say)
        found[one] = wanted if wanted != "auto" else "base" if earned else "sft"
        why = f": the base model's replies earn next to nothing, so it begins with {one.sft.name}"
        if not (training.target / NOTE).is_file():
            took = f"{training.values.max_steps} steps of GRPO, at most about {format_duration(seconds)}"
            tell(f"{one.model}: {took}{why if (wanted, found[one]) == ('auto', 'sft') else ''}")
    return found


def train_sft(
    request: Request, trainings: Sequence[CellTraining], tools: TrainingRunTools, say: Say, tell: Tell
) -> None:
    """The trainings by LLaMA-Factory."""
    assert tools.task is not None, "a training has a task"
    missing = [one for one in trainings if not one.delivered]
    if not missing:
        return
    unlike = list({one.experiment.name: one.experiment for one in missing}.values())
    check_prefixes(tokens_of(request, unlike, tools.task.train[0], tools, say))
    for one in missing:
        one.write_recipe()
    forecast = forecast_training(missing[0], say)
    if forecast is not None:
        rounds = math.ceil(len(missing) / request.parallel)
        tell(
            f"{len(missing)} training(s) of {forecast.steps} steps, about "
            f"{format_duration(forecast.seconds)} each: about {format_duration(rounds * forecast.seconds)} in all"
        )
    train_all(trainings, request.parallel, say)


def train_one(request: Request, one: Experiment, target: Path, settings: Settings, say: Say, tell: Tell) -> None:
    """One model, delivered to `target`."""
    tools = training_tools(request, load_task(request.task, settings, say, request.sandbox), settings, say)
    train(request, {one: target}, tools, say, tell)


def check_models(request: Request) -> None:
    """Raises InvalidRequestError naming models that are not there, and how to train them."""
    if missing := missing_models(request.tree, request.experiments):
        seeds = max(one.seed for one in missing)
        names = " ".join(dict.fromkeys(one.name for one in missing))
        raise InvalidRequestError(
            f"no model in {', '.join(str(request.tree.model(one)) for one in missing)}; train it with tuneloop matrix "
            f"--task {request.task} --experiments {names}{f' --seeds {seeds}' if seeds > 1 else ''}"
        )


def evaluate(request: Request, task: Task, settings: Settings, say: Say, tell: Tell) -> None:
    """Every model in both formats; the configs that were used lie beside the models. Raises as `evaluate_model`."""
    for name, text in request.config.texts.items():
        write_atomic(request.tree.root / "configs" / name, text)
    for one in request.experiments:
        cells = evaluate_model(
            request.tree.model(one),
            task,
            {asked: request.tree.cell(one, asked) for asked in FORMATS},
            request.config.evaluation,
            request.options,
            settings,
            say,
            sandbox=request.sandbox,
        )
        for asked, cell in cells.items():
            tell(
                f"{one.model}, asked {asked}: {cell.accuracy:.1f} ({cell.low:.1f} to {cell.high:.1f}) of {cell.n} items"
            )


def evaluate_one(
    name: str,
    model: str,
    asked: Format,
    place: Path,
    config: EvalConfig,
    options: Mapping[str, Any],
    settings: Settings,
    say: Say,
    *,
    sandbox: SandboxKind = "auto",
    base_model: str | None = None,
) -> Summary:
    """One cell of a model in a folder, or of one with a name. Raises InvalidRequestError where it is not there."""
    path = Path(model)
    if not path.exists() and (path.is_absolute() or len(path.parts) > 2):
        raise InvalidRequestError(
            f"model {model}: no such folder; train it with tuneloop matrix train sft --output-dir {model}"
        )
    task = load_task(name, settings, say, sandbox)
    found = evaluate_model(
        path, task, {asked: place}, config, options, settings, say, sandbox=sandbox, base_model=base_model
    )
    return found[asked]


def sample_tokens(request: Request, sample: int, settings: Settings, say: Say) -> list[RowTokens]:
    """A training row's tokens in every experiment of the request. Raises InvalidRequestError for a row that is not there."""
    task = load_task(request.task, settings, say, request.sandbox)
    if sample >= len(task.train):
        raise InvalidRequestError(
            f"--sample {sample}: {task.name} has {len(task.train)} training rows, numbered from 0"
        )
    shown = [one for one in request.experiments if one.method == "sft"]
    if not shown:
        raise InvalidRequestError("GRPO learns from replies that it makes itself; right is an experiment with SFT")
    tools = training_tools(request, task, settings, say)
    return tokens_of(request, shown, task.train[sample], tools, say)


def tokens_of(
    request: Request, experiments: Sequence[Experiment], sample: Sample, tools: TrainingRunTools, say: Say
) -> list[RowTokens]:
    """A sample as each experiment trains on it. Raises InvalidRequestError, InfrastructureError where the job failed."""
    root, cases = tools.setup.model_root, []
    for one in experiments:
        row = training_row(one, sample, text_ends(root))
        values = experiment_values(one, request.config.sft, request.options, tools.card)
        config = nowhere_config(values, root, one.seed)
        cases.append(TokenCase(one.name, one.format, config, row["instruction"], row["output"], sample.prompt))
    place = tools.run.root / f"tokens-{digest(request.task, str(root), *(one.name for one in experiments))}"
    with hold_lease(tools.settings.home.root), exclusive(RunFolder(place).lock):
        return encode_rows(tools, place, cases, request.options, say)


def check_prefixes(found: Sequence[RowTokens]) -> None:
    """Raises InvalidRequestError naming the first experiment whose own evaluation asks other tokens than it trains on."""
    for one in found:
        if not one.prefix_matches:
            raise InvalidRequestError(
                f"experiment {one.name}: the evaluated prompt is not what its rows begin with (tuneloop matrix "
                f"show-tokens --experiments {one.name}): LLaMA-Factory's template and the tokenizer's own differ"
            )


def report(request: Request) -> Path:
    """The page on what was measured. Raises InvalidRequestError naming evaluations that are not there."""
    folders = [request.tree.cell(one, asked) for one in request.experiments for asked in FORMATS]
    if missing := [folder for folder in folders if not (folder / "summary.json").is_file()]:
        raise InvalidRequestError(
            f"no evaluation in {', '.join(map(str, missing))}; measure it with tuneloop matrix --task {request.task} --only-eval"
        )
    return write_report(folders, request.tree.report)
