"""A recipe with `stage: grpo`: its config, its prompts and answers, the model it begins with, and the jobs that carry it out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Hypothesis, Training
from tuneloop.core.files import digest, read_model
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.benchmark_items.training_items import PLACE
from tuneloop.tools.config.config_text import Config, train_config
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.grpo_config import (
    GrpoConfig,
    fit_prompts,
    grpo_values,
    key_problem,
    reply_problem,
    value_problems,
)
from tuneloop.tools.config.model_card import ModelCard, read_model_card
from tuneloop.tools.engines.find import find_built_engine
from tuneloop.tools.housekeeping.pruning import check_there
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.scoring.scorer import is_judged_here
from tuneloop.tools.training.grpo import SCRIPTS, GrpoJobs, scoring_facts
from tuneloop.tools.training.grpo_items import GrpoItems, read_items
from tuneloop.tools.training.tokens import asked_format
from tuneloop.tools.weights.fingerprints import model_fingerprint

ENGINE = "trl"


@dataclass(frozen=True)
class GrpoStart:
    """The model that a training begins with: an adapter or weights; `experiment` 0: the base model."""

    model: Path
    experiment: int


def check_grpo(run_tools: RunTools, config: Config, card: ModelCard) -> list[Finding]:
    """What is wrong with a GRPO recipe's config, key by key, before anything runs."""
    values = {key: value for key, value in config.values.items() if key != "stage"}
    unknown = {key: why for key in values if (why := key_problem(key))}
    found = [*unknown.items(), *value_problems({key: v for key, v in values.items() if key not in unknown})]
    if why := refusal(run_tools):
        found.append(("stage", f"{why}; write stage: sft"))
    if not found and (why := reply_problem(grpo_values(values), card.max_positions)):
        found.append(("max_completion_length", why))
    return [Finding("error", config.lines.get(key, 0), key, text) for key, text in found]


def refusal(run_tools: RunTools) -> str:
    """Why this run cannot train with GRPO, "" where it can."""
    declared = run_tools.setup.benchmark
    if not run_tools.spec.evaluated:
        return "grpo rewards replies by a benchmark's scorer, and this run has no benchmark"
    if declared.executed and not declared.verified:
        return (
            f"grpo needs an answer to check each reply against, and a reply to {declared.name} is scored by running it"
        )
    if not is_judged_here(declared):
        return f"grpo needs right answers, and only the evaluation's engine can read those of {declared.name}"
    if find_built_engine(ENGINE, run_tools.settings) is None:
        return f"grpo needs the engine {ENGINE}, which is not built on this machine (tuneloop engines build {ENGINE})"
    return ""


def check_start(run_tools: RunTools, folder: ExperimentFolder) -> None:
    """Raises RecipeError where there is no model to begin with."""
    grpo_start(run_tools, folder, grpo_values(train_config(folder).values))


def check_sample(run_tools: RunTools, folder: ExperimentFolder) -> None:
    """Raises RecipeError where the scorer could score replies to no row of a try."""
    if not read_items(run_tools, folder.work / "sample" / "data.json").prompts:
        lack, cure = row_needs(run_tools.setup.benchmark)
        raise RecipeError(
            f"GRPO rewards right answers, and of every row of a try {lack}; right is {cure}", culprit="data"
        )


def check_built(run_tools: RunTools, folder: ExperimentFolder) -> str:
    """How many of the built rows are left out, "" for none. Raises RecipeError, in one line, where too few prompts are left."""
    benchmark = run_tools.setup.benchmark
    items = read_items(run_tools, folder.data / "data.json")
    check_items(benchmark, grpo_values(train_config(folder).values), items)
    if not items.dropped:
        return ""
    lack, _ = row_needs(benchmark)
    return f"GRPO asks {len(items.prompts)} prompts; {items.dropped} rows are left out: {lack}, or they repeat a prompt"


