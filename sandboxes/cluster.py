"""Jobs on the nodes of a cluster: what Slurm and Ray have in common. Nodes share this machine's files, or get them by `NodeFiles`.

The scheduler decides when and where; `node_runner.py` shuts the job in there, in the run's own sandbox. Code that agents wrote,
jobs that ask models and warm engines stay on this machine.

The scheduler's word alone is never enough: a job outlives its node's daemon, and a controller forgets. Two files decide.
`claim` is made once, by whoever may act on the attempt: the runner before it starts the job, or this side when it gives the
attempt up. `alive` is a sign of life that a running job's runner gives; a runner that cannot give it ends its job before this
side counts it as lost. So an attempt has one writer at most, and none once the next attempt starts.

Not covered: a runner that is stopped (SIGSTOP) for longer than `LOST` seconds and then goes on.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.file_systems import refuses_locks
from tuneloop.core.files import read_model, write_atomic
from tuneloop.core.job import ALIVE, ATTEMPT, CLAIM, TICKET, Command, EndReason, Exit, JobStatus, Limits, Power
from tuneloop.core.locks import exclusive
from tuneloop.sandboxes.jobs import launch
from tuneloop.sandboxes.local import ROOT, LocalSandbox, check_paths, claim_attempt, last_words, shows_life
from tuneloop.sandboxes.node_group import spans_nodes

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tuneloop.sandboxes.node_runner import main; main(*sys.argv[2:])"
)
OUTPUT = "cluster.out"  # what the runner and its shell print
SUBMITTING = "cluster.lock"  # held by who hands a job over
SUBMIT_SECONDS = 30.0  # in which a job that was handed over shows up, and the end of one that has ended
LOST = 60.0  # seconds without a sign of life after which a job that the scheduler no longer has is lost
BEGINS = 3600.0  # the same of one that runs there and gave no first sign: its node may have to fetch an image
OFTEN, SELDOM = 2.0, 60.0  # seconds between two questions: as a rule, and where no answer comes
NO_STORAGE, OTHER_VERSION = 75, 76  # exit statuses of a runner that cannot use the storage, or not read what is asked
NODE_SAYS = {
    f"exit status {NO_STORAGE}": "its node cannot use TUNELOOP_STORAGE: its credentials, AWS_ENDPOINT_URL and package are its own",
    f"exit status {OTHER_VERSION}": "its node has another version of tuneloop, which cannot read what this one asks of it",
}
UNSEEN = "its node may not see this folder, Python or tuneloop: right is a file system that nodes share"


@dataclass(frozen=True)
class Seen:
    """A job that waits or runs, as the scheduler lists it; `hopeless`: it would wait for ever."""

    number: str
    state: str
    reason: str = ""
    hopeless: bool = False


@dataclass(frozen=True)
class Ended:
    """How a job ended, in the scheduler's words, and what that means.

    memory: it used too much. refused: before it began, it would fail again. queued: it waited too long for a place.
    """

    state: str
    said: str = ""
    means: Literal["memory", "refused", "queued", "lost"] = "lost"


class Scheduler(ABC):
    """What is asked of a cluster; what it lists is asked for seldom and kept, by one object for the whole process."""

    def __init__(self) -> None:
        self.listed: dict[str, Seen] | None = None
        self.next_question, self.pause = 0.0, OFTEN
        self.heard, self.problem = time.monotonic(), ""
        self.asking = threading.Lock()
        self.ended: dict[Path, float] = {}  # jobs that are over, and since when that is known

    def jobs(self, *, now: bool = False) -> dict[str, Seen] | None:
        """Name → job of this user that waits or runs; None while the scheduler does not answer.

        One thread asks at a time; the others are told what was listed before, unless they ask for what is true `now`.
        """
        if not now and time.monotonic() < self.next_question:
            return self.listed
        if not self.asking.acquire(blocking=now):
            return self.listed
        try:
            return self._ask()
        finally:
            self.asking.release()

    def _ask(self) -> dict[str, Seen] | None:
        due = time.monotonic() >= self.next_question
        try:
            self.listed, self.pause = self.list_jobs(), OFTEN
            self.heard = time.monotonic()
            self._cancel_ended(self.listed)
        except InfrastructureError as e:
            self.listed, self.problem = None, str(e)
            self.pause = min(SELDOM, 2 * self.pause) if due else self.pause
        self.next_question = time.monotonic() + self.pause
        return self.listed

    def _cancel_ended(self, listed: Mapping[str, Seen]) -> None:
        """A node that died before it could say that a job had ended, and was back soon, would stay taken until the job's limit."""
        now = time.monotonic()
        for folder, since in [*self.ended.items()]:
            if job_name(folder) not in listed:
                self.ended.pop(folder, None)
            elif now - since >= LOST:
                self.ended[folder] = now
                self.cancel(folder)

    @abstractmethod
    def list_jobs(self) -> dict[str, Seen]:
        """Name → job that waits or runs. Raises InfrastructureError."""

    @abstractmethod
    def ending(self, folder: Path) -> Ended | None:
        """How a job ended, as long as the scheduler remembers."""

    @abstractmethod
    def cancel(self, folder: Path) -> None:
        """Take back a job, if it can be done: one that did not begin would end by itself, for its claim is taken."""

    @abstractmethod
    def offers(self) -> str:
        """What the cluster has, in one line; "" where it does not answer."""

    def forget(self, folder: Path) -> None:  # noqa: B027 - some forget by themselves
        """Remove the record of a job that has ended."""


