"""Jobs on the nodes of a Slurm cluster, whose file system this machine shares.

Slurm decides when and where; `node_runner.py` shuts the job in there, in the run's own sandbox. Code that agents wrote, jobs that
ask models and warm engines stay on this machine.

Slurm's word alone is never enough: a step outlives its node's daemon, and a controller forgets. Two files decide.
`claim` is made once, by whoever may act on the attempt: the runner before it starts the job, or this side when it gives the
attempt up. `alive` is a sign of life that a running job's runner gives; a runner that cannot give it ends its job before this
side counts it as lost. So an attempt has one writer at most, and none once the next attempt starts.

Not covered: a runner that is stopped (SIGSTOP) for longer than `LOST` seconds and then goes on.
"""

from __future__ import annotations

import getpass
import hashlib
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.file_systems import refuses_locks
from tuneloop.core.files import write_atomic
from tuneloop.core.job import ALIVE, CLAIM, TICKET, Command, EndReason, Exit, JobStatus, Limits, Power
from tuneloop.sandboxes.jobs import launch
from tuneloop.sandboxes.local import ROOT, LocalSandbox, check_paths, claim_attempt, last_words

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tuneloop.sandboxes.node_runner import main; main(*sys.argv[2:])"
)
SUBMIT_SECONDS = 30.0  # in which a job that was handed over shows up, and the end of one that has ended
LOST = 60.0  # seconds without a sign of life after which a job that Slurm no longer has is lost
ASK_SECONDS = 10.0  # for an answer of the controller
OFTEN, SELDOM = 2.0, 60.0  # seconds between two questions: as a rule, and where no answer comes
SLACK = 300.0  # seconds beyond a job's own limit: its supervisor ends it first
OURS = (
    "job-name", "output", "error", "export", "requeue", "no-requeue", "wrap", "array", "dependency", "chdir", "parsable",
    "signal", "open-mode", "input", "hold", "test-only", "wait", "uid", "gid", "get-user-env", "bcast", "export-file", "help",
    "version", "usage", "clusters", "cluster-constraint",
)  # fmt: skip
OPTION = re.compile(r"--([a-z][a-z-]*)(=.+)?")
UNSEEN = "its node may not see this folder, Python or tuneloop: right is a file system that nodes share"
FINAL = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "OUT_OF_MEMORY",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
)
# A job that waits for one of these waits for ever.
HOPELESS = re.compile(r"Partition\w*Limit|PartitionConfig|BadConstraints|JobHeld|(QOS|Assoc)Max\w*PerJob")
# Answers depend on the user's options alone, not on variables that filter lists or add options.
VARIABLES = re.compile(r"(SLURM|SBATCH|SQUEUE|SINFO|SCANCEL|SCONTROL|SALLOC|SRUN)_(?!CONF|JWT).*")


@dataclass(frozen=True)
class Seen:
    """A job as the controller lists it."""

    number: str
    state: str
    reason: str


