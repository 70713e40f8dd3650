"""What an evaluation measures: weights in a folder, an adapter on its base, a served model, or replies that are there already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.evaluation.item_sets import ModelWeights
from tuneloop.tools.hub import models
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.weights.fingerprints import cached_digest
from tuneloop.tools.weights.formats import shapes_of
from tuneloop.tools.weights.pickled import WEIGHTS as ADAPTER_WEIGHTS
from tuneloop.tools.weights.pickled import resolve_adapter
from tuneloop.tools.weights.trained_files import ADAPTER, CONFIG, LARGEST_TEXT

# What of a model's folder can be seen to be wrong before anything is loaded: headers of weights, and nothing more, are read.

LORA = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])\.(?:[^.]+\.)?weight")
LAYER = re.compile(r"(?:^|\.)((?:layers|layer|h|blocks)\.\d+\..+)$")


def check_model_folder(folder: Path) -> dict[str, tuple[int, ...]]:
    """A folder with whole weights, configuration and tokenizer. Raises InvalidRequestError."""
    for name in (CONFIG, "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise InvalidRequestError(
                f"model {folder}: {name} is missing; right is a folder as save_pretrained writes it"
            )
    if (folder / ADAPTER).is_file():
        raise InvalidRequestError(
            f"model {folder}: holds an adapter and whole weights; right is a folder with one of them"
        )
    found = shapes_of(folder, "*.safetensors", "model")
    for index in folder.glob("*.safetensors.index.json"):
        if missing := _indexed(index) - found.keys():
            raise InvalidRequestError(
                f"model {folder}: {len(missing)} tensors of {index.name} are missing, e.g. {min(missing)}"
            )
    return found


def _indexed(index: Path) -> set[str]:
    try:
        return set(read_untrusted_json(index.resolve(), LARGEST_TEXT)["weight_map"])
    except (ValueError, LookupError, TypeError) as e:
        raise InvalidRequestError(f"{index}: cannot be read: {e}") from e


def adapter_config(adapter: Path) -> dict[str, Any]:
    """Its configuration. Raises InvalidRequestError."""
    try:
        config = read_untrusted_json((adapter / ADAPTER).resolve(), LARGEST_TEXT)
    except (FileNotFoundError, ValueError) as e:
        raise InvalidRequestError(f"adapter {adapter}: {ADAPTER} cannot be read: {e}") from e
    if not isinstance(config, dict):
        raise InvalidRequestError(f"adapter {adapter}: {ADAPTER} is no object")
    return config


def check_adapter(
    adapter: Path, base: Path, base_shapes: Mapping[str, tuple[int, ...]], memory: Path | None = None
) -> None:
    """An adapter that was trained on this base. Raises InvalidRequestError.

    By the weights of the folder that it names, where that is there, and by the shape of every layer it sits on: an adapter
    of another size or architecture is always refused, one of another model of the same shape where it says so.
    """
    config, shapes = adapter_config(adapter), shapes_of(adapter, ADAPTER_WEIGHTS, "adapter")
    told = Path(str(config.get("base_model_name_or_path") or "-")).expanduser()
    there = told.is_absolute() and told.is_dir() and told.resolve() != base.resolve()
    if there and weights_digests(told, memory) != weights_digests(base, memory):
        raise InvalidRequestError(f"adapter {adapter}: was trained on {told}, which is another model than {base}")
    known = {layer_name(name.removesuffix(".weight")): shape for name, shape in base_shapes.items()}
    for name, shape in shapes.items():
        match = LORA.fullmatch(name)
        if match is None or (module := layer_name(match["module"])) is None:
            continue
        if module not in known:
            raise InvalidRequestError(
                f"adapter {adapter}: sits on {match['module']}, which {base} has not: it is of another model"
            )
        wanted = known[module]
        width = shape[1] if match["half"] == "A" else shape[0]
        if not is_quantized(base) and len(wanted) == len(shape) == 2 and width not in wanted:
            raise InvalidRequestError(
                f"adapter {adapter}: {match['module']} is {width} wide there and {' x '.join(map(str, wanted))} in {base}: "
                "it is of another model"
            )


def weights_digests(model: Path, memory: Path | None) -> set[str]:
    """Hashes of its files of weights."""
    return {cached_digest(path, memory) for path in model.glob("*.safetensors")}


def layer_name(name: str) -> str | None:
    """A module's name from its layer's number on, None outside of layers: what stands before differs by release."""
    found = LAYER.search(name)
    return found[1] if found else None


def is_quantized(base: Path) -> bool:
    """Whether its weights are packed, and have other shapes than its layers."""
    return "quantization_config" in (base / CONFIG).read_text(encoding="utf-8")


ODD = re.compile(r"[^A-Za-z0-9._-]+")
AT = re.compile(r"(?P<model>[^@\s]+)@(?P<base>https?://\S+)")


@dataclass(frozen=True)
class Subject:
    """`name`: as results call it. One of: `weights` here; `served` (name of the model at `base`); `replies`, a file."""

    name: str
    weights: ModelWeights | None = None
    served: str = ""
    base: str = ""
    replies: Path | None = None

    @property
    def described(self) -> str:
        """What it is, for the record."""
        if self.served:
            return f"served:{self.served}"
        if self.replies:
            return f"replies:{self.replies}"
        assert self.weights is not None, "a subject is one of these"
        on = f" on {self.weights.path}" if self.weights.adapter else ""
        return f"{self.weights.adapter or self.weights.path}{on}"


def find_subject(
    word: str,
    settings: Settings,
    say: Progress,
    *,
    base: str | None = None,
    endpoint: str | None = None,
    name: str = "",
) -> Subject:
    """What `word` means: a folder, a registered name, a hub id, a file of replies, or `NAME@URL`; with `endpoint` a name there.

    `base`: the model below an adapter, where its own configuration names none that is here. Nothing is loaded. Raises
    InvalidRequestError in one line.
    """
    at = AT.fullmatch(word)
    if endpoint or at:
        model, address = (at["model"], at["base"]) if at else (word, str(endpoint))
        return Subject(file_safe_name(name or model), served=model, base=address)
    path = absolute_path(word)
    if path.suffix == ".jsonl":
        if not path.is_file():
            raise InvalidRequestError(f"replies {path}: no such file; right is JSON Lines with id and prediction")
        return Subject(file_safe_name(name or path.stem), replies=path)
    if (path / ADAPTER).is_file() and not any(path.glob("model*.safetensors")):
        return Subject(file_safe_name(name or path.name), weights=find_adapter(path, base, settings, say))
    found = models.resolve_model(word, settings, say)
    shown = file_safe_name(name or found.name)
    check_model_folder(found.root)
    return Subject(shown, weights=ModelWeights(shown, found.root))


def find_adapter(adapter: Path, base: str | None, settings: Settings, say: Progress) -> ModelWeights:
    """An adapter on its base, both looked at. Its own tokenizer goes before the base's. Raises InvalidRequestError."""
    told = base or adapter_config(adapter).get("base_model_name_or_path")
    if not isinstance(told, str) or not told:
        raise InvalidRequestError(f"adapter {adapter}: names no base model; right is --base-model FOLDER|ID")
    try:
        root = models.resolve_model(told, settings, say).root
    except InvalidRequestError as e:
        hint = "" if base else f" (so its {ADAPTER} says); right is --base-model FOLDER|ID"
        raise InvalidRequestError(f"adapter {adapter}: {e}{hint}") from e
    memory = settings.home.cache / "digests" if settings.enable_cache else None
    whole = resolve_adapter(adapter, settings, say)
    check_adapter(whole, root, check_model_folder(root), memory)
    own = all((whole / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json"))
    return ModelWeights(file_safe_name(adapter.name), root, adapter=whole, tokenizer=whole if own else root)


def file_safe_name(name: str) -> str:
    """A name that may be a file's."""
    return ODD.sub("-", name).strip("-._") or "model"