class NodeFiles(Protocol):
    """Files of jobs for nodes that share none with this machine. All raise InfrastructureError."""

    def check(self) -> None:
        """They can be sent at all. Raises InvalidRequestError."""

    def send(self, folder: Path, command: Command) -> float:
        """Make a job and all that it reads available to nodes; seconds that fetching and sending may take there."""

    def words(self, folder: Path) -> tuple[str, ...]:
        """Arguments for Python that run the job on a node, without sandbox and memory."""

    def claim(self, folder: Path, who: str) -> bool:
        """As `claim_attempt`."""

    def bring(self, folder: Path) -> bool:
        """Bring into `folder` and the job's own folders what its node has sent, in the background, `exit.json` last.

        True while it is not known whether there is more.
        """

    def stop(self, folder: Path, grace: float) -> None:
        """Ask the node to end the job."""

    def forget(self, folder: Path) -> None:
        """Nothing of the job is brought any more."""


class ClusterSandbox(ABC):
    """The sandbox `inner`, on nodes. `memory`: bytes that a job may use at most."""

    name: ClassVar[str]  # of the scheduler, for people
    executor: ClassVar[str]
    look: ClassVar[str]  # where people see its jobs
    scheduler: Scheduler
    patience: ClassVar[float] = math.inf  # seconds that a job may wait for a node while the scheduler does not answer
    prelude: ClassVar[str] = ""  # what a node's shell does first
    container: tuple[str, ...] = ()  # what starts the runner in an image there
    files: NodeFiles | None = None  # None: nodes share this machine's

    def __init__(self, inner: LocalSandbox, memory: int | None) -> None:
        self.inner, self.memory = inner, memory
        self.kind: str = inner.kind
        self.powers: frozenset[Power] = inner.powers
        self.stop_seconds = LOST + 60.0
        self.taken_back: dict[Path, float] = {}

    @property
    def note(self) -> str:
        """Where jobs run, and what the sandbox there says."""
        return f"jobs run on nodes of {self.name}{f'; {self.inner.note}' if self.inner.note else ''}"

    def check_reachable(self, folder: Path) -> None:
        """The scheduler answers and would take a job. Raises InvalidRequestError."""
        self.inner.check_reachable(folder)
        if self.files:
            self.files.check()
        elif folder.is_dir() and refuses_locks(folder):
            raise InvalidRequestError(
                f"--executor {self.executor}: {folder} lies on a file system without flock; right is one that has it"
            )
        try:
            self.check_accepted()
        except InfrastructureError as e:
            there = self.scheduler.offers()
            raise InvalidRequestError(f"--executor {self.executor}: {e}{f'; there is {there}' if there else ''}") from e

    @abstractmethod
    def check_accepted(self) -> None:
        """The cluster would take a job as the user's settings ask for it. Raises InfrastructureError."""

    @abstractmethod
    def submit(self, folder: Path, command: Command) -> str:
        """Hand the job over; its number there. Raises InfrastructureError with the scheduler's own words."""

    def start(self, folder: Path, command: Command) -> None:
        """Hand it over, or find it handed over. Raises InfrastructureError with the scheduler's own words."""
        if command.generated or command.endpoint or command.forks or command.beside:
            self.inner.start(folder, command)
            return
        check_paths(command)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive(folder / SUBMITTING):
            if not (folder / "exit.json").exists() and not number_of(folder):
                self._start(folder, command)

    def _start(self, folder: Path, command: Command) -> None:
        there = self.scheduler.jobs(now=True)
        if there is None:
            raise InfrastructureError(f"{self.scheduler.problem}, then `tuneloop resume`")
        write_atomic(folder / "command.json", command.model_copy(update={"worker": ""}).model_dump_json(indent=1))
        if job_name(folder) in there:
            write_atomic(folder / TICKET, there[job_name(folder)].number)
            return
        self._hand_over(folder, command)

    def _hand_over(self, folder: Path, command: Command) -> None:
        if self.files:
            command = with_more_time(command, self.files.send(folder, command))
        write_atomic(folder / TICKET, "")
        try:
            number = self.submit(folder, command)
        except InfrastructureError:
            if self.claim(folder, "not submitted"):  # it may have come through all the same: it shall not begin
                (folder / TICKET).unlink()
            raise
        write_atomic(folder / TICKET, number)
        self.scheduler.next_question = 0.0

    def script(self, folder: Path) -> str:
        """What a node's shell runs."""
        how = (self.kind, str(self.memory or ""))
        if self.files:
            return f"{self.prelude}exec {shlex.join((sys.executable, '-I', *self.files.words(folder), *how))}\n"
        words = (*self.container, sys.executable, "-I", "-c", BOOT, str(ROOT), str(folder), *how)
        return f"exec >>{shlex.quote(str(folder / OUTPUT))} 2>&1\n{self.prelude}exec {shlex.join(words)}\n"

    def claim(self, folder: Path, who: str) -> bool:
        """Whether the attempt is ours now."""
        files = self._files_of(folder)
        return files.claim(folder, who) if files else claim_attempt(folder, who)

    def _files_of(self, folder: Path) -> NodeFiles | None:
        """What the job was sent by. Raises InfrastructureError where the settings name it no more."""
        if not (folder / ATTEMPT).exists():
            return None
        if self.files is None:
            raise InfrastructureError(
                f"{folder.name} was sent to its node through object storage: set TUNELOOP_NODE_FILES and TUNELOOP_STORAGE "
                "as they were, then `tuneloop resume`"
            )
        return self.files

    def poll(self, folder: Path) -> JobStatus:
        """From the folder, and from what the scheduler said last; asks it every few seconds.

        Raises InfrastructureError for a job that would wait for ever.
        """
        if spans_nodes(folder) and (folder / ALIVE).exists() and self._shows_life(folder):
            return JobStatus(state="running")  # also once it is over: the other nodes' part of it may not be yet
        over = (folder / "exit.json").exists()
        if over:
            self.scheduler.ended.setdefault(folder, time.monotonic())
        if over or not (folder / TICKET).exists():
            return self.inner.poll(folder, elsewhere=not (folder / CLAIM).exists())  # one of a node was settled
        files = self._files_of(folder)
        if files and files.bring(folder):
            return JobStatus(state="running")
        listed = self.scheduler.jobs()
        seen = (listed or {}).get(job_name(folder))
        if seen and seen.hopeless and not (folder / "stop").exists():
            raise InfrastructureError(
                f"{self.name} holds {folder.name}, job {seen.number}: {seen.reason}; see {self.look}"
            )
        if listed is None and not (folder / ALIVE).exists():
            if time.monotonic() - self.scheduler.heard > self.patience:
                raise InfrastructureError(f"{self.scheduler.problem}, then `tuneloop resume`")
            return JobStatus(state="running")
        if seen is None and not self._shows_life(folder):
            return self._settle(folder)
        if seen and self._is_gone(folder, seen):
            self._take_back(folder)
        return JobStatus(state="running")

    def _is_gone(self, folder: Path, seen: Seen) -> bool:
        """Whether it runs only by the scheduler's word; one that waits or is suspended has all its time before it."""
        running, begun = seen.state == "RUNNING", (folder / ALIVE).exists() or (folder / CLAIM).exists()
        sign = newest_change(folder) if begun else 1.0
        return not shows_life(folder / TICKET, sign if running else 0.0, LOST if begun else BEGINS) and running

    def _take_back(self, folder: Path) -> None:
        """Its node came back so fast that the scheduler has not missed it: it lists the job until it is told."""
        if time.monotonic() - self.taken_back.get(folder, -LOST) >= LOST:
            self.taken_back[folder] = time.monotonic()
            self.scheduler.cancel(folder)

    def _shows_life(self, folder: Path) -> bool:
        """Whether it was handed over or ended a moment ago, or its runner gave a sign; by this machine's clock alone.

        One that has ended gets that moment too: on a network file system its end may be seen later than it was written.
        """
        return shows_life(folder, newest_change(folder), LOST if (folder / ALIVE).exists() else SUBMIT_SECONDS)

    def _settle(self, folder: Path) -> JobStatus:
        """The scheduler no longer has it and it gives no sign: how it ended, else lost."""
        if not (folder / "exit.json").exists():  # its runner may have written it since
            ended = self.scheduler.ending(folder)
            if ended and ended.means == "queued" and self._waits_again(folder, ended):
                return JobStatus(state="running")
            never_begun = self.claim(folder, "given up")
            if never_begun:
                self.scheduler.cancel(folder)
            if ended:
                self._write_down(folder, ended, never_begun)
            (folder / TICKET).unlink(missing_ok=True)  # nobody has it any more
            self.scheduler.forget(folder)
            if files := self._files_of(folder):
                files.forget(folder)
        return self.inner.poll(folder, elsewhere=False)

    def _waits_again(self, folder: Path, ended: Ended) -> bool:
        """Hand over anew what the scheduler put out of its queue. Raises InfrastructureError where no place can come."""
        if any((folder / name).exists() for name in (CLAIM, "stop")):
            return False
        try:
            self.check_accepted()
        except InfrastructureError as e:
            raise InfrastructureError(f"{self.name} held {folder.name}: {ended.said.partition('. ')[0]}; {e}") from e
        with exclusive(folder / SUBMITTING):  # others who poll may have done so
            there = self.scheduler.jobs(now=True)
            if there is not None and job_name(folder) not in there:
                self._hand_over(folder, read_model(folder / "command.json", Command))
        return True

    def _write_down(self, folder: Path, ended: Ended, never_begun: bool) -> None:
        if ended.means == "memory":
            write_end(folder, "memory")
            return
        said = last_words(folder / OUTPUT) or NODE_SAYS.get(ended.said, ended.said)
        why = f"; before it began: {said or UNSEEN}" if never_begun else ""
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"{self.name}: the job ended as {ended.state}{why}\n")
        if never_begun and ended.means == "refused":
            write_end(folder, "failed_to_start", 127)

    def stop(self, folder: Path, grace: float = 5.0) -> None:
        """Ask its supervisor, or take it back where it did not begin. Returns at once."""
        if not (folder / TICKET).exists():
            self.inner.stop(folder, grace)
            return
        if (folder / "exit.json").exists():
            return
        write_atomic(folder / "stop", str(grace))
        files = self._files_of(folder)
        if files:
            files.stop(folder, grace)
        if self.poll(folder).state != "running":
            return
        if self.claim(folder, "stopped"):
            write_end(folder, "stopped", -15)
            self.scheduler.cancel(folder)
            if files:
                files.forget(folder)


