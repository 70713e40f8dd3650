"""Builds an engine from its lock.

At its final place, because virtual environments do not move: their scripts name their own path. The proof that it is
whole is `manifest.json`, written last; a folder without it is never believed, and cleared by the next build. A file
lock lets one builder in; the others wait and find the engine made.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
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
    ELSEWHERE,
    MANIFEST,
    OTHERS,
    Engine,
    describe_engine,
    inspect_python,
    read_engine,
    run_json_script,
    writable_by,
    write_manifest,
)

Progress = Callable[[str, int, int], None]
SANDBOX = ProcessSandbox()
UV = (sys.executable, "-I", str(Path(__file__).with_name("run_uv.py")))
HASHED = ("--require-hashes", "--no-deps", "--no-build-isolation")
CERTIFICATES = {"SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
PASSED = {"NETRC", "HOME", "PATH", "TMPDIR", *CERTIFICATES}
PASSED_PREFIXES = ("PIP_", "UV_", "XDG_")
# Another Python or project is not meant; links into uv's cache would lead out of the engine.
NOT_PASSED = {"UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT", "UV_WORKING_DIR", "UV_LINK_MODE"}
LONGEST_REASON = 500  # characters


def build_engine(blueprint: Blueprint, home: Home, progress: Progress) -> Engine:
    """The engine, found whole or built now.

    Raises InvalidRequestError without room or where others may write, InfrastructureError when a step fails.
    """
    folder = home.engines.resolve() / f"{blueprint.name}-{engine_identity(blueprint)}"
    if engine := read_engine(folder):
        return engine
    refuse_place(home.engines.resolve())
    with exclusive(sibling_path(folder, "lock")):
        if engine := read_engine(folder):
            return engine
        clear_interrupted(folder)
        check_room(blueprint, home)
        install_packages(blueprint, folder, progress)
        return verify_and_write_manifest(blueprint, folder, progress)


def make_engines_folder(folder: Path) -> None:
    """Create it; everybody may walk through what is new, as jobs of another user do. Raises InvalidRequestError."""
    try:
        for path in reversed([folder, *folder.parents]):
            if not path.exists():
                path.mkdir(exist_ok=True)
                path.chmod(0o755)
    except OSError as e:
        raise InvalidRequestError(f"{folder}: {e.strerror}; right is {ELSEWHERE}") from e


def refuse_place(folder: Path) -> None:
    """Before engines are built or removed: a folder that this user cannot write, or another one can. Raises InvalidRequestError."""
    if fault := writable_by(folder.stat()):
        raise InvalidRequestError(f"{folder}: {fault} can write it; right is `chmod go-w` there, or {ELSEWHERE}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidRequestError(f"{folder} cannot be written; right is {ELSEWHERE}")


def check_buildable(folder: Path) -> None:
    """What `make_engines_folder` and `refuse_place` would refuse; makes nothing. Raises InvalidRequestError."""
    if folder.is_dir():
        refuse_place(folder)
        return
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))  # noqa: PTH110 - closed ones are passed
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidRequestError(f"{folder} cannot be made; right is {ELSEWHERE}")


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
    install = (*UV, "pip", "install", "--python", str(folder / "bin/python"))
    progress(f"{blueprint.name}: environment", 0, len(blueprint.pins))
    venv = (*UV, "venv", "--no-project", "--python", str(interpreter()[1]), str(folder))
    run_build_step(blueprint, folder, "venv", venv, progress)
    run_build_step(blueprint, folder, "builders", (*install, *HASHED, "-r", str(BUILDERS)), progress)
    run_build_step(blueprint, folder, "packages", (*install, *HASHED, "-r", str(blueprint.lock)), progress)
    if blueprint.torch.is_file():
        cpu = ("--torch-backend=cpu",) if blueprint.device == "cpu" else ()
        run_build_step(blueprint, folder, "torch", (*install, *cpu, "-r", str(blueprint.torch)), progress)
    for source in blueprint.stubs:
        target = site_packages(folder) / Path(*source.relative_to(blueprint.folder).parts[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a file may be a hard link into uv's cache
        shutil.copyfile(source, target)


def run_build_step(blueprint: Blueprint, folder: Path, name: str, argv: tuple[str, ...], progress: Progress) -> None:
    """One job of the build. Raises InfrastructureError with uv's last words; they stay on disk."""
    jobs = sibling_path(folder, "jobs")
    jobs.mkdir(exist_ok=True)
    # Not the engine's folder: after each step its files would be synced one by one; all are, once, before the manifest.
    place = {"cwd": str(jobs), "write": (str(jobs),)}
    command = Command(argv=argv, env=installer_environment(dict(os.environ)), network=True, **place)
    command = command.model_copy(update={"key": digest(*argv)})
    job = launch(SANDBOX, jobs, name, command)
    total, note = len(blueprint.pins), f"{blueprint.name}: {name}"
    try:
        done = wait(SANDBOX, job, lambda: progress(note, min(count_packages(folder), total), total))
    except BaseException:
        SANDBOX.stop(job, grace=1)
        raise
    if not done.ok:
        raise InfrastructureError(
            f"engine {blueprint.name} was not built, step {name}: {failure(log_tail(job))} (log: {job}/log.txt)"
        )


def failure(log: str) -> str:
    """The error of uv without its frame, on one line."""
    text = re.sub(r"[\s×├│╰─▶]+", " ", log)
    return text[max(text.find("error: "), 0) :].strip()[:LONGEST_REASON]


def installer_environment(env: dict[str, str]) -> dict[str, str]:
    """What uv may need of the user's environment: pip's and its own settings, certificates, proxies, home."""
    wanted = {k for k in env if k in PASSED or k.startswith(PASSED_PREFIXES) or k.lower().endswith("_proxy")}
    return {name: env[name] for name in sorted(wanted - NOT_PASSED)}


def count_packages(folder: Path) -> int:
    """Packages that lie there."""
    return sum(1 for _ in folder.glob("lib/python3.*/site-packages/*.dist-info"))


def site_packages(folder: Path) -> Path:
    """Where an environment's packages lie."""
    return next(folder.glob("lib/python3.*/site-packages"))


def take_from_others(folder: Path) -> None:
    """Nobody else may write an engine; files that came out of uv's cache have the umask of who filled it."""
    for parent, _, names in os.walk(folder):
        for path in (parent, *(f"{parent}/{name}" for name in names)):
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode) and mode & OTHERS:
                os.chmod(path, stat.S_IMODE(mode) & ~OTHERS)  # noqa: PTH101 - a hundred thousand paths


def verify_and_write_manifest(blueprint: Blueprint, folder: Path, progress: Progress) -> Engine:
    """Import everything once, then write the manifest. Raises InfrastructureError when the engine does not work."""
    total = len(blueprint.pins)
    progress(f"{blueprint.name}: first import", total, total)
    found = inspect_python(folder / "bin/python", blueprint.imports)
    if found.problems:
        raise InfrastructureError(f"engine {blueprint.name} does not work: {'; '.join(found.problems)}")
    for script, name in blueprint.writes.items():
        write_json(folder / name, run_json_script(folder / "bin/python", blueprint.folder / script))
    take_from_others(folder)
    os.sync()  # a manifest that survives a power cut while packages do not would be a lie
    engine = describe_engine(blueprint.name, folder / "bin/python", found, engine_identity(blueprint))
    write_manifest(engine, folder / MANIFEST)
    shutil.rmtree(sibling_path(folder, "jobs"))  # their commands may name a private index
    progress(f"{blueprint.name}: ready {time.strftime('%H:%M:%S')}", total, total)
    return engine
