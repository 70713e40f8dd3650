"""Measure models on sets of items with OpenCompass: what is asked, as one job's command, and the key of each answer."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError, RecipeError
from tuneloop.core.files import digest, digest_file, write_json, write_lines
from tuneloop.core.job import Command, Limits
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, render_prompt, sealed_items, select_validation
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES, cpu_environment, gpu_models
from tuneloop.tools.scoring import chart_matching, code_results, scorer, typed_json
from tuneloop.tools.scoring.scorer import JUDGING, SCORING, scorer_file
from tuneloop.tools.weights.fingerprints import model_fingerprint

# What generates the answers of an evaluation: transformers, or vLLM where the engine has it.

Backend = Literal["hf", "vllm"]
BackendChoice = Literal["auto", "hf", "vllm"]


def choose_backend(choice: BackendChoice, engine: Engine, device: str, adapters: Sequence[Path] = ()) -> Backend:
    """The backend for these adapters; `auto` is vLLM on a GPU when the engine has it and can serve all of them.

    Raises InvalidRequestError in one line when vLLM is asked for and cannot be.
    """
    there = "vllm" in engine.packages
    if choice == "vllm" and not there:
        raise InvalidRequestError(
            f"TUNELOOP_EVAL_BACKEND=vllm, but {engine.folder} has no vllm: set OPENCOMPASS_PATH to an environment with "
            "opencompass and vllm, or TUNELOOP_EVAL_BACKEND=auto"
        )
    if choice == "vllm" and device != "cuda":
        raise InvalidRequestError(
            "TUNELOOP_EVAL_BACKEND=vllm needs a GPU, and there is none: set TUNELOOP_EVAL_BACKEND=auto"
        )
    if choice == "auto":
        return "vllm" if there and device == "cuda" and all(map(is_servable, adapters)) else "hf"
    return choice


def is_servable(adapter: Path) -> bool:
    """Whether vLLM can put the adapter on its base unmerged: plain LoRA on layers, and nothing besides."""
    try:
        config = read_untrusted_json((adapter / "adapter_config.json").resolve(), LARGEST_CONFIG)
    except (OSError, ValueError):
        return False
    besides = ("use_dora", "modules_to_save", "trainable_token_indices", "layer_replication")
    plain = config.get("peft_type") == "LORA" and config.get("bias", "none") == "none"
    return plain and not any(config.get(name) for name in besides)


SCRIPTS = ENGINES / "opencompass"
OUTSIDE = tuple(
    Path(str(one.__file__)).resolve() for one in (code_results, chart_matching)
)  # what code gave is compared out here
TYPED = Path(typed_json.__file__).resolve()
# What runs the code of replies.
ANSWERS = (
    TYPED,
    *sorted((ENGINES / "answers").glob("*.py")),
    *(ENGINES / f"{n}.py" for n in ("fork_parent", "fork_isolation", "forked_job", "landlock")),
)
LARGEST_CONFIG = 1 << 24  # bytes
BATCH = {"cpu": 64, "cuda": 32}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Measured = Literal["validation", "test"]
Pair = tuple[str, str]


@dataclass(frozen=True)
class ModelWeights:
    """One model to measure: `path` with whole weights, an `adapter` on top, a `tokenizer` (default: `path`).

    `replies`: answers that are there already, JSON Lines with `set`, `id` and `prediction`; then `path` is that file.
    """

    name: str
    path: Path
    adapter: Path | None = None
    tokenizer: Path | None = None
    replies: bool = False

    @property
    def places(self) -> tuple[Path, ...]:
        """Folders the job reads."""
        given = (self.path, self.adapter, self.tokenizer)
        return tuple(dict.fromkeys(place.resolve() for place in given if place is not None))


@dataclass(frozen=True)
class ItemSet:
    """Items of one benchmark under one name; `split` says where they are from.

    `unseen`: ids of the validation items that agents do not see. `template_options`: arguments of the chat template, e.g.
    `{"enable_thinking": False}`.
    """

    name: str
    benchmark: Benchmark
    split: Measured
    items: tuple[Item, ...]
    unseen: frozenset[str] = frozenset()
    template_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scorer(self) -> str:
        """The file of the benchmark's own scorer, "" where a plain kind of answer is judged."""
        return str(scorer_file(self.benchmark) or "")

    @property
    def engine_items(self) -> list[dict[str, str]]:
        """The items as the engine gets them: with what is right only where the engine scores."""
        gold = not self.benchmark.executed
        return [
            {"id": i.id, "prompt": render_prompt(self.benchmark, i), "answer": i.answer if gold else ""}
            for i in self.items
        ]

    @property
    def code_expectations(self) -> list[Any]:
        """What decides of replies that are run: calls, what they have to give, time, and the verifier."""
        calls = [[i.answer, i.calls.model_dump(mode="json")] for i in self.items if i.calls]
        verifier = [self.benchmark.verifier] if self.benchmark.verified else []
        return [self.benchmark.seconds, calls, *verifier] if self.benchmark.executed else []


