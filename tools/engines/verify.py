"""Does an environment work? A job imports what matters in it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import WorldError
from tuneloop.core.files import read_json
from tuneloop.core.job import Command, Limits, Sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.blueprint import BLUEPRINTS
from tuneloop.tools.engines.engine import Engine, Found
from tuneloop.tools.paths import ENGINES

SECONDS = 600.0
TRUSTED = ProcessSandbox()
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}


def inspect(
    python: Path, modules: Iterable[str], env: Mapping[str, str] | None = None, sandbox: Sandbox = TRUSTED
) -> Found:
    """Import `modules` under `python` in a job. Raises WorldError when that Python does not even run."""
    given = answer(python, ENGINES / "check.py", modules, env, sandbox)
    return Found(**{**given, "problems": tuple(given["problems"])})


def answer(
    python: Path,
    script: Path,
    arguments: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    sandbox: Sandbox = TRUSTED,
) -> Any:
    """The JSON that a script writes: `python script OUT arguments…`, run as a job. Raises WorldError when it fails."""
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
            raise WorldError(f"{python} does not run ({done.reason}, status {done.code}): {log_tail(job, 3)}")
        return read_json(out)


def verify_engine(engine: Engine) -> list[str]:
    """Import everything that its jobs import and compare versions with the manifest; [] when all is well."""
    blueprint = BLUEPRINTS.get(engine.name)
    try:
        found = inspect(engine.python, blueprint.imports if blueprint else (), engine.env)
    except WorldError as e:
        return [str(e)]
    return [*found.problems, *differences(engine, found)]


def differences(engine: Engine, found: Found) -> list[str]:
    """Packages that are not those of the manifest."""
    return [
        f"{name} is {found.packages.get(name, 'gone')}; it was {version} when the engine was made"
        for name, version in engine.packages.items()
        if found.packages.get(name) != version
    ]


def unacceptable(found: Found, accepts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Versions that are not known to work."""
    problems = []
    for package, (low, high) in accepts.items():
        version = found.packages.get(package)
        if version is None:
            problems.append(f"{package} is not installed")
        elif not release(low) <= release(version) < release(high):
            problems.append(f"{package} is {version}; right is at least {low} and below {high}")
    return problems


def release(version: str) -> tuple[int, ...]:
    """`0.9.5.dev0` → (0, 9, 5)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
