"""What an evaluation measures: weights in a folder, an adapter on its base, a served model, or replies that are there already."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings
from tuneloop.tools import models
from tuneloop.tools.evaluating.whole import adapter_config, check_adapter, check_whole
from tuneloop.tools.evaluation import Weights
from tuneloop.tools.model_files import ADAPTER
from tuneloop.tools.models import Progress

ODD = re.compile(r"[^A-Za-z0-9._-]+")
AT = re.compile(r"(?P<model>[^@\s]+)@(?P<base>https?://\S+)")


@dataclass(frozen=True)
class Subject:
    """`name`: as results call it. One of: `weights` here; `served` (name of the model at `base`); `replies`, a file."""

    name: str
    weights: Weights | None = None
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
    SetupError in one line.
    """
    at = AT.fullmatch(word)
    if endpoint or at:
        model, address = (at["model"], at["base"]) if at else (word, str(endpoint))
        return Subject(plain(name or model), served=model, base=address)
    path = Path(word).expanduser()
    if path.suffix == ".jsonl":
        if not path.is_file():
            raise SetupError(f"replies {path}: no such file; right is JSON Lines with id and prediction")
        return Subject(plain(name or path.stem), replies=path.absolute())
    if (path / ADAPTER).is_file() and not any(path.glob("model*.safetensors")):
        return Subject(plain(name or path.absolute().name), weights=adapted(path.absolute(), base, settings, say))
    found = models.resolve(word, settings, say)
    shown = plain(name or found.name)
    check_whole(found.root)
    return Subject(shown, weights=Weights(shown, found.root))


def adapted(adapter: Path, base: str | None, settings: Settings, say: Progress) -> Weights:
    """An adapter on its base, both looked at. Its own tokenizer goes before the base's. Raises SetupError."""
    told = base or adapter_config(adapter).get("base_model_name_or_path")
    if not isinstance(told, str) or not told:
        raise SetupError(f"adapter {adapter}: names no base model; right is --base-model FOLDER|ID")
    try:
        root = models.resolve(told, settings, say).root
    except SetupError as e:
        hint = "" if base else f" (so its {ADAPTER} says); right is --base-model FOLDER|ID"
        raise SetupError(f"adapter {adapter}: {e}{hint}") from e
    memory = settings.home.cache / "digests" if settings.enable_cache else None
    check_adapter(adapter, root, check_whole(root), memory)
    own = all((adapter / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json"))
    return Weights(plain(adapter.name), root, adapter=adapter, tokenizer=adapter if own else root)


def plain(name: str) -> str:
    """A name that may be a file's."""
    return ODD.sub("-", name).strip("-._") or "model"
