"""Finds, lists and removes engines; `ensure_engine` is what everybody calls."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import absolute_path, digest
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.core.settings import Settings
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, PYTHON_RANGE, PYTHONS, USUAL, Blueprint, engine_identity
from tuneloop.tools.engines.build import (
    build_engine,
    check_buildable,
    clear_interrupted,
    make_engines_folder,
    refuse_place,
    sibling_path,
)
from tuneloop.tools.engines.engine import (
    MANIFEST,
    Engine,
    describe_engine,
    inspect_python,
    parse_release,
    read_engine,
    read_manifest,
    unacceptable_versions,
    write_manifest,
)

VARIABLES = {"llamafactory": "LLAMA_FACTORY_PATH", "opencompass": "OPENCOMPASS_PATH"}
HOMES = ".homes"  # links back, to the homes whose runs use these engines

# An environment (venv, conda, a Python) or a checkout that the user brings along, verified before use.


def use_existing(blueprint: Blueprint, given: str, variable: str, home: Home, own: Callable[[], Engine]) -> Engine:
    """The engine in `given`; a checkout without an environment of its own borrows the one that `own` builds.

    Verified once per content: what was found is kept in the home's `engines/`. Raises InvalidRequestError when it is unfit.
    """
    path = absolute_path(given)
    source = checkout_path(blueprint, path)
    python = find_python(path)
    if python is None and source is None:
        raise InvalidRequestError(
            f"{variable}={given}: neither an environment (bin/python) nor a checkout of {blueprint.name} "
            f"(src/{blueprint.module} or {blueprint.module}); right is a folder with one of them, or leave it unset"
        )
    python = python or own().python
    contents = digest(str(path), *packages_fingerprint(python), *(source_files(blueprint, source) if source else ()))
    kept = home.engine_links / f".existing-{blueprint.name}-{contents}.json"
    return read_manifest(kept) or verify_existing(blueprint, python, source, f"{variable}={given}", kept, contents)


def checkout_path(blueprint: Blueprint, path: Path) -> Path | None:
    """The folder to put on PYTHONPATH when `path` is a source tree."""
    for source in (path / "src", path):
        if (source / blueprint.module / "__init__.py").is_file():
            return source
    return None


def find_python(path: Path) -> Path | None:
    """The interpreter in, or named by, `path`."""
    if path.is_file():
        return path
    inside = (path / "bin/python", path / ".venv/bin/python", path / "venv/bin/python")
    return next((p for p in inside if p.exists()), None)


def packages_fingerprint(python: Path) -> list[str]:
    """Changes when packages are installed, removed or replaced."""
    sites = python.parent.parent.glob("lib/python3.*/site-packages/*.dist-info/RECORD")
    return [f"{path} {path.stat().st_mtime_ns}" for path in sorted(sites)]


def source_files(blueprint: Blueprint, source: Path) -> list[str | bytes]:
    """Names and contents of the checkout's Python files."""
    found = sorted((source / blueprint.module).rglob("*.py"))
    return [part for path in found for part in (str(path.relative_to(source)), path.read_bytes())]


def verify_existing(
    blueprint: Blueprint, python: Path, source: Path | None, where: str, kept: Path, contents: str
) -> Engine:
    """Import and check versions, then remember. Raises InvalidRequestError."""
    env = {"PYTHONPATH": str(source)} if source else {}
    try:
        found = inspect_python(python, blueprint.imports, env)
    except InfrastructureError as e:
        raise InvalidRequestError(f"{where}: {e}") from e
    accepts = {k: v for k, v in blueprint.accepts.items() if not (source and k == blueprint.name)}
    problems = [*found.problems, *unacceptable_versions(found, accepts)]
    if parse_release(found.python)[:2] not in PYTHONS:
        problems.insert(0, f"its Python is {found.python}; right is {PYTHON_RANGE}")
    if problems:
        raise InvalidRequestError(f"{where}: {'; '.join(problems)}")
    engine = describe_engine(blueprint.name, python, found, contents, source=source)
    write_manifest(engine, kept)
    return engine


def ensure_engine(name: str, settings: Settings, on_progress: Callable[[str, int, int], None] | None = None) -> Engine:
    """The engine `name`, ready: the user's own when a path is set, else built from its lock on first use.

    `on_progress(note, done, total)` is called while it is built. Raises InvalidRequestError for an unfit path or a full disk,
    InfrastructureError when a build fails.
    """
    if name not in ENGINE_BLUEPRINTS:
        raise InvalidRequestError(f"unknown engine {name!r}; right is one of {', '.join(ENGINE_BLUEPRINTS)}")
    blueprint, home = ENGINE_BLUEPRINTS[name], settings.home
    make_engines_folder(home.engines)
    given = given_path(name, settings)

    def own() -> Engine:
        engine = build_engine(blueprint, home, on_progress or (lambda *_: None))
        link_engine(home, engine.folder)
        return engine

    if given is None:
        return own()
    return use_existing(blueprint, given, VARIABLES[name], home, own)