def row_needs(benchmark: Benchmark) -> tuple[str, str]:
    """Why a row is no prompt of GRPO, and what would be right."""
    if benchmark.verified:
        fields = ", ".join(dict.fromkeys(PLACE.findall(benchmark.prompt)))
        return (
            f"the prompt is not that of {benchmark.name} over one raw row, which its verifier needs",
            f"the benchmark's own prompt, filled with the fields of a raw row ({fields})",
        )
    return (
        f"the scorer of {benchmark.name} reads no answer in the output",
        "outputs that end in the form the scorer reads",
    )


def check_items(benchmark: Benchmark, values: GrpoConfig, items: GrpoItems) -> None:
    """Raises RecipeError, in one line, where there are fewer prompts than are asked at once."""
    have = len(items.prompts)
    if have >= values.prompts:
        return
    many = have > items.dropped
    lack, mend = row_needs(benchmark)
    cure = "a smaller per_device_train_batch_size" if many else mend
    raise RecipeError(
        f"GRPO asks {values.prompts} prompts at once, and the rows have {have}; {items.dropped} others were left out: {lack}, or "
        f"they repeat a prompt; right is {cure}",
        culprit="config" if many else "data",
    )


def grpo_start(run_tools: RunTools, folder: ExperimentFolder, values: GrpoConfig) -> GrpoStart:
    """The trained model of the experiment that the hypothesis builds on, else the base model. Raises RecipeError.

    `start_from: sft` wants such a model; with `auto` the smoke run says whether the base model earns enough.
    """
    parent = read_model(folder.hypothesis, Hypothesis).parent if folder.hypothesis.is_file() else None
    if values.start_from == "base" or (values.start_from == "auto" and not parent):
        return GrpoStart(run_tools.setup.model_root, 0)
    own = ExperimentFolder(run_tools.run.experiments / f"{parent or 0:03d}")
    if folder.seeds_on:  # a recipe that was trained before: another stage is no cure
        check_there(own)
    who = f"experiment {parent}, on which this one builds," if parent else "an experiment from scratch"
    if not parent or not own.training.is_file() or not any(own.model.glob("*.safetensors")):
        raise RecipeError(sft_first(f"{who} has no trained weights"), culprit="config")
    if (method := read_model(own.training, Training).method) == "oft":
        raise RecipeError(sft_first(f"{who} was trained with {method}, on which GRPO does not go on"), culprit="config")
    return GrpoStart(own.model, parent)


def sft_first(why: str) -> str:
    """A finding on the stage, with the cure."""
    return f"train.yaml stage: GRPO begins with a model that earns something, and {why}; write stage: sft"


def plan_experiment(run_tools: RunTools, folder: ExperimentFolder) -> GrpoJobs:
    """Trainer and scorer of an experiment whose data are built; its prompts and answers are written. Raises RecipeError."""
    values, benchmark = grpo_values(train_config(folder).values), run_tools.setup.benchmark
    items = read_items(run_tools, folder.data / "data.json")
    check_items(benchmark, values, items)
    values = fit_prompts(values, read_model_card(run_tools.setup.model_root).max_positions)
    start, seed = grpo_start(run_tools, folder, values), run_tools.training_seed + folder.seeds_on
    jobs = GrpoJobs(
        run_tools,
        folder,
        training_key(run_tools, values, items, start),
        values,
        benchmark,
        start.model,
        new_adapter=not start.experiment and values.finetuning_type == "lora",
        seed=seed,
        chat=asked_format(run_tools) == "chat",
    )
    jobs.write_items([{"prompt": text} for text in items.prompts], items.golds)
    return jobs


def training_key(run_tools: RunTools, values: GrpoConfig, items: GrpoItems, start: GrpoStart) -> str:
    """Over everything that decides the training; what its job is told is added when it is launched."""
    setup = run_tools.setup
    scripts = (path.read_bytes() for path in SCRIPTS)
    begun = model_fingerprint(start.model, None) if start.experiment else setup.model_fingerprint
    facts = (values.model_dump_json(), setup.device, str(run_tools.threads), begun, setup.model_fingerprint)
    scoring = scoring_facts(run_tools, setup.benchmark)
    pairs = json.dumps([items.prompts, items.golds], sort_keys=True)
    return digest(*facts, run_tools.engine(ENGINE).identity, *scripts, *scoring, pairs)
