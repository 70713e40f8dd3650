"""Slurm: sbatch, squeue, scontrol, sacct, scancel and sinfo, whose own options users may give for every job."""

from __future__ import annotations

import getpass
import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command
from tuneloop.sandboxes.cluster import ClusterSandbox, Ended, Scheduler, Seen, job_name, number_of
from tuneloop.sandboxes.local import LocalSandbox

ASK_SECONDS = 10.0  # for an answer of the controller
SLACK = 300.0  # seconds beyond a job's own limit: its supervisor ends it first
OURS = (
    "job-name", "output", "error", "export", "requeue", "no-requeue", "wrap", "array", "dependency", "chdir", "parsable",
    "signal", "open-mode", "input", "hold", "test-only", "wait", "uid", "gid", "get-user-env", "bcast", "export-file", "help",
    "version", "usage", "clusters", "cluster-constraint",
)  # fmt: skip
OPTION = re.compile(r"--([a-z][a-z-]*)(=.+)?")
FINAL = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
)  # fmt: skip
MEANS: dict[str, Literal["memory", "refused"]] = {"OUT_OF_MEMORY": "memory", "FAILED": "refused"}
# A controller that crashed gives numbers again: the name decides whose it is.
ENDINGS = (
    (("scontrol", "--oneliner", "show", "job"), r"\bJobName={} .*?\bJobState=(\w+)(?:.*?\bExitCode=(\d+))?"),
    (("sacct", "--noheader", "--parsable2", "--allocations", "--format=JobName,State", "--jobs"), r"(?m)^{}\|(\w+)()"),
)
# A job that waits for one of these waits for ever.
HOPELESS = re.compile(r"Partition\w*Limit|PartitionConfig|BadConstraints|JobHeld|(QOS|Assoc)Max\w*PerJob")
# Answers depend on the user's options alone, not on variables that filter lists or add options.
VARIABLES = re.compile(r"(SLURM|SBATCH|SQUEUE|SINFO|SACCT|SCANCEL|SCONTROL|SALLOC|SRUN)_(?!CONF|JWT).*")


class Controller(Scheduler):
    """Slurm's commands, with a limit of time."""

    def list_jobs(self) -> dict[str, Seen]:
        """What squeue tells of this user."""
        try:
            text = self.ask("squeue", "--noheader", "--all", f"--user={os.getuid()}", "--format=%i|%j|%T|%r")
        except InfrastructureError as e:
            raise InfrastructureError("Slurm does not answer: see `sinfo`") from e
        rows = [line.split("|", 3) for line in text.splitlines() if line.count("|") >= 3]
        # One that is being cleared away may be so for days; it lives if it gives signs.
        return {
            name: Seen(number, state, why, bool(HOPELESS.search(why)))
            for number, name, state, why in rows
            if state != "COMPLETING"
        }

    def ending(self, folder: Path) -> Ended | None:
        """By the number in the folder: from scontrol, and where that has forgotten it, from sacct."""
        number = number_of(folder)
        if not number.isdecimal():  # scontrol would show everybody's
            return None
        for argv, pattern in ENDINGS:
            with suppress(InfrastructureError):  # forgotten, or no accounting
                found = re.search(pattern.format(job_name(folder)), self.ask(*argv, number))
                if found and found[1] in FINAL:
                    return Ended(
                        found[1], f"exit status {found[2]}" if found[2] else "", means=MEANS.get(found[1], "lost")
                    )
        return None

    def cancel(self, folder: Path) -> None:
        """By its name."""
        with suppress(InfrastructureError):
            self.ask("scancel", f"--name={job_name(folder)}", f"--user={getpass.getuser()}")

    def offers(self) -> str:
        """Partitions, from sinfo."""
        try:
            text = self.ask("sinfo", "--noheader", "--format=%R: %D nodes, %c cores, %m MiB, %G, at most %l")
        except InfrastructureError:
            return ""
        return " | ".join(text.split("\n")[:8]).strip(" |")

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
    node_count(words)
    return tuple(words)