def given_path(name: str, settings: Settings) -> str | None:
    """The environment or checkout that the user names for an engine; None: it is built."""
    return {"llamafactory": settings.llama_factory_path, "opencompass": settings.opencompass_path}.get(name)


def link_engine(home: Home, folder: Path) -> None:
    """A link in the home to an engine that lies elsewhere: its runs find it there, `clean` keeps it for them."""
    link = home.engine_links / folder.name
    if link.resolve() == folder or (link.exists() and not link.is_symlink()):
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    part = link.with_name(f".{link.name}.{os.getpid()}.{threading.get_ident()}")
    part.symlink_to(folder)
    part.replace(link)
    with contextlib.suppress(OSError):  # it is noted already, or the engines are those of root
        (home.engines / HOMES).mkdir(exist_ok=True)
        (home.engines / HOMES / digest(str(home.root))).symlink_to(home.root)


def linked_homes(home: Home) -> list[Home]:
    """This home and the others that have links to engines of the same folder."""
    others = [path.resolve() for path in sorted(home.engines.glob(f"{HOMES}/*")) if path.is_dir()]
    return [Home(root, home.shared_engines) for root in dict.fromkeys([home.root, *others])]


def find_built_engine(name: str, settings: Settings) -> Engine | None:
    """The engine that `ensure_engine` would build, when it is there; no path of the user is looked at."""
    blueprint = ENGINE_BLUEPRINTS[name]
    return read_engine(settings.home.engines.resolve() / f"{name}-{engine_identity(blueprint)}")


def check_engines(settings: Settings) -> None:
    """Before a run is opened: what every run needs is there, or can be built. Raises InvalidRequestError; makes nothing."""
    for name in USUAL:
        if given_path(name, settings) is None and find_built_engine(name, settings) is None:
            check_buildable(settings.home.engines.absolute())


def list_engines(home: Home) -> list[Engine]:
    """The whole engines, by folder name."""
    found = [read_manifest(path) for path in sorted(home.engines.glob(f"*/{MANIFEST}"))]
    return [engine for engine in found if engine is not None]


def remove_engine(home: Home, name: str) -> list[Path]:
    """Remove the engines called `name` (or the one in the folder `name`), whole or half-built; returns their folders.

    Raises InvalidRequestError when there is none, a process uses it, or the folder is not this user's to write.
    """
    folders = [
        path for path in home.engines.resolve().glob("[!.]*-*") if name in (path.name, path.name.rpartition("-")[0])
    ]
    if not folders:
        raise InvalidRequestError(f"{home.engines}: no engine {name!r}; `tuneloop engines list` shows what there is")
    refuse_place(home.engines)
    for folder in folders:
        if users := processes_using(folder):
            raise InvalidRequestError(f"{folder}: in use by process {users[0]}; stop its run first (`tuneloop stop`)")
    for folder in folders:
        with exclusive(sibling_path(folder, "lock")):
            (folder / MANIFEST).unlink(missing_ok=True)
            clear_interrupted(folder)
    return folders


def processes_using(folder: Path) -> list[int]:
    """Processes whose command line names a file in `folder`."""
    needle, found = f"{folder}/".encode(), []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if needle in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


# The very engine that a run was prepared with, also after an upgrade that brought a newer one.


def find_pinned_engine(name: str, settings: Settings, wanted: str) -> Engine:
    """The engine of identity `wanted` that the home has a link to, or that is built; a user's own one is verified.

    Raises InvalidRequestError in one line when it is gone; nothing is built in its place, other numbers would come from it.
    """
    given = given_path(name, settings)
    if given is not None:
        engine = ensure_engine(name, settings)
        if engine.identity == wanted:
            return engine
        raise InvalidRequestError(
            f"{VARIABLES[name]}={given}: engine {engine.identity}, and the run began with {wanted}; bring it back"
        )
    places = (settings.home.engine_links, settings.home.engines)
    for file in (file for place in places for file in sorted(place.glob(f"{name}-*/{MANIFEST}"))):
        found = read_engine(file.parent.resolve())
        if found is not None and found.identity == wanted:
            return found
    raise InvalidRequestError(
        f"engine {name} ({wanted}), which the run began with, is gone: `tuneloop engines build {name}` makes it again, "
        "with the same tuneloop under the same Python; others make another one"
    )
