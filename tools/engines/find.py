"""Finds, lists and removes engines; `ensure_engine` is what everybody calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.core.settings import Settings
from tuneloop.tools.engines.blueprint import BLUEPRINTS, engine_identity
from tuneloop.tools.engines.build import beside, build, clear
from tuneloop.tools.engines.engine import MANIFEST, Engine, read_manifest
from tuneloop.tools.engines.existing import use_existing


def ensure_engine(name: str, settings: Settings, on_progress: Callable[[str, int, int], None] | None = None) -> Engine:
    """The engine `name`, ready: the user's own when a path is set, else built from its lock on first use.

    `on_progress(note, done, total)` is called while it is built. Raises SetupError for an unfit path or a full disk,
    WorldError when a build fails.
    """
    if name not in BLUEPRINTS:
        raise SetupError(f"unknown engine {name!r}; right is one of {', '.join(BLUEPRINTS)}")
    blueprint, home = BLUEPRINTS[name], settings.home
    home.engines.mkdir(parents=True, exist_ok=True)
    given = {"llamafactory": settings.llama_factory_path, "opencompass": settings.opencompass_path}[name]

    def own() -> Engine:
        return build(blueprint, home, on_progress or (lambda *_: None))

    if given is None:
        return own()
    variable = {"llamafactory": "LLAMA_FACTORY_PATH", "opencompass": "OPENCOMPASS_PATH"}[name]
    return use_existing(blueprint, given, variable, home, own)


def built_engine(name: str, settings: Settings) -> Engine | None:
    """The engine that `ensure_engine` would build, when it is there; no path of the user is looked at."""
    blueprint = BLUEPRINTS[name]
    return read_manifest(settings.home.engines.resolve() / f"{name}-{engine_identity(blueprint)}" / MANIFEST)


def list_engines(home: Home) -> list[Engine]:
    """The whole engines of this home, by folder name."""
    found = [read_manifest(path) for path in sorted(home.engines.glob(f"*/{MANIFEST}"))]
    return [engine for engine in found if engine is not None]


def remove_engine(home: Home, name: str) -> list[Path]:
    """Remove the engines called `name` (or the one in the folder `name`), whole or half-built; returns their folders.

    Raises SetupError when there is none or a process uses it.
    """
    folders = [
        path for path in home.engines.resolve().glob("[!.]*-*") if name in (path.name, path.name.rpartition("-")[0])
    ]
    if not folders:
        raise SetupError(f"{home.engines}: no engine {name!r}; `tuneloop engines list` shows what there is")
    for folder in folders:
        if users := used_by(folder):
            raise SetupError(f"{folder}: in use by process {users[0]}; stop its run first (`tuneloop stop`)")
    for folder in folders:
        with exclusive(beside(folder, "lock")):
            (folder / MANIFEST).unlink(missing_ok=True)
            clear(folder)
    return folders


def used_by(folder: Path) -> list[int]:
    """Processes whose command line names a file in `folder`."""
    needle, found = f"{folder}/".encode(), []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if needle in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