@dataclass(frozen=True)
class EvaluationConditions:
    """What else decides an answer; `batch_size`: prompts that share a batch at most, None: as fits the device.

    `longest`: tokens of prompt and answer together, None: as the model says. `files`: the folder with what scorers need.
    `threads`: on a CPU. `gpus`: that vLLM answers on, for their number decides its rounding; 0: all that the job finds.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    backend: Backend = "hf"
    seed: int = 1
    batch_size: int | None = None
    longest: int | None = None
    files: Path | None = None
    threads: int = 1
    gpus: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """As the job file has them."""
        rows = self.batch_size or BATCH[self.device]
        own = {"longest": self.longest, "batch_size": rows, "threads": self.threads}
        gpus = {"gpus": self.gpus} if self.gpus else {}
        return {"device": self.device, "backend": self.backend, "seed": self.seed, **own, **gpus}


def make_item_set(folder: BenchmarkFolder, split: Measured, limit: int | None = None) -> ItemSet:
    """What is measured of a benchmark; `test` is for `finish` alone and knows no limit."""
    declared = folder.benchmark
    if split == "test":
        return ItemSet(declared.name, declared, split, tuple(repeat_samples(declared.samples, sealed_items(folder))))
    shown, unseen = (repeat_samples(declared.samples, half) for half in select_validation(folder, limit).halves)
    return ItemSet(declared.name, declared, split, (*shown, *unseen), frozenset(item.id for item in unseen))


def repeat_samples(samples: int, given: Sequence[Item]) -> list[Item]:
    """Every item `samples` times, as one cluster; what is asked once stays as it is."""
    if samples == 1:
        return list(given)
    return [
        item.model_copy(update={"id": f"{item.id}~{k}", "cluster": item.cluster or item.id})
        for item in given
        for k in range(1, samples + 1)
    ]


def model_set_pairs(models: Sequence[ModelWeights], sets: Sequence[ItemSet]) -> list[Pair]:
    """(model, set) by name: everything that these models are measured on."""
    return [(model.name, given.name) for model in models for given in sets]


def evaluation_command(
    engine: Engine,
    models: Sequence[ModelWeights],
    sets: Sequence[ItemSet],
    out: Path,
    how: EvaluationConditions = EvaluationConditions(),
    *,
    keys: Mapping[Pair, str] | None = None,
    without: Collection[Pair] = (),
    limits: Limits | None = None,
) -> Command:
    """The job that answers and scores all `sets` with all `models` in one process and leaves `out/results.json`.

    `without`: pairs that are known already. `keys`: as from `result_keys`, which reads all weights. Writes the job's input
    beside `out` (`<out>.input/`). With a test set both hold test items: `out` must lie where no agent reads. Raises
    RecipeError when a model's folder has no weights.
    """
    check_names(models, sets)
    out = out.absolute()
    given = out.with_name(f"{out.name}.input")
    wanted = [pair for pair in model_set_pairs(models, sets) if pair not in without]
    used = [one for one in sets if any(name == one.name for _, name in wanted)]
    asked = [model for model in models if any(who == model.name for who, _ in wanted)]
    keys = keys or result_keys(engine, models, sets, how)
    code = {"scoring": str(SCORING), "judging": str(JUDGING)}
    rows = {"models": model_rows(asked, wanted, keys), "sets": set_rows(used, given, how)}
    for one in used:
        write_lines(given / f"{one.name}.jsonl", one.engine_items)
    write_json(given / "job.json", {**rows, **code, "out": str(out), **how.facts})
    out.mkdir(parents=True, exist_ok=True)
    read = [SCRIPTS, SCORING, JUDGING, given, *scorer_places(used, how), *(p for model in asked for p in model.places)]
    return Command(
        argv=(str(engine.python), str(SCRIPTS / "measure.py"), str(given / "job.json")),
        cwd=str(out),
        env=job_environment(engine, out, how),
        read=(*engine.readable, *dict.fromkeys(map(str, read))),
        write=(str(out),),
        limits=limits or Limits(),
        key=digest(*(f"{model} {name} {keys[model, name]}" for model, name in wanted)),
    )


def model_rows(
    models: Sequence[ModelWeights], wanted: Sequence[Pair], keys: Mapping[Pair, str]
) -> list[dict[str, Any]]:
    """The models as the job reads them, each with its sets and the keys of their results."""
    names = {model.name: [name for who, name in wanted if who == model.name] for model in models}
    return [
        {
            **model_entry(model),
            "sets": names[model.name],
            "keys": {name: keys[model.name, name] for name in names[model.name]},
        }
        for model in models
    ]


def set_rows(sets: Sequence[ItemSet], given: Path, how: EvaluationConditions) -> list[dict[str, Any]]:
    """The sets as the job reads them; their items lie in the folder `given`."""
    return [
        {**set_entry(one), "items": str(given / f"{one.name}.jsonl"), "files": scorer_files_folder(one, how)}
        for one in sets
    ]


def scorer_files_folder(one: ItemSet, how: EvaluationConditions) -> str:
    """Where the files lie that a set's scorer needs, "" where it needs none."""
    return str(how.files) if how.files and scorer.scorer_files(one.benchmark) else ""


