"""Stands for OpenCompass's engine where a test is about what is around it: same job files in, same results out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.score import Score
from tuneloop.tools.evaluation.item_sets import ItemSet, Pair
from tuneloop.tools.scoring.verdicts import make_score, read_rows

# As measure.py would leave it: replies from the file, else the gold answer in a box where the item's number is even.
PYTHON = """\
#!{python}
import importlib.util, json, os, pathlib, sys
if not any(word.endswith("measure.py") for word in sys.argv):
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
job = json.loads(pathlib.Path(sys.argv[2]).read_text())
spec = importlib.util.spec_from_file_location("judging", job["judging"])
judging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judging)
results = []
for model in job["models"]:
    lines = pathlib.Path(model["replies"]).read_text().splitlines() if model.get("replies") else []
    known = {{(row["set"], row["id"]): row["prediction"] for row in map(json.loads, lines)}}
    for given in (one for one in job["sets"] if one["name"] in model["sets"]):
        rows, judge = [], judging.judge_of(job["scoring"], given["answer_kind"], given["scorer"])
        for number, line in enumerate(pathlib.Path(given["items"]).read_text().splitlines()):
            item = json.loads(line)
            own = "\\\\boxed{{" + item["answer"] + "}}" if number % 2 == 0 else "no idea"
            text = known.get((given["name"], item["id"]), own)
            rows.append({{"id": item["id"], "prediction": text, "answer": item["answer"],
                          **judging.judged(judge, item["answer"], text)}})
        accuracy = 100 * sum(row["value"] for row in rows) / len(rows)
        facts = {{"model": model["name"], "set": given["name"], "truncated": 0, "accuracy": accuracy}}
        results.append({{**facts, "metrics": judging.summary(given["scorer"], rows), "items": rows}})
        print(json.dumps({{"done": len(results), "total": len(job["sets"]), "unit": "answers"}}), flush=True)
(pathlib.Path(job["out"]) / "results.json").write_text(json.dumps({{"results": results, "versions": {{}}}}))
"""


def stand_in(place: Path) -> Any:
    """The engine."""
    python = place / "engine" / "bin" / "python"
    write_atomic(python, PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    root = python.parent.parent
    return SimpleNamespace(
        folder=root, python=python, bin=python.parent, readable=(), identity="stand-in", env={}, packages={}
    )


def write_safetensors(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Zeros of these shapes."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4
        for n in shape:
            size *= n
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    write_atomic(file, len(text).to_bytes(8, "little") + text + bytes(at))


def write_model(folder: Path, width: int = 8, layers: int = 2) -> Path:
    """Whole weights of nothing."""
    shapes = {f"model.layers.{i}.self_attn.q_proj.weight": (width, width) for i in range(layers)}
    write_safetensors(folder / "model.safetensors", {"model.embed_tokens.weight": (16, width), **shapes})
    write_json(folder / "config.json", {"model_type": "qwen2", "hidden_size": width})
    write_json(folder / "tokenizer_config.json", {})
    return folder


def write_adapter(folder: Path, base: str, width: int = 8, layers: int = 2) -> Path:
    """A LoRA of nothing on a model of `width`."""
    names = [f"base_model.model.model.layers.{i}.self_attn.q_proj" for i in range(layers)]
    halves = {f"{n}.lora_A.weight": (2, width) for n in names} | {f"{n}.lora_B.weight": (width, 2) for n in names}
    write_safetensors(folder / "adapter_model.safetensors", halves)
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 2, "base_model_name_or_path": base})
    return folder


def write_benchmark(folder: Path, count: int = 8, **more: Any) -> Path:
    """A benchmark of sums; `more` goes to its declaration."""
    text = "Add. The answer stands in \\boxed{}."
    declared = {"name": folder.name, "description": text, "answer": "boxed", "max_new_tokens": 64}
    write_json(folder / "benchmark.yaml", {**declared, **more})
    for split, first in (("validation", 0), ("test", 100)):
        rows = [
            {"id": f"{split[0]}{i}", "prompt": f"What is {first + i} + {i * i}?", "answer": str(first + i + i * i)}
            for i in range(count)
        ]
        write_atomic(folder / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def collect_scores(out: Path, sets: Sequence[ItemSet]) -> dict[Pair, Score]:
    """Scores by (model, set) of everything that the evaluation in `out` measured."""
    known = {given.name: given for given in sets}
    return {pair: make_score(row, known[pair[1]]) for pair, row in read_rows(out).items()}