def check_container(words: Sequence[str]) -> tuple[str, ...]:
    """What starts a command in an image, the command's own words left out. Raises InvalidRequestError for anything else."""
    apptainer = words[0:1] and words[0] in ("apptainer", "singularity") and words[1:2] and words[1] == "exec"
    image = len(words) > 2 and not words[-1].startswith("-")
    pyxis = words[0:1] and words[0] == "srun" and all(word.startswith("--") for word in words[1:])
    named = any(word.startswith("--container-image=") for word in words)
    if words and not ((apptainer and image) or (pyxis and named)):
        raise InvalidRequestError(
            f"TUNELOOP_SLURM_CONTAINER: {' '.join(words)!r} starts no image; right is apptainer exec --nv --bind /scratch IMAGE, "
            "or srun --container-image=IMAGE --container-mounts=/scratch:/scratch"
        )
    return tuple(words)


def node_count(words: Sequence[str]) -> int:
    """Nodes of one training, by `--nodes`. Raises InvalidRequestError where that is no number."""
    given = next((word.partition("=")[2] for word in reversed(words) if word.startswith("--nodes=")), "1")
    if not re.fullmatch(r"[1-9]\d{0,3}", given):
        raise InvalidRequestError(f"TUNELOOP_SLURM_OPTIONS: --nodes={given} is no number of nodes; right is --nodes=2")
    return int(given)


CONTROLLER = Controller()


class SlurmSandbox(ClusterSandbox):
    """The sandbox `inner`, on nodes of Slurm. `options`: of sbatch, for every job; `container`: of Apptainer or Pyxis."""

    name, executor, look = "Slurm", "slurm", "`squeue`"
    # srun takes neither the cores of a job nor, after --export=NONE, its environment by itself.
    prelude = 'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK-1}" SLURM_EXPORT_ENV=ALL\n'

    def __init__(
        self,
        inner: LocalSandbox,
        options: Sequence[str] = (),
        memory: int | None = None,
        container: Sequence[str] = (),
    ) -> None:
        super().__init__(inner, memory)
        self.options, self.container = check_options(options), check_container(container)
        if container and (nodes := node_count(options)) > 1:
            raise InvalidRequestError(
                f"TUNELOOP_SLURM_CONTAINER and --nodes={nodes}: no image has srun, which starts the other nodes; leave one out"
            )
        self.scheduler = self.controller = CONTROLLER

    def check_accepted(self) -> None:
        """The controller answers and would take a job with these options."""
        if shutil.which("sbatch") is None:
            raise InvalidRequestError(
                "--executor slurm: sbatch is not on PATH; start tuneloop where Slurm's commands are"
            )
        self.controller.ask("sbatch", "--test-only", *self.options, script="#!/bin/sh\n")

    def submit(self, folder: Path, command: Command) -> str:
        """By sbatch."""
        script = f"#!/bin/sh\n{self.script(folder)}"
        return (
            self.controller.ask("sbatch", *self._submission(folder, command), script=script).strip().partition(";")[0]
        )

    def _submission(self, folder: Path, command: Command) -> list[str]:
        named = {word.partition("=")[0] for word in self.options}
        threads = command.env.get("TUNELOOP_JOB_THREADS", "1")
        nodes = node_count(self.options) if command.spans else 1
        resources = {"--ntasks": str(nodes), "--cpus-per-task": threads}
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
            *(word for word in self.options if not word.startswith("--nodes=")),
            f"--nodes={nodes}",
            *(["--ntasks-per-node=1"] if nodes > 1 else []),
        ]


def parse_minutes(limit: str) -> int | None:
    """Minutes of Slurm's `days-hours:minutes:seconds`; None for infinite, or what cannot be read."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 1440 * days + 60 * hours + minutes + (1 if seconds else 0)