class Controller:
    """Slurm's commands, with a limit of time; what it lists is asked for seldom and kept."""

    def __init__(self) -> None:
        self.listed: dict[str, Seen] | None = None
        self.next_question, self.pause = 0.0, OFTEN

    def jobs(self, *, now: bool = False) -> dict[str, Seen] | None:
        """Name → job of this user that waits or runs; None while the controller does not answer."""
        if not now and time.monotonic() < self.next_question:
            return self.listed
        try:
            text = self.ask("squeue", "--noheader", "--all", f"--user={os.getuid()}", "--format=%i|%j|%T|%r")
        except InfrastructureError:
            self.listed, self.pause = None, min(SELDOM, 2 * self.pause)
        else:
            rows = [line.split("|", 3) for line in text.splitlines() if line.count("|") >= 3]
            # One that is being cleared away may be so for days; it lives if it gives signs.
            seen = {name: Seen(number, state, why) for number, name, state, why in rows if state != "COMPLETING"}
            self.listed, self.pause = seen, OFTEN
        self.next_question = time.monotonic() + self.pause
        return self.listed

    def final_state(self, number: str) -> str:
        """How a job ended, as long as the controller remembers; "" for one that did not, or is forgotten."""
        if not number.isdecimal():  # scontrol would show everybody's
            return ""
        try:
            text = self.ask("scontrol", "--oneliner", "show", "job", number)
        except InfrastructureError:
            return ""
        found = re.search(r"\bJobState=(\w+)", text)
        return found[1] if found and found[1] in FINAL else ""

    def longest_minutes(self, options: Sequence[str]) -> int | None:
        """The limit of time of the partition that `options` name, or of the default one; None: none is known."""
        named = next((word.partition("=")[2] for word in options if word.startswith("--partition=")), "")
        try:
            rows = [line.split() for line in self.ask("sinfo", "--noheader", "--all", "--format=%P %l").splitlines()]
        except InfrastructureError:
            return None
        wanted = [limit for name, limit in rows if (name.strip("*") == named if named else name.endswith("*"))]
        return next((minutes for limit in wanted if (minutes := parse_minutes(limit)) is not None), None)

    def ask(self, *argv: str, script: str = "") -> str:
        """What a command prints. Raises InfrastructureError with its first words."""
        env = {name: value for name, value in os.environ.items() if not VARIABLES.fullmatch(name)}
        try:
            done = subprocess.run(
                argv, input=script, capture_output=True, text=True, timeout=ASK_SECONDS, check=False, cwd="/", env=env
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise InfrastructureError(f"Slurm does not answer: {argv[0]}: {type(e).__name__}") from e
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            said = next((line for line in lines if "fatal: " in line), lines[0])
            raise InfrastructureError(f"Slurm: {re.sub(r'^.*?(error|fatal): ', '', said)}")
        return done.stdout


def check_options(words: Sequence[str]) -> tuple[str, ...]:
    """Options of sbatch that users may give. Raises InvalidRequestError naming the first that they may not."""
    for word in words:
        found = OPTION.fullmatch(word)
        if found is None:
            raise InvalidRequestError(
                f"TUNELOOP_SLURM_OPTIONS: {word!r} is no option of sbatch in its long form; right is --partition=gpu --gres=gpu:1"
            )
        if any(name.startswith(found[1]) for name in OURS):  # sbatch takes beginnings of names
            raise InvalidRequestError(f"TUNELOOP_SLURM_OPTIONS: --{found[1]} is set by tuneloop; leave it out")
    return tuple(words)


# Whoever polls may be made anew each time; what was seen lives as long as the process.
CONTROLLER = Controller()
SIGNS: dict[Path, tuple[float, float]] = {}


class SlurmSandbox:
    """The sandbox `inner`, on nodes. `options`: of sbatch, for every job; `memory`: bytes that a job may use at most."""

    stop_seconds = LOST + 60.0

    def __init__(self, inner: LocalSandbox, options: Sequence[str] = (), memory: int | None = None) -> None:
        self.inner, self.options, self.memory = inner, check_options(options), memory
        self.kind: str = inner.kind
        self.powers: frozenset[Power] = inner.powers
        self.controller = CONTROLLER

    @property
    def note(self) -> str:
        """Where jobs run, and what the sandbox there says."""
        return f"jobs run on nodes of Slurm{f'; {self.inner.note}' if self.inner.note else ''}"

    def check_reachable(self, folder: Path) -> None:
        """The controller answers and would take a job with these options. Raises InvalidRequestError."""
        self.inner.check_reachable(folder)
        if folder.is_dir() and refuses_locks(folder):
            raise InvalidRequestError(
                f"--executor slurm: {folder} lies on a file system without flock; right is one that has it"
            )
        if shutil.which("sbatch") is None:
            raise InvalidRequestError(
                "--executor slurm: sbatch is not on PATH; start tuneloop where Slurm's commands are"
            )
        try:
            self.controller.ask("sbatch", "--test-only", *self.options, script="#!/bin/sh\n")
        except InfrastructureError as e:
            raise InvalidRequestError(
                f"--executor slurm: {e}{f'; there is {there}' if (there := self.offers()) else ''}"
            ) from e

    def offers(self) -> str:
        """What the cluster has, in one line; "" where it does not answer."""
        try:
            text = self.controller.ask("sinfo", "--noheader", "--format=%R: %D nodes, %c cores, %m MiB, %G, at most %l")
        except InfrastructureError:
            return ""
        return " | ".join(text.split("\n")[:8]).strip(" |")

    def start(self, folder: Path, command: Command) -> None:
        """Hand it over, or find it handed over. Raises InfrastructureError with Slurm's own words."""
        if command.generated or command.endpoint or command.forks or command.beside:
            self.inner.start(folder, command)
            return
        check_paths(command)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / "exit.json").exists():
            return
        there = self.controller.jobs(now=True)
        if there is None:
            raise InfrastructureError("Slurm does not answer: see `sinfo`, then `tuneloop resume`")
        write_atomic(folder / "command.json", command.model_copy(update={"worker": ""}).model_dump_json(indent=1))
        if job_name(folder) in there:
            write_atomic(folder / TICKET, there[job_name(folder)].number)
            return
        write_atomic(folder / TICKET, "")
        try:
            number = self.controller.ask("sbatch", *self._submission(folder, command), script=self._script(folder))
        except InfrastructureError:
            if claim_attempt(folder, "not submitted"):  # it may have come through all the same: it shall not begin
                (folder / TICKET).unlink()
            raise
        write_atomic(folder / TICKET, number.strip().partition(";")[0])
        self.controller.next_question = 0.0

    def _submission(self, folder: Path, command: Command) -> list[str]:
        named = {word.partition("=")[0] for word in self.options}
        threads = command.env.get("TUNELOOP_JOB_THREADS", "1")
        resources = {"--ntasks": "1", "--cpus-per-task": threads}
        if self.memory is not None and not any(name.startswith("--mem") for name in named):
            resources["--mem"] = f"{math.ceil(self.memory / (1 << 20))}M"
        if command.limits.seconds is not None and "--time" not in named:
            wanted = math.ceil((command.limits.seconds + SLACK) / 60)
            # A shorter partition is no refusal: before its limit the job saves, and its next attempt goes on.
            resources["--time"] = str(min(wanted, self.controller.longest_minutes(self.options) or wanted))
        return [
            "--parsable",
            "--export=NONE",
            "--no-requeue",  # the next attempt is ours, and goes on from the newest checkpoint
            f"--job-name={job_name(folder)}",
            "--output=/dev/null",  # sbatch reads patterns into a name; the script opens the file
            "--chdir=/",
            f"--signal=B:TERM@{math.ceil(command.limits.grace) + 30}",
            *(f"{name}={value}" for name, value in resources.items() if name not in named),
            *self.options,
        ]

    def _script(self, folder: Path) -> str:
        words = (sys.executable, "-I", "-c", BOOT, str(ROOT), str(folder), self.kind, str(self.memory or ""))
        return f"#!/bin/sh\nexec >>{shlex.quote(str(folder / 'slurm.out'))} 2>&1\nexec {shlex.join(words)}\n"

    def poll(self, folder: Path) -> JobStatus:
        """From the folder, and from what the controller said last; asks it every few seconds.

        Raises InfrastructureError for a job that would wait for ever.
        """
        if (folder / "exit.json").exists() or not (folder / TICKET).exists():
            return self.inner.poll(folder)
        listed = self.controller.jobs()
        seen = (listed or {}).get(job_name(folder))
        if seen and HOPELESS.search(seen.reason) and not (folder / "stop").exists():
            raise InfrastructureError(f"Slurm holds {folder.name}, job {seen.number}: {seen.reason}; see `squeue`")
        if listed is None or seen or self._shows_life(folder):
            return JobStatus(state="running")
        return self._settle(folder)

    def _shows_life(self, folder: Path) -> bool:
        """Whether it was handed over or ended a moment ago, or its runner gave a sign; by this machine's clock alone.

        One that has ended gets that moment too: on a network file system its end may be seen later than it was written.
        """
        seen = newest_change(folder)
        before, since = SIGNS.get(folder, (None, 0.0))
        now = time.monotonic()
        if seen != before:
            SIGNS[folder] = (seen, now)
            return True
        return now - since < (LOST if (folder / ALIVE).exists() else SUBMIT_SECONDS)

    def _settle(self, folder: Path) -> JobStatus:
        """Slurm no longer has it and it gives no sign: how it ended, else lost."""
        if not (folder / "exit.json").exists():  # its runner may have written it since
            never_begun = claim_attempt(folder, "given up")
            state = self.controller.final_state((folder / TICKET).read_text())
            if never_begun:
                self._cancel(folder)
            if state == "OUT_OF_MEMORY":
                write_end(folder, "memory")
            elif state:
                said = last_words(folder / "slurm.out")
                why = f"; before it began: {said or UNSEEN}" if never_begun else ""
                with (folder / "log.txt").open("a", encoding="utf-8") as log:
                    log.write(f"Slurm: the job ended as {state}{why}\n")
                if never_begun and state == "FAILED":  # it would fail again
                    write_end(folder, "failed_to_start", 127)
            (folder / TICKET).unlink(missing_ok=True)  # nobody has it any more
        return self.inner.poll(folder)

    def stop(self, folder: Path, grace: float = 5.0) -> None:
        """Ask its supervisor, or take it back where it did not begin. Returns at once."""
        if not (folder / TICKET).exists():
            self.inner.stop(folder, grace)
            return
        if (folder / "exit.json").exists():
            return
        write_atomic(folder / "stop", str(grace))
        if self.poll(folder).state != "running":
            return
        if claim_attempt(folder, "stopped"):
            write_end(folder, "stopped", -15)
            self._cancel(folder)

    def _cancel(self, folder: Path) -> None:
        try:
            self.controller.ask("scancel", f"--name={job_name(folder)}", f"--user={getpass.getuser()}")
        except InfrastructureError:
            return  # it ends by itself, for its claim is taken


