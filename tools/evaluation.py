"""Measure models on a benchmark with OpenCompass: the job's command, and the scores after every item is checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.benchmark import Benchmark, Item
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import digest, digest_file, read_json, write_json, write_lines
from tuneloop.core.job import Command, Limits
from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.benchmarks import BenchmarkFolder, items, prompt, scoring, sealed_items
from tuneloop.tools.compare import wilson
from tuneloop.tools.engines import Engine
from tuneloop.tools.paths import ENGINES

SCRIPTS = ENGINES / "opencompass"
SCORER = Path(scoring.__file__).resolve()
RESULTS = "results.json"
BATCH = {"cpu": 64, "cuda": 32}
WEIGHTS = ("config.json", "generation_config.json", "adapter_config.json", "*.safetensors", "*.safetensors.index.json")
TOKENIZER = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template*", "vocab.*", "merges.txt", "*.model"
)  # fmt: skip
Measured = Literal["validation", "test"]


@dataclass(frozen=True)
class Weights:
    """One model to measure: `path` with whole weights, an `adapter` on top, a `tokenizer` (default: `path`)."""

    name: str
    path: Path
    adapter: Path | None = None
    tokenizer: Path | None = None

    @property
    def places(self) -> tuple[Path, ...]:
        """Folders the job reads."""
        given = (self.path, self.adapter, self.tokenizer)
        return tuple(dict.fromkeys(place.resolve() for place in given if place is not None))


def evaluation_items(folder: BenchmarkFolder, split: Measured, limit: int | None = None) -> list[Item]:
    """What is measured; `test` is for `finish` alone and knows no limit."""
    return sealed_items(folder) if split == "test" else items(folder, "validation", limit)


def evaluation_command(
    engine: Engine,
    models: Sequence[Weights],
    folder: BenchmarkFolder,
    split: Measured,
    out: Path,
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    limit: int | None = None,
    seed: int = 1,
    batch_size: int | None = None,
    limits: Limits | None = None,
) -> Command:
    """The job that answers and scores a split with all `models` in one process and leaves `out/results.json`.

    Writes the job's input beside `out` (`<out>.input/`). With `split="test"` both hold test items: `out` must lie where
    no agent reads. Raises RecipeError when a model's folder has no weights.
    """
    out = out.absolute()
    given = out.with_name(f"{out.name}.input")
    asked = [
        {"id": item.id, "prompt": prompt(folder.benchmark, item), "answer": item.answer}
        for item in evaluation_items(folder, split, limit)
    ]
    job = {
        "models": [_model(weights) for weights in models],
        "items": str(given / "items.jsonl"),
        "answer_kind": folder.benchmark.answer,
        "scoring": str(SCORER),
        "max_new_tokens": folder.benchmark.max_new_tokens,
        "batch_size": batch_size or BATCH[device],
        "seed": seed,
        "device": device,
        "out": str(out),
    }
    write_lines(given / "items.jsonl", asked)
    write_json(given / "job.json", job)
    out.mkdir(parents=True, exist_ok=True)
    read = [SCRIPTS, SCORER, given, *(place for weights in models for place in weights.places)]
    return Command(
        argv=(str(engine.python), str(SCRIPTS / "measure.py"), str(given / "job.json")),
        cwd=str(out),
        env=environment(engine, out, device),
        read=(*engine.readable, *dict.fromkeys(map(str, read))),
        write=(str(out),),
        limits=limits or Limits(),
        key=evaluation_key(engine, models, job, asked),
    )


def environment(engine: Engine, out: Path, device: str) -> dict[str, str]:
    """Offline, caches below `out`; one thread on a CPU, where spinning threads cost more than they bring."""
    offline = {f"{name}_OFFLINE": "1" for name in ("HF_HUB", "TRANSFORMERS", "HF_DATASETS", "HF_EVALUATE")}
    places = {"HOME": str(out), "HF_HOME": str(out / "hf"), "XDG_CACHE_HOME": str(out / "cache")}
    plain = {"TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    cpu = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    return {"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", **offline, **places, **plain, **cpu, **engine.env}


def evaluation_key(engine: Engine, models: Sequence[Weights], job: dict[str, Any], asked: Sequence[Any]) -> str:
    """Hash of all that can change a verdict: weights, tokenizers, items, decoding, device, scorer, scripts, engine."""
    sources = [digest_file(path) for path in (SCORER, *sorted(SCRIPTS.glob("*.py")))]
    decoding = [job[name] for name in ("answer_kind", "max_new_tokens", "batch_size", "seed", "device")]
    contents = [
        (w.name, [fingerprint(p) for p in (w.path, w.adapter, w.tokenizer) if p], bool(w.adapter)) for w in models
    ]
    return digest(engine.identity, json.dumps([sources, decoding, contents, asked]))


def fingerprint(model: Path) -> str:
    """Hash of a model folder's weights, configuration and tokenizer; other files do not count."""
    files = sorted({path for pattern in (*WEIGHTS, *TOKENIZER) for path in model.glob(pattern) if path.is_file()})
    return digest(*(f"{path.name}:{digest_file(path)}" for path in files))


