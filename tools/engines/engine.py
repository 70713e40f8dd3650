"""An engine as jobs see it, and the manifest that proves that it is whole."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.job import Command, Limits, Sandbox
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.jobs.machine import ENGINES

MANIFEST = "manifest.json"
OTHERS = stat.S_IWGRP | stat.S_IWOTH
ELSEWHERE = "FT_ENGINES_DIR=FOLDER, a folder of your own"


@dataclass(frozen=True)
class Engine:
    """`readable`: every path a job must see to run it; `env`: what its jobs need besides; `packages`: name → version."""

    name: str
    folder: Path
    python: Path
    bin: Path
    readable: tuple[str, ...]
    version: str
    identity: str
    env: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineReport:
    """What `engines/check.py` saw in an environment; `torch` is a hash of torch's installed files."""

    python: str
    base_prefix: str
    packages: Mapping[str, str]
    torch: str
    problems: tuple[str, ...]


def describe_engine(
    name: str, python: Path, found: EngineReport, *ingredients: str, source: Path | None = None
) -> Engine:
    """The engine around `python`; `source` is a checkout whose package is used instead of the installed one."""
    folder = python.parent.parent
    links = [str(link) for link in python_links(python) if not link.is_relative_to(folder)]
    readable = [str(folder), found.base_prefix, *links, *([str(source)] if source else [])]
    return Engine(
        name=name,
        folder=folder,
        python=python,
        bin=python.parent,
        readable=tuple(dict.fromkeys(readable)),
        version=found.packages.get(name, "unknown"),
        identity=digest(name, found.python, found.torch, *ingredients),
        env={"PYTHONPATH": str(source)} if source else {},
        packages=found.packages,
    )


def python_links(python: Path) -> Iterable[Path]:
    """The links between an environment's `python` and the real one."""
    path = python
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        if path.is_symlink():
            yield path


def write_manifest(engine: Engine, path: Path) -> None:
    """Last, atomically: from now on the engine is believed."""
    paths = {"folder": str(engine.folder), "python": str(engine.python), "bin": str(engine.bin)}
    plain = {"name": engine.name, "version": engine.version, "identity": engine.identity}
    rest = {"readable": engine.readable, "env": dict(engine.env), "packages": dict(engine.packages)}
    write_json(path, {**plain, **paths, **rest})


def read_manifest(path: Path) -> Engine | None:
    """None when there is none or its interpreter is gone; a moved environment is not believed, its scripts name paths."""
    try:
        given: dict[str, Any] = read_json(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    for key in ("folder", "python", "bin"):
        given[key] = Path(given[key])
    engine = Engine(**{**given, "readable": tuple(given["readable"])})
    # os.path: an interpreter in a folder that is closed to this user is none either
    return engine if all(map(os.path.exists, (str(engine.python), *engine.readable))) else None


def read_engine(folder: Path) -> Engine | None:
    """The whole engine in `folder`, else None. Raises InvalidRequestError when another user can write it."""
    engine = read_manifest(folder / MANIFEST)
    if engine is not None and (fault := other_writer(folder)):
        raise InvalidRequestError(f"{fault}; right is `tuneloop engines remove {folder.name}`, or {ELSEWHERE}")
    return engine


def other_writer(folder: Path) -> str:
    """Who else than this user and root can write an engine, and where; "" when nobody can."""
    places = (folder.parent, folder, folder / MANIFEST, folder / "bin", *folder.glob("lib/python3.*/site-packages"))
    return next((f"{p}: {fault} can write it" for p in places if p.exists() and (fault := writable_by(p.stat()))), "")


def writable_by(found: os.stat_result) -> str:
    """Who else than this user and root can write a file or folder; "" when nobody can."""
    if found.st_uid not in (0, os.geteuid()):
        return f"user {found.st_uid}"
    return "another user" if found.st_mode & OTHERS else ""


# Does an environment work? A job imports what matters in it.

LARGEST_ANSWER = 1 << 26  # bytes
SECONDS = 600.0
TRUSTED = ProcessSandbox()
QUIET = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
    "DISABLE_VERSION_CHECK": "1",  # LLaMA-Factory refuses a newer datasets, which Python 3.14 needs; jobs say the same
}


def inspect_python(
    python: Path, modules: Iterable[str], env: Mapping[str, str] | None = None, sandbox: Sandbox = TRUSTED
) -> EngineReport:
    """Import `modules` under `python` in a job. Raises InfrastructureError when that Python does not even run."""
    given = run_json_script(python, ENGINES / "check.py", modules, env, sandbox)
    return EngineReport(**{**given, "problems": tuple(given["problems"])})


def run_json_script(
    python: Path,
    script: Path,
    arguments: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    sandbox: Sandbox = TRUSTED,
) -> Any:
    """The JSON that a script writes: `python script OUT arguments…`, run as a job. Raises InfrastructureError when it fails."""
    with tempfile.TemporaryDirectory(prefix="tuneloop-check-") as work:
        out = Path(work) / "found.json"
        command = Command(
            argv=(str(python), str(script), str(out), *arguments),
            cwd=work,
            env={**QUIET, **(env or {})},
            read=(str(script.parent),),
            write=(work,),
            limits=Limits(seconds=SECONDS),
        )
        job = launch(sandbox, Path(work) / "jobs", "check", command)
        done = wait(sandbox, job, every=0.05)
        if not done.ok or not out.exists():
            raise InfrastructureError(f"{python} does not run ({done.reason}, status {done.code}): {log_tail(job, 3)}")
        try:
            return read_untrusted_json(out, LARGEST_ANSWER)
        except ValueError as e:
            raise InfrastructureError(f"{python} does not run: {script.name} left no answer ({e})") from e


def verify_engine(engine: Engine) -> list[str]:
    """Import everything that its jobs import and compare versions with the manifest; [] when all is well."""
    blueprint = ENGINE_BLUEPRINTS.get(engine.name)
    try:
        found = inspect_python(engine.python, blueprint.imports if blueprint else (), engine.env)
    except InfrastructureError as e:
        return [str(e)]
    fault = [other_writer(engine.folder)] if blueprint else []
    return [*filter(None, fault), *found.problems, *package_differences(engine, found)]


def package_differences(engine: Engine, found: EngineReport) -> list[str]:
    """Packages that are not those of the manifest."""
    return [
        f"{name} is {found.packages.get(name, 'gone')}; it was {version} when the engine was made"
        for name, version in engine.packages.items()
        if found.packages.get(name) != version
    ]


def unacceptable_versions(found: EngineReport, accepts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Versions that are not known to work."""
    problems = []
    for package, (low, high) in accepts.items():
        version = found.packages.get(package)
        if version is None:
            problems.append(f"{package} is not installed")
        elif not parse_release(low) <= parse_release(version) < parse_release(high):
            problems.append(f"{package} is {version}; right is at least {low} and below {high}")
    return problems


def parse_release(version: str) -> tuple[int, ...]:
    """`0.9.5.dev0` → (0, 9, 5)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
