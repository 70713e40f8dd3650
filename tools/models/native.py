"""Whether an engine knows a base model's architecture and loads its safetensors: code that it brings along is never run."""

from __future__ import annotations

import json
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.tools.engines import Engine

FORMS = (".safetensors", ".safetensors.index.json")
TABLES = ("auto_mappings.py", "configuration_auto.py")


def check_native(model: Path, engine: Engine) -> None:
    """Refuse a model that needs code of its own (`auto_map`), or whose configuration names a pickle. Raises SetupError.

    One that the engine's transformers knows is loaded by transformers' code, whatever the folder brings along.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    named = config.get("transformers_weights")
    if named and not str(named).endswith(FORMS):
        raise SetupError(
            f"base model {model}: its config.json names {str(named)[:80]!r} as its weights (transformers_weights), which "
            "is never loaded; right is a file of safetensors"
        )
    kind = str(config.get("model_type"))
    known = known_types(engine)
    if not known or f'"{kind}"' in known:
        return
    own = " and brings code of its own (auto_map), which is never run" if config.get("auto_map") else ""
    version = engine.packages.get("transformers", "")
    raise SetupError(
        f"base model {model}: its model_type is {kind!r}, which transformers {version} of the {engine.name} engine does "
        f"not know{own}; right is a model of a type that it knows"
    )


def known_types(engine: Engine) -> str:
    """The source of transformers' tables of architectures; "" where it is not found."""
    places = engine.folder.glob("lib/python3*/site-packages/transformers/models/auto")
    files = [place / name for place in places for name in TABLES]
    return "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