def newest_change(folder: Path) -> float:
    """When the job was handed over or claimed, or its runner gave its last sign, by the file system's clock."""
    files = [folder / name for name in (TICKET, CLAIM, ALIVE)]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def number_of(folder: Path) -> str:
    """The job's number at the scheduler; "" where none is known."""
    return (folder / TICKET).read_text() if (folder / TICKET).exists() else ""


def job_name(folder: Path) -> str:
    """A job's name at the scheduler: the same for the same folder."""
    return f"tuneloop-{hashlib.sha256(os.path.realpath(folder).encode()).hexdigest()[:20]}"


def with_more_time(command: Command, seconds: float) -> Command:
    """As a scheduler is asked for it; the job's own limit is that of `command.json`."""
    if command.limits.seconds is None:
        return command
    longer = command.limits.model_copy(update={"seconds": command.limits.seconds + seconds})
    return command.model_copy(update={"limits": longer})


def write_end(folder: Path, reason: EndReason, code: int = -9) -> None:
    """`exit.json` of a job that nobody else can end any more."""
    write_atomic(folder / "exit.json", Exit(code=code, reason=reason, seconds=0.0).model_dump_json(), keep=True)


PROOF_SECONDS = 60.0  # that `doctor` waits for a node


def prove_cluster(sandbox: ClusterSandbox, home: Path) -> str:
    """Run a job of a moment on a node: what the cluster has, and that its node sees `home`.

    Raises:
        InvalidRequestError: The cluster is not there, refuses the job, or the node cannot do it, with the cure.
    """
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home, ignore_cleanup_errors=True) as place:
        work = Path(place, "work")
        work.mkdir()
        sandbox.check_reachable(work)
        command = Command(argv=("/bin/true",), cwd=str(work), write=(str(work),), limits=Limits(seconds=60))
        folder = launch(sandbox, Path(place), "proof", command)
        end = time.monotonic() + PROOF_SECONDS
        try:
            while (status := sandbox.poll(folder)).state == "running" and time.monotonic() < end:
                time.sleep(0.1)
            seen = (sandbox.scheduler.jobs(now=True) or {}).get(job_name(folder))
        finally:
            sandbox.stop(folder)  # nothing of it stays in the queue
        if status.state == "running":
            said = f"{seen.state} ({seen.reason})" if seen else "no word"
            return f"{sandbox.scheduler.offers()}; a job waited longer than {PROOF_SECONDS:.0f} s: {said}"
        if status.exit is None or not status.exit.ok:
            said = last_words(folder / "log.txt") or last_words(folder / OUTPUT) or "it left nothing"
            shared = (
                f"tuneloop at {sys.prefix}"
                if sandbox.files
                else f"a file system that nodes share for {home}, {sys.prefix}"
            )
            raise InvalidRequestError(
                f"a job on a node did not come back ({said}); right is {shared} and the engines, and a sandbox that works there"
            )
        while job_name(folder) in (sandbox.scheduler.jobs(now=True) or {}) and time.monotonic() < end:
            time.sleep(0.1)  # so that the scheduler keeps no record of it
        node = (folder / CLAIM).read_text().split()[0]
        return f"{sandbox.scheduler.offers()}; a job ran on {node} in sandbox {sandbox.kind}"