def newest_change(folder: Path) -> float:
    """When the job was handed over or claimed, or its runner gave its last sign, by the file system's clock."""
    files = [folder / name for name in (TICKET, CLAIM, ALIVE)]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def job_name(folder: Path) -> str:
    """A job's name at the controller: the same for the same folder."""
    return f"tuneloop-{hashlib.sha256(os.path.realpath(folder).encode()).hexdigest()[:20]}"


def write_end(folder: Path, reason: EndReason, code: int = -9) -> None:
    """`exit.json` of a job that nobody else can end any more."""
    write_atomic(folder / "exit.json", Exit(code=code, reason=reason, seconds=0.0).model_dump_json(), keep=True)


def parse_minutes(limit: str) -> int | None:
    """Minutes of Slurm's `days-hours:minutes:seconds`; None for infinite, or what cannot be read."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 1440 * days + 60 * hours + minutes + (1 if seconds else 0)


PROOF_SECONDS = 60.0  # that `doctor` waits for a node


def prove_cluster(sandbox: SlurmSandbox, home: Path) -> str:
    """Run a job of a moment on a node: what the cluster has, and that its node sees `home`.

    Raises:
        InvalidRequestError: Slurm is not there, refuses the options, or the node cannot do it, with the cure.
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
            seen = (sandbox.controller.jobs(now=True) or {}).get(job_name(folder))
        finally:
            sandbox.stop(folder)  # nothing of it stays in the queue
        if status.state == "running":
            said = f"{seen.state} ({seen.reason})" if seen else "no word"
            return f"{sandbox.offers()}; a job waited longer than {PROOF_SECONDS:.0f} s: {said}"
        if status.exit is None or not status.exit.ok:
            said = last_words(folder / "log.txt") or last_words(folder / "slurm.out") or "it left nothing"
            raise InvalidRequestError(
                f"a job on a node did not come back ({said}); right is a file system that nodes share for {home}, "
                f"{sys.prefix} and the engines, and a sandbox that works there"
            )
        node = (folder / CLAIM).read_text().split()[0]
        return f"{sandbox.offers()}; a job ran on {node} in sandbox {sandbox.kind}"