def collect(out: Path, asked: Sequence[Item], benchmark: Benchmark, split: Measured) -> dict[str, Score]:
    """Scores by model name, every answer scored again here and compared with the engine's verdict.

    Raises RecipeError when nothing was measured, WorldError when the engine measured something else than was asked.
    """
    try:
        models = read_json(out / RESULTS)["models"]
    except FileNotFoundError as e:
        raise RecipeError(f"the evaluation left no {RESULTS} in {out}", culprit="config") from e
    except (ValueError, KeyError, TypeError) as e:
        raise WorldError(f"{out / RESULTS} is broken: {e}") from e
    return {model["name"]: _score(model, asked, benchmark, split) for model in models}


def _score(model: dict[str, Any], asked: Sequence[Item], benchmark: Benchmark, split: Measured) -> Score:
    rows = {row["id"]: row for row in model["items"]}
    wanted = {item.id for item in asked}
    for kind, ids in (("missing", wanted - rows.keys()), ("foreign", rows.keys() - wanted)):
        if ids:
            raise WorldError(f"{model['name']}: {len(ids)} {kind} items in the engine's results, e.g. {min(ids)}")
    if len(model["items"]) != len(asked):
        raise WorldError(f"{model['name']}: {len(model['items'])} results for {len(asked)} items")
    results = tuple(_result(benchmark, item, rows[item.id]) for item in asked)
    right, n = sum(result.correct for result in results), len(results)
    if not math.isfinite(model["accuracy"]) or abs(model["accuracy"] - 100 * right / n) > 1e-6:
        raise WorldError(
            f"{model['name']}: the engine reports {model['accuracy']} %, its items give {100 * right / n} %"
        )
    counted = right if benchmark.direction == "max" else n - right
    low, high = wilson(counted, n)
    return Score(
        benchmark=benchmark.name,
        split=split,
        metric=benchmark.metric,
        direction=benchmark.direction,
        value=100 * counted / n,
        low=low,
        high=high,
        n=n,
        parsed=100 * sum(result.parsed is not None for result in results) / n,
        items=results,
    )


def _result(benchmark: Benchmark, item: Item, row: dict[str, Any]) -> ItemResult:
    if not isinstance(row["prediction"], str):
        raise WorldError(f"item {item.id}: the engine's answer is no text but {row['prediction']!r}")
    result = ItemResult(
        id=item.id,
        prediction=row["prediction"],
        parsed=scoring.extract(benchmark.answer, row["prediction"]),
        answer=item.answer,
        correct=scoring.correct(benchmark.answer, item.answer, row["prediction"]),
    )
    said = {name: row[name] for name in ("parsed", "answer", "correct")}
    ours = result.model_dump(include=set(said))
    if said != ours:
        raise WorldError(f"item {item.id}: the engine's verdict is {said}, ours is {ours}")
    return result


def _model(weights: Weights) -> dict[str, str | None]:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", weights.name):
        raise ValueError(f"{weights.name!r} is no model name")
    for place, wanted in ((weights.path, "*.safetensors"), (weights.adapter, "adapter_model.safetensors")):
        if place is not None and not any(place.glob(wanted)):
            raise RecipeError(f"{place}: no {wanted} in it, nothing to measure", culprit="config")
    tokenizer = weights.tokenizer or weights.path
    adapter = str(weights.adapter.resolve()) if weights.adapter else None
    return {
        "name": weights.name,
        "path": str(weights.path.resolve()),
        "adapter": adapter,
        "tokenizer": str(tokenizer.resolve()),
    }
