"""On a node: runs one job in its sandbox, gives signs of life, and ends it when it can give none.

Started by a scheduler as `main(FOLDER, KIND)`, with the folder on a file system that the orchestrator shares.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_model, write_atomic
from tuneloop.core.job import Command, Exit
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.local import ALIVE, LocalSandbox
from tuneloop.sandboxes.process_tree import adopt_orphans, descendants, send_signal

CLAIM = "claim"  # in a job's folder: made by who acts on the attempt
BEAT, FENCE = 5.0, 30.0  # seconds between two signs; after so many without one the job is ended
LOOK = 0.2
# Whether a job may see a GPU is for the scheduler to say.
GIVEN = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def claim_attempt(folder: Path, who: str) -> bool:
    """Whether the attempt is ours now: the first one to ask has it for ever."""
    try:
        handle = os.open(folder / CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as f:
        f.write(who)
        f.flush()
        os.fsync(handle)
    return True


def give_sign(folder: Path, last: float) -> float:
    """Touch `alive` when it is time; when the last sign was given. Ends everything where none was for too long."""
    now = time.monotonic()
    if now - last < BEAT:
        return last
    try:
        os.utime(folder / ALIVE)
    except OSError:
        if now - last < FENCE:
            return last
        end_all()
        sys.exit(1)
    return now


def end_all() -> None:
    """SIGKILL everything below this process until nothing is left: supervisors are ours, for orphans come to us."""
    while below := descendants(os.getpid()):
        send_signal(below, signal.SIGKILL)
        while below:
            try:
                below = [pid for pid in below if os.waitpid(pid, os.WNOHANG)[0] == 0]
            except ChildProcessError:
                break
            time.sleep(0.01)


def as_scheduled(command: Command) -> Command:
    """With the devices and the memory that the scheduler gave."""
    devices = {name: os.environ[name] for name in GIVEN if name in os.environ and name not in command.env}
    limits = command.limits
    if mib := os.environ.get("SLURM_MEM_PER_NODE"):
        granted = int(mib) << 20
        limits = limits.model_copy(update={"memory": min(granted, limits.memory or granted)})
    return command.model_copy(update={"env": {**command.env, **devices}, "limits": limits})


def main(place: str, kind: str) -> None:
    """Run the job to its end; exit status 0 when that is written down."""
    folder = Path(place)
    if not claim_attempt(folder, f"{os.uname().nodename} {os.environ.get('SLURM_JOB_ID', '')}"):
        return
    adopt_orphans()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    (folder / ALIVE).touch()
    last = time.monotonic()
    try:
        sandbox = open_sandbox(kind)  # type: ignore[arg-type]
        if not isinstance(sandbox, LocalSandbox):
            raise InvalidRequestError(f"sandbox {kind} does not run on nodes")
        command = read_model(folder / "command.json", Command)
        if (folder / "stop").exists():  # it would be taken for a leftover
            asked.append(signal.SIGTERM)
        sandbox.start_as(folder, command, as_scheduled(command))
        while sandbox.poll(folder).state == "running":
            last = give_sign(folder, last)
            if asked:
                sandbox.stop(folder, command.limits.grace)
                asked.clear()
            time.sleep(LOOK)
    except (InvalidRequestError, InfrastructureError) as e:
        (folder / "log.txt").write_text(f"{os.uname().nodename}: {e}\n")
        write_atomic(folder / "exit.json", Exit(code=127, reason="failed_to_start", seconds=0.0).model_dump_json())
    end_all()  # a supervisor that was killed leaves its job to us
    (folder / ALIVE).unlink(missing_ok=True)
    sys.exit(0 if (folder / "exit.json").exists() else 1)
