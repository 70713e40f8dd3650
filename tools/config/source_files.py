"""The release's own source files and constants, as they are; nothing outside its hparams folder is read."""

from __future__ import annotations

import ast
import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.source_ast import read_enums, read_module

FOLDER = "hparams"
LARGEST = 1 << 20
MANY = 60


def parameter_files(catalog: Catalog) -> dict[str, Path]:
    """Name → path of every file of the hparams folder; links that lead out of it are not among them."""
    folder = (catalog.factory / FOLDER).resolve()
    found = {path.name: path.resolve() for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"}
    return {name: path for name, path in found.items() if path.parent == folder and path.is_file()}


def read_source(catalog: Catalog, name: str) -> tuple[str, str]:
    """Name and whole text of one of those files, by its name alone. Raises ToolError naming the files there are."""
    files = parameter_files(catalog)
    wanted = name if name in files else f"{name.removeprefix(f'{FOLDER}/')}.py".replace(".py.py", ".py")
    if wanted not in files:
        close = difflib.get_close_matches(name, files, n=1)
        hint = f"did you mean {close[0]}?" if close else f"right is one of {', '.join(files)}"
        raise ToolError(f"no file {name[:80]!r} among the parameter files: {hint}")
    if files[wanted].stat().st_size > LARGEST:
        raise ToolError(f"{wanted} is larger than {LARGEST} bytes; describe_parameter shows single parameters")
    return wanted, files[wanted].read_text(encoding="utf-8")


def classes_in(catalog: Catalog, name: str) -> list[str]:
    """Dataclasses of one file."""
    path = parameter_files(catalog)[name]
    return list(_classes(path, path.stat().st_mtime_ns))


@lru_cache(maxsize=64)
def _classes(path: Path, stamp: int) -> tuple[str, ...]:  # noqa: ARG001 - the stamp is part of the key
    return tuple(read_module(path).classes)


def release_constants(catalog: Catalog, name: str | None = None) -> dict[str, Any]:
    """Constants of the release: all with their values, of long ones the number; `name`: that one whole.

    Raises ToolError for an unknown name.
    """
    path = catalog.factory / "extras/constants.py"
    found = dict(_constants(path, path.stat().st_mtime_ns)) | {"TEMPLATES": sorted(catalog.templates)}
    if name is None:
        return {
            key: value if entry_count(value) <= MANY else f"{entry_count(value)} values; ask for {key}"
            for key, value in found.items()
        }
    if name.upper() not in {key.upper() for key in found}:
        close = difflib.get_close_matches(name.upper(), found, n=1)
        raise ToolError(f"no constant {name!r}: {f'did you mean {close[0]}?' if close else ', '.join(found)}")
    return {key: value for key, value in found.items() if key.upper() == name.upper()}


def entry_count(value: Any) -> int:
    """Entries of a list or mapping; 1 of anything else."""
    return len(value) if isinstance(value, list | dict) else 1


@lru_cache(maxsize=4)
def _constants(path: Path, stamp: int) -> tuple[tuple[str, Any], ...]:  # noqa: ARG001 - the stamp is part of the key
    module = read_module(path)
    found: dict[str, Any] = {}
    models: list[str] = []
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if (known := _literal(value)) not in (None, [], {}):
                    found[name] = known
            case ast.Expr(value=ast.Call(func=ast.Name(id="register_model_group"), keywords=keywords)):
                groups = [k.value for k in keywords if k.arg == "models"]
                models += [
                    str(key.value)
                    for group in groups
                    if isinstance(group, ast.Dict)
                    for key in group.keys
                    if isinstance(key, ast.Constant)
                ]
    found |= {name: list(members.values()) for name, members in read_enums([module]).items()}
    return tuple({**found, "SUPPORTED_MODELS": models}.items())


def _literal(node: ast.expr) -> Any:
    """A literal in JSON's form; None where names stand in it."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return sorted(value) if isinstance(value, set) else list(value) if isinstance(value, tuple) else value
