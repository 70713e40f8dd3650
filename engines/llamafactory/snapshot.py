"""Writes every parameter as this environment's classes have it: `python snapshot.py OUT.json`; exact where source text is not."""

from __future__ import annotations

import dataclasses
import enum
import importlib.metadata
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

from llamafactory.hparams import (
    DataArguments,
    FinetuningArguments,
    GeneratingArguments,
    ModelArguments,
    TrainingArguments,
)

CLASSES = (ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments)


def plain(value: Any) -> Any:
    """JSON's form of a default; what has none becomes its text."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The value that a config without this key gets; None for a key that must be written."""
    if field.default is not dataclasses.MISSING:
        return plain(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return plain(field.default_factory())
    return None


def choices_of(kind: Any) -> list[Any]:
    """Values of a Literal or an enum inside a type, in order."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [member.value for member in kind]
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [choice for part in typing.get_args(kind) for choice in choices_of(part)]
    return []


def main(out: str) -> None:
    """Write versions and parameters."""
    parameters: dict[str, Any] = {}
    for cls in CLASSES:
        kinds = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            parameters[field.name] = {
                "default": default_of(field),
                "choices": choices_of(kinds[field.name]),
                "settable": field.init,
            }
    versions = {name: importlib.metadata.version(name) for name in ("llamafactory", "transformers")}
    Path(out).write_text(json.dumps({"versions": versions, "parameters": parameters}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
