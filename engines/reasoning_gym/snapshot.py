"""List the tasks of the installed release with their options: `python snapshot.py OUT.json`; `tasks.json` is such a list.

{"release", "tasks": {NAME: {"about", "options": {NAME: {"kind", "default", "choices"}}, "answers": whether its items have
answers, "seed_bits", "refused": why none can be made, or ""}}}. `kind` is int, float, bool, str, list, or "" for an option
that no text can give; `none`: whether null may stand there.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import sys
import types
import typing
import warnings
from pathlib import Path
from typing import Any

OURS = ("seed", "size")  # are not for the user to choose
KINDS = {int: "int", float: "float", bool: "bool", str: "str", list: "list", tuple: "list"}
PLAIN = (bool, int, float, str, type(None))
LONGEST = 200
WIDE, NARROW = 62, 31


def kind_of(hint: Any) -> tuple[str, bool, list[Any]]:
    """Kind, whether null may stand there, and choices."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in inside if one is not type(None)]
        return (*kind_of(rest[0])[:1], True, []) if len(rest) == 1 else ("", True, [])
    if origin is typing.Literal:
        return "str", False, list(inside)
    if origin is not None and isinstance(origin, type) and issubclass(origin, tuple | list | typing.Sequence):
        plain = all(one in PLAIN or typing.get_origin(one) is tuple or one is Ellipsis for one in inside)
        return ("list" if plain else ""), False, []
    return KINDS.get(hint, ""), False, []


def plain(value: Any) -> Any:
    """JSON's form of a default; null where it has none."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, PLAIN) else None


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The value without the option."""
    if field.default is not dataclasses.MISSING:
        return plain(field.default)
    return plain(field.default_factory()) if field.default_factory is not dataclasses.MISSING else None


def options_of(config: type) -> dict[str, Any]:
    """Each option with kind and default."""
    hints, found = typing.get_type_hints(config), {}
    for field in dataclasses.fields(config):
        if field.name in OURS:
            continue
        kind, none, choices = kind_of(hints[field.name])
        more = {"choices": choices} if choices else {}
        found[field.name] = {"kind": kind, "none": none, "default": default_of(field), **more}
    return found


def try_task(name: str) -> dict[str, Any]:
    """Make an item with a wide seed, else with a narrow one."""
    import reasoning_gym

    why = ""
    for bits in (WIDE, NARROW):
        try:
            entry = reasoning_gym.create_dataset(name, seed=(1 << bits) - 5, size=20_000)[0]
        except Exception as e:  # noqa: BLE001 - whatever it raises is the reason
            why = " ".join(str(e).split())[:LONGEST]
            continue
        return {"answers": entry["answer"] is not None, "seed_bits": bits, "refused": ""}
    return {"answers": False, "seed_bits": 0, "refused": why}


def main(out: str) -> None:
    """Write what was found."""
    warnings.simplefilter("ignore")
    from reasoning_gym.factory import DATASETS

    tasks = {}
    for name, (dataset, config) in sorted(DATASETS.items()):
        about = " ".join((dataset.__doc__ or "").split("\n\n")[0].split())
        tasks[name] = {"about": about, "options": options_of(config), **try_task(name)}
    release = importlib.metadata.version("reasoning-gym")
    Path(out).write_text(json.dumps({"release": release, "tasks": tasks}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
