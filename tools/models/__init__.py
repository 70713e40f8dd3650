"""Base models: one file an entry (`MODEL` and `fetch`), any folder with weights, any hub id."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.dataset import BaseModelCard
from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import fetch_hub, is_hub_id
from tuneloop.tools.models.pickled import pickled
from tuneloop.tools.registry import entries, unknown
from tuneloop.tools.store import make_whole
from tuneloop.tools.weights import shapes_of

HERE = sys.modules[__name__]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ModelFolder:
    """A base model that is there."""

    name: str
    root: Path


def names() -> list[str]:
    """Registered base models."""
    return list(entries(HERE, "MODEL"))


def card(name: str) -> BaseModelCard:
    """Card of a registered base model."""
    found: BaseModelCard = entries(HERE, "MODEL")[name].MODEL
    return found


def check(name: str) -> None:
    """Refuse what can be seen to be wrong before anything is fetched. Raises SetupError."""
    path = Path(name).expanduser()
    if name in names():
        return
    if path.is_dir():
        _check_folder(path)
    elif path.is_absolute() or name.startswith((".", "~")):
        raise SetupError(f"base model {path}: no such folder")
    elif not is_hub_id(name):
        raise unknown("base model", name, names(), "or a folder, or a hub id org/name")


def _check_folder(path: Path) -> None:
    for wanted in ("config.json", "tokenizer_config.json"):
        if not (path / wanted).is_file():
            raise SetupError(f"base model {path}: {wanted} is missing; right is a folder as save_pretrained writes it")
    if any(path.glob("*.safetensors")):
        shapes_of(path, "*.safetensors", "base model")
    elif not pickled(path):
        raise SetupError(f"base model {path}: no *.safetensors in it, nor pytorch_model*.bin to convert")


def resolve(name: str, settings: Settings, progress: Progress) -> ModelFolder:
    """The model, made or fetched when it is not there yet. Raises SetupError or WorldError."""
    check(name)
    folder = settings.home.models / name
    module = entries(HERE, "MODEL").get(name)
    if module is not None:
        return ModelFolder(name, make_whole(folder, lambda part: module.fetch(part, settings, progress)))
    path = Path(name).expanduser()
    if path.is_dir():
        return ModelFolder(path.name, path.absolute())
    root = fetch_hub(name, "model", folder, settings, progress=progress)
    _check_folder(root)
    return ModelFolder(name, root)
