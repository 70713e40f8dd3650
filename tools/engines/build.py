"""Builds an engine from its lock.

At its final place, because virtual environments do not move: their scripts name their own path. The proof that it is
whole is `manifest.json`, written last; a folder without it is never believed, and cleared by the next build. A file
lock lets one builder in; the others wait and find the engine made.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, write_json
from tuneloop.core.job import Command
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.sandboxes.jobs import launch, log_tail, stop_and_wait, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.blueprint import BUILDERS, Blueprint, engine_identity, interpreter
from tuneloop.tools.engines.engine import (
    MANIFEST,
    Engine,
    describe_engine,
    inspect_python,
    read_manifest,
    run_json_script,
    write_manifest,
)

Progress = Callable[[str, int, int], None]
SANDBOX = ProcessSandbox()
HASHED = ("--require-hashes", "--no-deps", "--no-build-isolation")
PIP = ("-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
PASSED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HOME", "PATH", "TMPDIR", "NETRC")
PASSED_PREFIXES = ("PIP_", "XDG_")
NOT_PASSED = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV"}


def build_engine(blueprint: Blueprint, home: Home, progress: Progress) -> Engine:
    """The engine, found whole or built now. Raises InvalidRequestError without room, InfrastructureError when a step fails."""
    folder = home.engines.resolve() / f"{blueprint.name}-{engine_identity(blueprint)}"
    if engine := read_manifest(folder / MANIFEST):
        return engine
    with exclusive(sibling_path(folder, "lock")):
        if engine := read_manifest(folder / MANIFEST):
            return engine
        clear_interrupted(folder)
        check_room(blueprint, home)
        install_packages(blueprint, folder, progress)
        return verify_and_write_manifest(blueprint, folder, progress)


def sibling_path(folder: Path, what: str) -> Path:
    """`.<engine>.lock` and `.<engine>.jobs`."""
    return folder.with_name(f".{folder.name}.{what}")


def clear_interrupted(folder: Path) -> None:
    """End what an interrupted builder left running, then remove what it left."""
    jobs = sibling_path(folder, "jobs")
    for job in jobs.glob("*.[0-9]*"):
        if SANDBOX.poll(job).state == "running":
            stop_and_wait(SANDBOX, job)
    shutil.rmtree(jobs, ignore_errors=True)
    if folder.exists():
        shutil.rmtree(folder)


def check_room(blueprint: Blueprint, home: Home) -> None:
    """Before anything costs. Raises InvalidRequestError."""
    need = blueprint.room * (4 if blueprint.device == "cuda" else 1)
    free = shutil.disk_usage(home.engines).free
    if free < need:
        raise InvalidRequestError(
            f"{home.engines}: engine {blueprint.name} needs {need >> 30} GiB, {free >> 30} GiB are free"
        )


def install_packages(blueprint: Blueprint, folder: Path, progress: Progress) -> None:
    """An empty environment, what builds source, everything pinned by hash, torch with what it needs, the stand-ins."""
    pip = (str(folder / "bin/python"), *PIP)
    progress(f"{blueprint.name}: environment", 0, 2 * len(blueprint.pins))
    run_build_step(blueprint, folder, "venv", (str(interpreter()[1]), "-m", "venv", str(folder)), progress)
    run_build_step(blueprint, folder, "builders", (*pip, *HASHED, "-r", str(BUILDERS)), progress)
    run_build_step(blueprint, folder, "packages", (*pip, *HASHED, "-r", str(blueprint.lock)), progress)
    if blueprint.torch.is_file():
        run_build_step(blueprint, folder, "torch", (*pip, "-r", str(blueprint.torch)), progress)
    for source in blueprint.stubs:
        target = site_packages(folder) / Path(*source.relative_to(blueprint.folder).parts[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def run_build_step(blueprint: Blueprint, folder: Path, name: str, argv: tuple[str, ...], progress: Progress) -> None:
    """One job of the build. Raises InfrastructureError with pip's last words; they stay on disk."""
    home, jobs = str(folder.parent), sibling_path(folder, "jobs")
    command = Command(argv=argv, cwd=home, env=pip_environment(dict(os.environ)), write=(home,), network=True)
    command = command.model_copy(update={"key": digest(*argv)})
    job = launch(SANDBOX, jobs, name, command)
    total, note = 2 * len(blueprint.pins), f"{blueprint.name}: {name}"
    try:
        done = wait(SANDBOX, job, lambda: progress(note, min(count_packages(folder, jobs), total), total))
    except BaseException:
        SANDBOX.stop(job, grace=1)
        raise
    if not done.ok:
        reason = next((line for line in reversed(log_tail(job).splitlines()) if "ERROR" in line), log_tail(job, 1))
        raise InfrastructureError(
            f"engine {blueprint.name} was not built, step {name}: {reason.strip()} (log: {job}/log.txt)"
        )


def pip_environment(env: dict[str, str]) -> dict[str, str]:
    """What pip may need of the user's environment: its own settings, certificates, proxies, home."""
    wanted = {k for k in env if k in PASSED or k.startswith(PASSED_PREFIXES) or k.lower().endswith("_proxy")}
    return {name: env[name] for name in sorted(wanted - NOT_PASSED)}


def count_packages(folder: Path, jobs: Path) -> int:
    """Packages that pip has resolved plus packages that lie there."""
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in jobs.glob("*.1/log.txt")]
    resolved = sum(log.count("\nCollecting ") + log.startswith("Collecting ") for log in logs)
    return resolved + sum(1 for _ in folder.glob("lib/python3.*/site-packages/*.dist-info"))


def site_packages(folder: Path) -> Path:
    """Where an environment's packages lie."""
    return next(folder.glob("lib/python3.*/site-packages"))


def verify_and_write_manifest(blueprint: Blueprint, folder: Path, progress: Progress) -> Engine:
    """Import everything once, then write the manifest. Raises InfrastructureError when the engine does not work."""
    total = 2 * len(blueprint.pins)
    progress(f"{blueprint.name}: first import", total, total)
    found = inspect_python(folder / "bin/python", blueprint.imports)
    if found.problems:
        raise InfrastructureError(f"engine {blueprint.name} does not work: {'; '.join(found.problems)}")
    for script, name in blueprint.writes.items():
        write_json(folder / name, run_json_script(folder / "bin/python", blueprint.folder / script))
    os.sync()  # a manifest that survives a power cut while packages do not would be a lie
    engine = describe_engine(blueprint.name, folder / "bin/python", found, engine_identity(blueprint))
    write_manifest(engine, folder / MANIFEST)
    shutil.rmtree(sibling_path(folder, "jobs"))  # their commands may name a private index
    progress(f"{blueprint.name}: ready {time.strftime('%H:%M:%S')}", total, total)
    return engine