def scorer_places(sets: Sequence[ItemSet], how: EvaluationConditions) -> list[Path]:
    """Folders that the sets' own scorers read: their code, and their files."""
    code = [Path(one.scorer).parent for one in sets if one.scorer]
    return [*code, *(Path(place) for one in sets if (place := scorer_files_folder(one, how)))]


def job_environment(engine: Engine, out: Path, how: EvaluationConditions) -> dict[str, str]:
    """Offline, caches below `out`; on a CPU as many threads as are said."""
    offline = {f"{name}_OFFLINE": "1" for name in ("HF_HUB", "TRANSFORMERS", "HF_DATASETS", "HF_EVALUATE")}
    places = {"HOME": str(out), "HF_HOME": str(out / "hf"), "XDG_CACHE_HOME": str(out / "cache")}
    plain = {"TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    cpu = cpu_environment(how.threads) if how.device == "cpu" else {}
    # in one process vLLM's order of work, and with it its rounding, is the same each time
    vllm = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"} if how.backend == "vllm" else {}
    own = {**offline, **places, **plain, **cpu, **vllm, **engine.env}
    return {"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", **own}


def result_keys(
    engine: Engine,
    models: Sequence[ModelWeights],
    sets: Sequence[ItemSet],
    how: EvaluationConditions,
    memory: Path | None = None,
) -> dict[Pair, str]:
    """For each pair a hash of all that can change its verdicts, whatever model and set are called here.

    Weights, tokenizer with its template, items, decoding, batching, device, backend, scorer, scripts, engine.
    """
    around = conditions_hash(engine, how)
    contents = {model.name: digest(*model_fingerprints(model, memory)) for model in models}
    decoding = {
        given.name: digest(
            json.dumps([decoding_facts(given), given.engine_items, given.code_expectations]),
            *scorer.unpinned_files(given.benchmark, how.files, memory),
        )
        for given in sets
    }
    return {
        (model, name): digest(around, contents[model], decoding[name]) for model, name in model_set_pairs(models, sets)
    }


def conditions_hash(engine: Engine, how: EvaluationConditions) -> str:
    """A hash of what decides verdicts beside model and items: engine, device with its model, backend, batching, seed, scripts.

    Only scores that were measured under the same conditions are compared.
    """
    sources = [digest_file(path) for path in (SCORING, JUDGING, *OUTSIDE, *sorted(SCRIPTS.glob("*.py")), *ANSWERS)]
    devices = gpu_models() if how.device == "cuda" else []
    return digest(engine.identity, json.dumps([sources, how.facts, devices]))


def model_fingerprints(model: ModelWeights, memory: Path | None) -> list[str]:
    """Fingerprints of what a model is made of."""
    if model.replies:
        return [digest_file(model.path)]
    places = (model.path, model.adapter, model.tokenizer or model.path)
    return [model_fingerprint(place, memory) if place else "" for place in places]


def model_entry(weights: ModelWeights) -> dict[str, str | None]:
    """A model as the job file has it. Raises RecipeError when its folder has no weights."""
    if weights.replies:
        return {"name": weights.name, "replies": str(weights.path.resolve()), "path": None, "adapter": None}
    for place, wanted in ((weights.path, "*.safetensors"), (weights.adapter, "adapter_model.safetensors")):
        if place is not None and not any(place.glob(wanted)):
            raise RecipeError(f"{place}: no {wanted} in it, nothing to measure", culprit="config")
    tokenizer = weights.tokenizer or weights.path
    adapter = str(weights.adapter.resolve()) if weights.adapter else None
    places = {"path": str(weights.path.resolve()), "adapter": adapter, "tokenizer": str(tokenizer.resolve())}
    return {"name": weights.name, **places}


def set_entry(given: ItemSet) -> dict[str, Any]:
    """A set as the job file has it, without its items."""
    told = ("form", "stop", "temperature", "top_p", "max_new_tokens")
    facts = given.benchmark.model_dump(mode="json", include=set(told))
    kind = {"answer_kind": given.benchmark.answer, "executed": given.benchmark.executed}
    options = {"template_options": dict(given.template_options)} if given.template_options else {}
    return {"name": given.name, **kind, "scorer": given.scorer, **facts, **options}


def decoding_facts(given: ItemSet) -> list[Any]:
    """What of a set decides verdicts, whatever it is called and wherever its scorer lies."""
    facts = {name: value for name, value in set_entry(given).items() if name not in ("name", "scorer")}
    return [facts, scorer.scorer_hash(scorer_file(given.benchmark))]


def check_names(models: Sequence[ModelWeights], sets: Sequence[ItemSet]) -> None:
    """Names become files: raises ValueError for an odd one, or one given twice."""
    for kind, names in (("model", [model.name for model in models]), ("set", [given.name for given in sets])):
        for name in names:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no {kind} name")
        if len(set(names)) != len(names):
            raise ValueError(f"two {kind}s of one name in {', '.join(names)}")
