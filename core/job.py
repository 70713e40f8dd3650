"""One detached command whose whole life is written in one folder."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Literal, Protocol, Self

from pydantic import ConfigDict, Field

from tuneloop.core.frozen import Frozen

Power = Literal["time", "memory", "processes", "disk", "log", "network", "files", "secrets"]
EndReason = Literal["finished", "timeout", "memory", "processes", "disk", "stopped", "failed_to_start"]

# In the folder of a job on a cluster: its number there, its runner's sign of life, who acts on the attempt, and where the attempt
# lies in object storage if it was sent through one.
TICKET, ALIVE, CLAIM, ATTEMPT = "cluster.txt", "alive", "claim", "attempt"


class Limits(Frozen):
    """What a job may use; None means no limit. Bytes and seconds."""

    model_config = ConfigDict(extra="forbid")

    seconds: float | None = Field(None, gt=0)
    memory: int | None = Field(None, gt=0, description="resident bytes of all processes together")
    processes: int | None = Field(None, gt=0)
    disk: int | None = Field(None, gt=0, description="bytes below the writable folders")
    grace: float = Field(5.0, ge=0, description="seconds from SIGTERM to SIGKILL when the time is over")
    log: int = Field(8 << 20, gt=0, description="bytes of log kept; the middle is cut")


class Command(Frozen):
    """What is asked of a sandbox; written first, as `command.json`."""

    model_config = ConfigDict(extra="forbid")

    argv: tuple[str, ...] = Field(min_length=1)
    cwd: str = Field(description="absolute, inside one of `write`")
    env: dict[str, str] = {}
    read: tuple[str, ...] = Field((), description="absolute paths visible read-only, same path inside and outside")
    write: tuple[str, ...] = Field((), description="absolute paths visible and writable")
    network: bool = False
    generated: bool = Field(False, description="runs code that a model or a policy wrote")
    limits: Limits = Limits()
    spans: bool = Field(False, description="may run on several nodes at once, where the scheduler is asked for them")
    beside: bool = Field(False, description="stays on the orchestrator's machine, for another job asks it")
    forks: bool = Field(False, description="a warm engine: listens in `cwd`, forks jobs, each of which shuts itself in")
    worker: str = Field("", description="socket of a warm engine that may fork this job; `argv` is its cold form")
    endpoint: str = Field(
        "", description="socket of the models' proxy that `argv` asks, where a job can make no socket"
    )
    key: str = Field(
        "", description="hash of everything that can change the result; a finished job with another key is stale"
    )


class Exit(Frozen):
    """How a job ended; written last, as `exit.json`, by atomic rename."""

    model_config = ConfigDict(extra="forbid")

    code: int = Field(description="exit status; negative: ended by that signal")
    reason: EndReason
    seconds: float
    peak_memory: int = Field(0, description="bytes, the largest sum seen over all processes; shared pages count whole")
    cpu: float = Field(0.0, description="CPU seconds of all its processes; 0: nobody counted")

    @property
    def ok(self) -> bool:
        """Ended by itself with status 0."""
        return self.reason == "finished" and self.code == 0

    @property
    def killed(self) -> bool:
        """Ended from outside, by a signal or on request, which says nothing about the command."""
        return self.reason == "stopped" or (self.reason == "finished" and self.code in (-SIGKILL, -SIGTERM))


class JobStatus(Frozen):
    """`running` while the lock is held, `over` when `exit.json` is there, `lost` when neither, `absent` before a start."""

    state: Literal["absent", "running", "over", "lost"]
    exit: Exit | None = None

    @property
    def killed(self) -> bool:
        """Whether the job or its supervisor was ended from outside, which says nothing about the command."""
        return self.state == "lost" or (self.exit is not None and self.exit.killed)


class JobReport(JobStatus):
    """A job's state with its progress; `total` 0: not known yet."""

    done: int = 0
    total: int = 0
    unit: str = "steps"
    note: str = ""

    @classmethod
    def of(cls, status: JobStatus, **facts: Any) -> Self:
        """The job's state with the other fields."""
        return cls(state=status.state, exit=status.exit, **facts)


class Sandbox(Protocol):
    """Where jobs run. Starting a job that runs or is over does nothing.

    `stop_seconds`: within which one that is stopped ends, its grace aside.
    """

    kind: str
    powers: frozenset[Power]
    stop_seconds: float

    @property
    def note(self) -> str:
        """What a run should know of this kind, in one line; "" for nothing."""
        ...

    def check_reachable(self, folder: Path) -> None:
        """Before anything is built: jobs can get to `folder`. Raises InvalidRequestError with the cure."""
        ...

    def start(self, folder: Path, command: Command) -> None:
        """Write `command.json` into `folder` and start the job detached. Raises InfrastructureError when it cannot."""
        ...

    def poll(self, folder: Path) -> JobStatus:
        """Read the job's state from its folder; never blocks."""
        ...

    def stop(self, folder: Path, grace: float = 5.0) -> None:
        """Ask the job's supervisor to end the whole job: SIGTERM, after `grace` seconds SIGKILL. Returns at once."""
        ...
