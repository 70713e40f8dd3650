"""Jobs by name: `jobs/<name>.<attempt>/`, launched once however often and by however many it is asked for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import read_model
from tuneloop.core.job import Command, Exit, Sandbox
from tuneloop.core.locks import exclusive

NAME = re.compile(r"[A-Za-z0-9_-]+")
TAIL_BYTES = 1 << 18
FULL = ("No space left on device", "Disk quota exceeded", "database or disk is full")


def keep_command(command: Command) -> Command:
    """What `ready` is by default."""
    return command


def launch(
    sandbox: Sandbox,
    jobs: Path,
    name: str,
    command: Command,
    *,
    retry: bool = False,
    ready: Callable[[Command], Command] = keep_command,
) -> Path:
    """The folder of the one job `name` with this command's key.

    A running or finished attempt with the same key is returned as it is; a lost or killed one gets a successor; one
    with another key is stopped, waited for, and gets a successor. With `retry` a failed one gets a successor too.
    `ready` finishes the command, only when it is started. Raises InfrastructureError when nothing can be started.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"job name {name!r}; right is letters, digits, - and _")
    with exclusive(jobs / f".{name}.lock"):
        last = newest_attempt(jobs, name)
        if last is not None and sandbox.poll(last).state != "absent":
            if is_same_job(sandbox, last, command, retry):
                return last
            remove_partial_exit(last)
            last = jobs / f"{name}.{attempt_number(last) + 1}"
        folder = last or jobs / f"{name}.1"
        sandbox.start(folder, ready(command))
        return folder


def remove_partial_exit(folder: Path) -> None:
    """What a supervisor was writing when it was killed; nothing of the attempt lives any more."""
    for part in folder.glob("*.part"):
        part.unlink(missing_ok=True)


def is_same_job(sandbox: Sandbox, folder: Path, command: Command, retry: bool) -> bool:
    """Whether `folder` is this command's job, running or over; a stranger that runs is ended."""
    status = sandbox.poll(folder)
    if same_command(read_command(folder), command):
        end = status.exit
        return status.state == "running" or (
            end is not None and is_conclusive(end, retry) and not failed_for_disk(folder, end)
        )
    if status.state == "running":
        stop_and_wait(sandbox, folder)
    return False


def is_conclusive(end: Exit, retry: bool) -> bool:
    """Whether an end says something of the command: one that was killed, or never began, says nothing."""
    return end.ok if retry else not end.killed and end.reason != "failed_to_start"


def failed_for_disk(folder: Path, end: Exit) -> bool:
    """Whether it failed because the disk was full, which says nothing of the command either."""
    return not end.ok and is_disk_full(log_tail(folder))


def is_disk_full(text: str) -> bool:
    """Whether these are the words of a program that met a full disk."""
    return any(words in text for words in FULL)


def same_command(one: Command, other: Command) -> bool:
    """By key; commands without one by everything but where they are forked."""
    if one.key or other.key:
        return one.key == other.key
    return one.model_copy(update={"worker": ""}) == other.model_copy(update={"worker": ""})


def stop_and_wait(sandbox: Sandbox, folder: Path) -> None:
    """Return when nothing of the job lives. Raises InfrastructureError when it does not end."""
    sandbox.stop(folder)
    deadline = time.monotonic() + sandbox.stop_seconds
    while sandbox.poll(folder).state == "running":
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"{folder}: the job does not end within {sandbox.stop_seconds:.0f} s of being told to"
            )
        pause(0.05)


def wait(sandbox: Sandbox, folder: Path, tick: Callable[[], None] | None = None, every: float = 0.2) -> Exit:
    """Block until the job is over, calling `tick` every `every` seconds. Raises InfrastructureError when the job is lost."""
    while True:
        status = sandbox.poll(folder)
        if status.exit is not None:
            return status.exit
        if status.state != "running":
            raise InfrastructureError(
                f"{folder}: the job is {status.state}; its supervisor was killed or never started"
            )
        if tick is not None:
            tick()
        pause(every)


def newest_attempt(jobs: Path, name: str) -> Path | None:
    """The last attempt's folder."""
    found = [path for path in jobs.glob(f"{name}.*") if path.suffix[1:].isdecimal()]
    return max(found, key=attempt_number, default=None)


def attempt_number(folder: Path) -> int:
    """Its number: 1, 2, and so on."""
    return int(folder.suffix[1:])


def read_command(folder: Path) -> Command:
    """What was asked. Raises FileNotFoundError before a start."""
    return read_model(folder / "command.json", Command)


def log_tail(folder: Path, lines: int = 40) -> str:
    """The last lines of the job's log, "" when there is none."""
    try:
        with (folder / "log.txt").open("rb") as f:
            f.seek(max(os.fstat(f.fileno()).st_size - TAIL_BYTES, 0))
            text = f.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
