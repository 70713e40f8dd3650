"""An environment (venv, conda, a Python) or a checkout that the user brings along, verified before use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.files import digest
from tuneloop.core.layout import Home
from tuneloop.tools.engines.blueprint import Blueprint
from tuneloop.tools.engines.engine import Engine, describe, read_manifest, write_manifest
from tuneloop.tools.engines.verify import inspect, unacceptable


def use_existing(blueprint: Blueprint, given: str, variable: str, home: Home, own: Callable[[], Engine]) -> Engine:
    """The engine in `given`; a checkout without an environment of its own borrows the one that `own` builds.

    Verified once per content: what was found is kept in `engines/`. Raises SetupError when it is unfit.
    """
    path = Path(given).expanduser().absolute()
    source = checkout(blueprint, path)
    python = own_python(path)
    if python is None and source is None:
        raise SetupError(
            f"{variable}={given}: neither an environment (bin/python) nor a checkout of {blueprint.name} "
            f"(src/{blueprint.module} or {blueprint.module}); right is a folder with one of them, or leave it unset"
        )
    python = python or own().python
    contents = digest(str(path), *fingerprint(python), *(source_files(blueprint, source) if source else ()))
    kept = home.engines / f".existing-{blueprint.name}-{contents}.json"
    return read_manifest(kept) or verified(blueprint, python, source, f"{variable}={given}", kept, contents)


def checkout(blueprint: Blueprint, path: Path) -> Path | None:
    """The folder to put on PYTHONPATH when `path` is a source tree."""
    for source in (path / "src", path):
        if (source / blueprint.module / "__init__.py").is_file():
            return source
    return None


def own_python(path: Path) -> Path | None:
    """The interpreter in, or named by, `path`."""
    if path.is_file():
        return path
    inside = (path / "bin/python", path / ".venv/bin/python", path / "venv/bin/python")
    return next((p for p in inside if p.exists()), None)


def fingerprint(python: Path) -> list[str]:
    """Changes when packages are installed, removed or replaced."""
    sites = python.parent.parent.glob("lib/python3.*/site-packages/*.dist-info/RECORD")
    return [f"{path} {path.stat().st_mtime_ns}" for path in sorted(sites)]


def source_files(blueprint: Blueprint, source: Path) -> list[str | bytes]:
    """Names and contents of the checkout's Python files."""
    found = sorted((source / blueprint.module).rglob("*.py"))
    return [part for path in found for part in (str(path.relative_to(source)), path.read_bytes())]


def verified(blueprint: Blueprint, python: Path, source: Path | None, where: str, kept: Path, contents: str) -> Engine:
    """Import and check versions, then remember. Raises SetupError."""
    env = {"PYTHONPATH": str(source)} if source else {}
    try:
        found = inspect(python, blueprint.imports, env)
    except WorldError as e:
        raise SetupError(f"{where}: {e}") from e
    accepts = {k: v for k, v in blueprint.accepts.items() if not (source and k == blueprint.name)}
    problems = [*found.problems, *unacceptable(found, accepts)]
    if problems:
        raise SetupError(f"{where}: {'; '.join(problems)}")
    engine = describe(blueprint.name, python, found, contents, source=source)
    write_manifest(engine, kept)
    return engine
