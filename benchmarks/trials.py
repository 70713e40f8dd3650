"""Real trainings of many shapes: the embedded model and a larger one of random weights, with data of any length."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from ours import open_reference
from place import Place
from value import oracle_rows

from tuneloop.core.files import digest, write_atomic, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.hub.store import fingerprint
from tuneloop.tools.runs.signature import write_setup

Rows = list[dict[str, str]]
LARGER: dict[str, Any] = {
    "hidden_size": 640,
    "num_hidden_layers": 12,
    "intermediate_size": 1728,
    "num_attention_heads": 10,
    "vocab_size": 16384,
    "max_position_embeddings": 2048,
    "layer_types": ["full_attention"] * 12,
}
HEAD, KEYS = 64, 2  # width of a head, heads of keys and values


@dataclass(frozen=True)
class Trial:
    """One recipe; `joined` rows of the embedded task make one row, `long` rows of so many more are strewn in."""

    values: Mapping[str, Any]
    larger: bool = False
    rows: int = 1000
    joined: int = 1
    long: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """In `details.json`."""
        return ", ".join(["larger" if self.larger else "tiny", *(f"{k} {v}" for k, v in self.values.items())])


def rows_of(trial: Trial) -> Rows:
    """As many as the trial wants, the same each time."""
    pool = oracle_rows()
    counts = [trial.joined] * trial.rows
    for place, (count, times) in enumerate(
        (c, t) for c, n in trial.long.items() for c, t in [(c, i) for i in range(n)]
    ):
        counts[(place * 7919 + times) % len(counts)] = count
    found, at = [], 0
    for count in counts:
        some = [pool[(at + i) % len(pool)] for i in range(count)]
        at += count
        found.append({k: "\n".join(row[k] for row in some) for k in ("instruction", "output")} | {"input": ""})
    return found


def opened(place: Place, number: int, trial: Trial) -> Context:
    """An experiment with this recipe and these data, ready to be smoke_run or trained."""
    ctx = place.once(larger_run if trial.larger else tiny_run)
    folder, rows = ctx.run.experiment(number), rows_of(trial)
    write_json(folder.data / "data.json", rows)
    write_json(folder.data / "report.json", {"rows": len(rows), "source": digest(json.dumps(rows))})
    write_dataset_info(folder.data)
    write_atomic(folder.config, yaml.safe_dump({"template": "chatml", "learning_rate": 1e-4, **trial.values}))
    return Context(ctx.run, ctx.settings, State(run_id=ctx.run.id, experiment=number))


def tiny_run(place: Place) -> Context:
    """A run on the embedded model."""
    return open_reference(place, 8, "trials")


def larger_run(place: Place) -> Context:
    """A run on a model of 62 M random parameters."""
    ctx = open_reference(place, 8, "larger-trials")
    model = larger_model(place.tiny, place.root / "larger")
    setup = ctx.run_tools.setup.model_copy(
        update={"model_name": "larger", "model_root": model, "model_fingerprint": fingerprint(model)}
    )
    write_setup(ctx.run, setup)
    return Context(ctx.run, ctx.settings, State(run_id=ctx.run.id))


def larger_model(tiny: Path, folder: Path) -> Path:
    """A Qwen2 of LARGER sizes with the embedded model's tokenizer; random weights, float32."""
    folder.mkdir()
    for path in tiny.iterdir():
        if path.suffix != ".safetensors" and path.is_file():
            shutil.copy(path, folder / path.name)
    config = {**json.loads((tiny / "config.json").read_text()), **LARGER, "num_key_value_heads": KEYS}
    write_json(folder / "config.json", config)
    write_tensors(folder / "model.safetensors", shapes(LARGER))
    return folder


def shapes(sizes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name → sizes of each tensor."""
    hidden, wide, keys = sizes["hidden_size"], sizes["intermediate_size"], KEYS * HEAD
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (sizes["vocab_size"], hidden)}
    for n in range(sizes["num_hidden_layers"]):
        layer = f"model.layers.{n}"
        for name, out in (("q", hidden), ("k", keys), ("v", keys)):
            found[f"{layer}.self_attn.{name}_proj.weight"] = (out, hidden)
            found[f"{layer}.self_attn.{name}_proj.bias"] = (out,)
        found[f"{layer}.self_attn.o_proj.weight"] = (hidden, hidden)
        found |= {f"{layer}.mlp.{name}_proj.weight": (wide, hidden) for name in ("gate", "up")}
        found[f"{layer}.mlp.down_proj.weight"] = (hidden, wide)
        found |= {f"{layer}.{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
    return found | {"model.norm.weight": (hidden,)}


def write_tensors(path: Path, tensors: Mapping[str, tuple[int, ...]]) -> None:
    """A safetensors file: the length of the header, the header, the numbers."""
    rng, header, at = np.random.default_rng(0), {}, 0
    for name, sizes in tensors.items():
        end = at + 4 * int(np.prod(sizes))
        header[name] = {"dtype": "F32", "shape": sizes, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name, sizes in tensors.items():
            numbers = np.ones(sizes) if "norm" in name else 0.02 * rng.standard_normal(sizes)
            f.write(numbers.astype(np.float32).tobytes())
