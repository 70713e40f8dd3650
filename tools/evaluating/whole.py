"""What of a model's folder can be seen to be wrong before anything is loaded: headers of weights, and nothing more, are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.core.untrusted import read_strange_json
from tuneloop.tools.fingerprints import known_digest
from tuneloop.tools.model_files import ADAPTER, CONFIG, LARGEST_TEXT
from tuneloop.tools.weights import shapes_of

ADAPTER_WEIGHTS = "adapter_model.safetensors"
LORA = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])\.(?:[^.]+\.)?weight")
LAYER = re.compile(r"(?:^|\.)((?:layers|layer|h|blocks)\.\d+\..+)$")


def check_whole(folder: Path) -> dict[str, tuple[int, ...]]:
    """A folder with whole weights, configuration and tokenizer. Raises SetupError."""
    for name in (CONFIG, "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise SetupError(f"model {folder}: {name} is missing; right is a folder as save_pretrained writes it")
    if (folder / ADAPTER).is_file():
        raise SetupError(f"model {folder}: holds an adapter and whole weights; right is a folder with one of them")
    found = shapes_of(folder, "*.safetensors", "model")
    for index in folder.glob("*.safetensors.index.json"):
        if missing := _indexed(index) - found.keys():
            raise SetupError(f"model {folder}: {len(missing)} tensors of {index.name} are missing, e.g. {min(missing)}")
    return found


def _indexed(index: Path) -> set[str]:
    try:
        return set(read_strange_json(index.resolve(), LARGEST_TEXT)["weight_map"])
    except (ValueError, LookupError, TypeError) as e:
        raise SetupError(f"{index}: cannot be read: {e}") from e


def adapter_config(adapter: Path) -> dict[str, Any]:
    """Its configuration. Raises SetupError."""
    try:
        config = read_strange_json((adapter / ADAPTER).resolve(), LARGEST_TEXT)
    except (FileNotFoundError, ValueError) as e:
        raise SetupError(f"adapter {adapter}: {ADAPTER} cannot be read: {e}") from e
    if not isinstance(config, dict):
        raise SetupError(f"adapter {adapter}: {ADAPTER} is no object")
    return config


def check_adapter(
    adapter: Path, base: Path, base_shapes: Mapping[str, tuple[int, ...]], memory: Path | None = None
) -> None:
    """An adapter that was trained on this base. Raises SetupError.

    By the weights of the folder that it names, where that is there, and by the shape of every layer it sits on: an adapter
    of another size or architecture is always refused, one of another model of the same shape where it says so.
    """
    config, shapes = adapter_config(adapter), shapes_of(adapter, ADAPTER_WEIGHTS, "adapter")
    told = Path(str(config.get("base_model_name_or_path") or "-")).expanduser()
    there = told.is_absolute() and told.is_dir() and told.resolve() != base.resolve()
    if there and weights_digests(told, memory) != weights_digests(base, memory):
        raise SetupError(f"adapter {adapter}: was trained on {told}, which is another model than {base}")
    known = {layer(name.removesuffix(".weight")): shape for name, shape in base_shapes.items()}
    for name, shape in shapes.items():
        match = LORA.fullmatch(name)
        if match is None or (module := layer(match["module"])) is None:
            continue
        if module not in known:
            raise SetupError(
                f"adapter {adapter}: sits on {match['module']}, which {base} has not: it is of another model"
            )
        wanted = known[module]
        width = shape[1] if match["half"] == "A" else shape[0]
        if not quantized(base) and len(wanted) == len(shape) == 2 and width not in wanted:
            raise SetupError(
                f"adapter {adapter}: {match['module']} is {width} wide there and {' x '.join(map(str, wanted))} in {base}: "
                "it is of another model"
            )


def weights_digests(model: Path, memory: Path | None) -> set[str]:
    """Hashes of its files of weights."""
    return {known_digest(path, memory) for path in model.glob("*.safetensors")}


def layer(name: str) -> str | None:
    """A module's name from its layer's number on, None outside of layers: what stands before differs by release."""
    found = LAYER.search(name)
    return found[1] if found else None


def quantized(base: Path) -> bool:
    """Whether its weights are packed, and have other shapes than its layers."""
    return "quantization_config" in (base / CONFIG).read_text(encoding="utf-8")
