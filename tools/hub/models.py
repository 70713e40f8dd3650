"""Base models: one file an entry (`MODEL` and `fetch`), any folder with weights, any GGUF file, any hub id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.catalog import BaseModelCard
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.setting_values import is_storage_url
from tuneloop.core.settings import Settings
from tuneloop.tools import models
from tuneloop.tools.hub.fetch import fetch_objects, fetch_repository, is_hub_id
from tuneloop.tools.hub.object_storage import check_storage
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.registry import registry_entries, unknown_entry
from tuneloop.tools.weights.formats import pickled_files, shapes_of
from tuneloop.tools.weights.gguf import gguf_file, resolve_gguf
from tuneloop.tools.weights.pickled import resolve_pickled

HERE = models
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ModelFolder:
    """A base model that is there."""

    name: str
    root: Path


def registered_models() -> list[str]:
    """Registered base models."""
    return list(registry_entries(HERE, "MODEL"))


def model_card(name: str) -> BaseModelCard:
    """Card of a registered base model."""
    found: BaseModelCard = registry_entries(HERE, "MODEL")[name].MODEL
    return found


def check_model(name: str) -> None:
    """Refuse what can be seen to be wrong before anything is fetched. Raises InvalidRequestError."""
    path = Path(name).expanduser()
    if (entry := registry_entries(HERE, "MODEL").get(name)) is not None:
        getattr(entry, "check", lambda: None)()
        return
    if path.exists() and gguf_file(path):
        return
    if path.is_dir():
        _check_folder(path)
    elif path.is_absolute() or name.startswith((".", "~")):
        raise InvalidRequestError(f"base model {path}: no such folder or GGUF file")
    elif is_storage_url(name):
        check_storage(name)
    elif not is_hub_id(name):
        known = "or a folder, a GGUF file, a hub id org/name, or s3://bucket/path"
        raise unknown_entry("base model", name, registered_models(), known)


def _check_folder(path: Path) -> None:
    for wanted in ("config.json", "tokenizer_config.json"):
        if not (path / wanted).is_file():
            raise InvalidRequestError(
                f"base model {path}: {wanted} is missing; right is a folder as save_pretrained writes it"
            )
    if any(path.glob("*.safetensors")):
        shapes_of(path, "*.safetensors", "base model")
    elif not pickled_files(path):
        raise InvalidRequestError(f"base model {path}: no *.safetensors in it, nor pytorch_model*.bin to convert")


def resolve_model(name: str, settings: Settings, progress: Progress, *, unpickle: bool = True) -> ModelFolder:
    """The model, made or fetched when it is not there yet; one that is GGUF is converted, pickled weights with `unpickle`.

    Raises InvalidRequestError or InfrastructureError.
    """
    check_model(name)
    found = _place(name, settings, progress)
    if file := gguf_file(found.root):
        return ModelFolder(found.name, resolve_gguf(file, settings, progress))
    if not (name in registered_models() or absolute_path(name).exists()):
        _check_folder(found.root)  # of a hub: nobody has looked at it
    return ModelFolder(found.name, resolve_pickled(found.root, settings, progress)) if unpickle else found


def _place(name: str, settings: Settings, progress: Progress) -> ModelFolder:
    """Where the model lies as it came."""
    folder = settings.home.models / name
    module = registry_entries(HERE, "MODEL").get(name)
    if module is not None:
        root = make_complete(folder, lambda part: module.fetch(part, settings, progress))
        return ModelFolder(name, root)
    path = absolute_path(name)
    if path.exists():
        return ModelFolder(path.stem if path.is_file() else path.name, path)
    if is_storage_url(name):
        return ModelFolder(*fetch_objects(name, "model", settings.home.models, progress))
    return ModelFolder(name, fetch_repository(name, "model", folder, settings, progress=progress))
