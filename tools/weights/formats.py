"""Whether an engine knows a base model's architecture and loads its safetensors: code that it brings along is never run."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.untrusted import strict_json
from tuneloop.tools.config.model_card import read_model_json
from tuneloop.tools.engines import Engine
from tuneloop.tools.weights.trained_files import is_plain_file

# A file of safetensors that a job wrote, looked at as a stranger's: its header names every byte, once and in order.

LARGEST_HEADER = 100 << 20  # bytes, the form's own bound
SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4,
    "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
MOST_DIMENSIONS = 16


def tensor_names(file: Path) -> list[str]:
    """Names of the tensors in it. Raises ValueError when it is not one whole safetensors file, and nothing else."""
    return list(tensor_shapes(file))


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors in it, in their order. Raises as `tensor_names`."""
    if not is_plain_file(file):
        raise ValueError(f"{file.name} is no plain file")
    header, rest = _header(file)
    header.pop("__metadata__", None)
    spans = sorted((_tensor_span(name, entry), name) for name, entry in header.items())
    end = 0
    for (first, last), name in spans:
        if first != end:
            raise ValueError(f"{name[:100]!r} does not begin where the tensor before it ends")
        end = last
    if end != rest or not spans:
        raise ValueError(f"{len(spans)} tensors of {end} bytes in {rest}")
    return {name: tuple(header[name]["shape"]) for _, name in spans}


def shapes_of(folder: Path, pattern: str, what: str) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors in the files of a folder. Raises InvalidRequestError when one is empty, cut off, or there is none."""
    files = sorted(folder.glob(pattern))
    if not files:
        raise InvalidRequestError(f"{what} {folder}: no {pattern} in it; right are weights as safetensors")
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            found |= tensor_shapes(file.resolve())  # hub caches keep links
        except (ValueError, OSError) as e:
            raise InvalidRequestError(
                f"{what} {file}: {file.stat().st_size} bytes are no whole safetensors file: {e}; fetch or save it again"
            ) from e
    return found


def _header(file: Path) -> tuple[dict[str, Any], int]:
    """What it says of its tensors, and the bytes behind that."""
    size = file.stat().st_size
    with file.open("rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if length > min(LARGEST_HEADER, size - 8):
            raise ValueError("its header is larger than it may be")
        header = strict_json(f.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no object")  # noqa: TRY004 - a stranger's value, no type of ours
    return header, size - 8 - length


def _tensor_span(name: str, entry: Any) -> tuple[int, int]:
    """First byte of a tensor, and the one after its last."""
    try:
        kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, first, last)) and len(shape) <= MOST_DIMENSIONS
        if entry.keys() == {"dtype", "shape", "data_offsets"} and whole and last - first == prod(shape) * SIZES[kind]:
            return first, last
    except (LookupError, TypeError, ValueError, AttributeError):
        pass
    raise ValueError(f"{name[:100]!r} has no dtype, shape and place that agree")


# Base models whose weights are pickled: they are converted in a sandbox, and never loaded as they are.

PICKLED = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin")
INDEX = "pytorch_model.bin.index.json"
PREFERRED = ("model.safetensors", "model.safetensors.index.json")  # what transformers loads before it looks for pickles


def pickled_files(model: Path) -> list[Path]:
    """Files of its pickled weights; none where it has safetensors that would be loaded."""
    if any((model / name).is_file() for name in PREFERRED):
        return []
    return sorted(file for file in model.iterdir() if PICKLED.fullmatch(file.name) and file.is_file())


FORMS = (".safetensors", ".safetensors.index.json")
TABLES = ("auto_mappings.py", "configuration_auto.py")


def check_architecture(model: Path, engine: Engine) -> None:
    """Refuse a model that needs code of its own (`auto_map`), or whose configuration names a pickle. Raises InvalidRequestError.

    One that the engine's transformers knows is loaded by transformers' code, whatever the folder brings along.
    """
    config = read_model_json(model / "config.json")
    named = config.get("transformers_weights")
    if named and not str(named).endswith(FORMS):
        raise InvalidRequestError(
            f"base model {model}: its config.json names {str(named)[:80]!r} as its weights (transformers_weights), which "
            "is never loaded; right is a file of safetensors"
        )
    kind = str(config.get("model_type"))
    known = known_architectures(engine)
    if not known or f'"{kind}"' in known:
        return
    own = " and brings code of its own (auto_map), which is never run" if config.get("auto_map") else ""
    version = engine.packages.get("transformers", "")
    raise InvalidRequestError(
        f"base model {model}: its model_type is {kind!r}, which transformers {version} of the {engine.name} engine does "
        f"not know{own}; right is a model of a type that it knows"
    )


def known_architectures(engine: Engine) -> str:
    """The source of transformers' tables of architectures; "" where it is not found."""
    places = engine.folder.glob("lib/python3*/site-packages/transformers/models/auto")
    files = [place / name for place in places for name in TABLES]
    return "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
