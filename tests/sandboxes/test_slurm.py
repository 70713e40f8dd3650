"""What is Slurm's alone: options of sbatch, limits of partitions. Its jobs: `test_cluster.py`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import TICKET, Command, Exit, Limits
from tuneloop.sandboxes import cluster, slurm
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.cluster import Ended, job_name
from tuneloop.sandboxes.local import LocalSandbox
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.slurm import SlurmSandbox, check_options


@pytest.mark.parametrize(
    "word", ["gpu", "-p", "--job-name=x", "--export=ALL", "--wra=id", "--Partition=x", "--clusters=x", "--help"]
)
def test_options_that_are_not_the_users_are_refused(word: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_SLURM_OPTIONS: .*(right is|leave it out)"):
        check_options((word,))


@pytest.mark.parametrize("word", ["--nodes=0", "--nodes=2-4", "--nodes=all"])
def test_nodes_are_a_number(word: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"{word} is no number of nodes; right is --nodes=2"):
        check_options((word,))


def test_several_nodes_need_srun_which_no_image_has() -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_SLURM_CONTAINER and --nodes=2: .*leave one out$"):
        SlurmSandbox(ProcessSandbox(), ("--nodes=2",), container=("apptainer", "exec", "image.sif"))


def test_only_a_job_that_spans_has_several_nodes(tmp_path: Path) -> None:
    sandbox = SlurmSandbox(ProcessSandbox(), ("--nodes=2", "--partition=gpu"))
    job = Command(argv=("/bin/true",), cwd=str(tmp_path), limits=Limits(seconds=60))
    alone, both = (sandbox._submission(tmp_path, job.model_copy(update={"spans": spans})) for spans in (False, True))
    assert {"--ntasks=1", "--partition=gpu", "--nodes=1"} <= set(alone) and "--nodes=2" not in alone
    assert {"--ntasks=2", "--nodes=2", "--ntasks-per-node=1"} <= set(both)


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", None), ("1-00:00:00", 1440), ("12:00:00", 720), ("30:00", 30), ("0:30", 1), ("n/a", None)],
)
def test_limits_of_partitions(limit: str, minutes: int | None) -> None:
    assert slurm.parse_minutes(limit) == minutes


def test_without_slurm_a_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequestError, match="sbatch is not on PATH"):
        SlurmSandbox(ProcessSandbox()).check_reachable(tmp_path)


@pytest.mark.parametrize(
    ("scontrol", "sacct", "ended"),
    [
        ("echo JobId=7 JobName={} JobState=FAILED", "exit 1", Ended("FAILED", means="refused")),
        ("exit 1", "echo '{}|OUT_OF_MEMORY'", Ended("OUT_OF_MEMORY", means="memory")),
        ("exit 1", "echo '{}|CANCELLED by 1000'", Ended("CANCELLED")),
        ("echo JobId=7 JobName={} JobState=RUNNING", "echo '{}|RUNNING'", None),
        ("echo JobId=7 JobName=other JobState=OUT_OF_MEMORY", "echo 'other|FAILED'", None),
        ("exit 1", "exit 1", None),
    ],
)
def test_how_a_job_ended_is_asked_of_the_accounting_last(
    scontrol: str, sacct: str, ended: Ended | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, does in (("scontrol", scontrol), ("sacct", sacct)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does.format(job_name(tmp_path))}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / TICKET).write_text("7")
    assert slurm.CONTROLLER.ending(tmp_path) == ended


@pytest.mark.parametrize(
    "words",
    [
        ("apptainer", "exec", "--nv", "--bind", "/scratch", "/images/cuda.sif"),
        ("singularity", "exec", "docker://org/cuda:12"),
        ("srun", "--container-image=org/cuda:12", "--container-mounts=/scratch:/scratch"),
    ],
)
def test_the_runner_starts_in_the_image(tmp_path: Path, words: tuple[str, ...]) -> None:
    script = SlurmSandbox(ProcessSandbox(), container=words).script(tmp_path).splitlines()
    assert script[1] == 'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK-1}" SLURM_EXPORT_ENV=ALL'
    assert script[2].startswith(f"exec {shlex.join((*words, sys.executable, '-I', '-c'))} ")


@pytest.mark.parametrize(
    "words",
    [
        ("apptainer", "exec", "--nv"),
        ("apptainer", "run", "/images/cuda.sif"),
        ("srun", "--container-mounts=/scratch:/scratch"),
        ("srun", "--container-image=a", "/bin/sh"),
        ("docker", "run", "image"),
    ],
)
def test_what_starts_no_image_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError, match=r"starts no image; right is apptainer exec .*srun --container-image"):
        SlurmSandbox(ProcessSandbox(), container=words)


# Stands in for Apptainer: `apptainer exec [options] IMAGE COMMAND…`, its options as its manual has them; no image is entered.
APPTAINER = """#!/bin/sh
[ "$1" = exec ] || exit 255
shift
while true; do
  case "$1" in
    --bind|-B) printf '%s\\n' "$2" >>"$SEEN"; shift 2 ;;
    --nv|--rocm|--containall|--bind=*) shift ;;
    -*) echo "FATAL: unknown flag: $1" >&2; exit 1 ;;
    *) break ;;
  esac
done
[ -e "$1" ] || { echo "FATAL: could not open image $1" >&2; exit 255; }
shift
exec "$@"
"""


def test_a_job_runs_in_its_sandbox_below_apptainer(tmp_path: Path) -> None:
    """What a node's shell does, in a shell of this machine."""
    program, image, work, job = (tmp_path / name for name in ("bin/apptainer", "image.sif", "work", "jobs/say.1"))
    for folder in (program.parent, work, job):
        folder.mkdir(parents=True)
    program.write_text(APPTAINER)
    program.chmod(0o755)
    image.touch()
    (tmp_path / "secret").write_text("secret")
    words = ("apptainer", "exec", "--nv", "--bind", str(tmp_path), str(image))
    inner = open_sandbox("auto")
    assert isinstance(inner, LocalSandbox)
    sandbox = SlurmSandbox(inner, container=words)
    command = Command(argv=("/bin/sh", "-c", "echo inside; cat ../secret"), cwd=str(work), write=(str(work),))
    (job / "command.json").write_text(command.model_dump_json())
    env = {"PATH": f"{program.parent}:/usr/bin:/bin", "SEEN": str(tmp_path / "bound")}
    subprocess.run(["/bin/sh", "-c", sandbox.script(job)], env=env, check=True, timeout=120)
    assert (tmp_path / "bound").read_text() == f"{tmp_path}\n"
    log = (job / "log.txt").read_text()
    assert log.startswith("inside") and "cat: " in log, "the sandbox is inside the image"
    end = sandbox.inner.poll(job).exit
    assert end is not None and (end.reason, end.code) == ("finished", 1)


def test_a_job_that_is_listed_and_gives_no_sign_is_taken_back_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node died and came back before Slurm missed it: Slurm would list it as running for ever."""
    sandbox, folder, taken = SlurmSandbox(ProcessSandbox()), tmp_path / "job.1", list[Path]()
    folder.mkdir()
    for name in ("command.json", "claim", "cluster.txt", "alive"):
        (folder / name).write_text("{}")
    states = {"state": "SUSPENDED"}
    monkeypatch.setattr(cluster, "LOST", 0.2)
    listing = lambda **_: {job_name(folder): cluster.Seen("1", states["state"])}  # noqa: E731
    monkeypatch.setattr(sandbox, "scheduler", SimpleNamespace(jobs=listing, cancel=taken.append))
    sandbox.poll(folder)
    time.sleep(0.5)
    assert sandbox.poll(folder).state == "running"
    assert taken == [], "it may go on one day"
    states["state"] = "RUNNING"
    sandbox.poll(folder)
    assert taken == [], "it has a minute from now"
    time.sleep(0.5)
    assert [sandbox.poll(folder).state for _ in range(3)] == ["running"] * 3
    assert taken == [folder]


def test_one_that_is_over_and_stays_listed_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node died before it could say so, and was back before Slurm missed it."""
    cancelled, listed = list[Path](), dict[str, cluster.Seen]()

    class Controller(slurm.Controller):
        def list_jobs(self) -> dict[str, cluster.Seen]:
            return dict(listed)

        def cancel(self, folder: Path) -> None:
            cancelled.append(folder)

    sandbox, folder = SlurmSandbox(ProcessSandbox()), tmp_path / "job.1"
    folder.mkdir()
    (folder / "command.json").write_text("{}")
    (folder / "exit.json").write_text(Exit(code=0, reason="finished", seconds=1).model_dump_json())
    monkeypatch.setattr(cluster, "LOST", 0.3)
    monkeypatch.setattr(sandbox, "scheduler", controller := Controller())
    listed[job_name(folder)] = cluster.Seen("1", "RUNNING")
    for _ in range(2):
        assert sandbox.poll(folder).state == "over"
        controller.jobs(now=True)
    assert cancelled == [], "its runner may be about to end"
    time.sleep(0.4)
    controller.jobs(now=True)
    controller.jobs(now=True)
    assert cancelled == [folder]
    listed.clear()
    controller.jobs(now=True)
    assert not controller.ended


def test_one_that_is_listed_as_running_and_never_begins_is_taken_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node died before the first sign; another may only have to fetch an image."""
    sandbox, folder, taken = SlurmSandbox(ProcessSandbox()), tmp_path / "job.1", list[Path]()
    folder.mkdir()
    for name in ("command.json", "cluster.txt"):
        (folder / name).write_text("{}")
    states = {"state": "PENDING"}
    monkeypatch.setattr(cluster, "SUBMIT_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "LOST", 0.1)
    monkeypatch.setattr(cluster, "BEGINS", 0.5)
    listing = lambda **_: {job_name(folder): cluster.Seen("1", states["state"])}  # noqa: E731
    monkeypatch.setattr(sandbox, "scheduler", SimpleNamespace(jobs=listing, cancel=taken.append))
    for state in ("PENDING", "RUNNING", "PENDING"):
        states["state"] = state
        assert sandbox.poll(folder).state == "running"
        time.sleep(0.3)
        assert sandbox.poll(folder).state == "running"
        assert not taken
    states["state"] = "RUNNING"
    sandbox.poll(folder)
    time.sleep(0.2)
    sandbox.poll(folder)
    assert not taken, "it may fetch an image"
    time.sleep(0.4)
    assert (sandbox.poll(folder).state, taken) == ("running", [folder])
    (folder / "claim").write_text("its runner, which has begun")
    sandbox.poll(folder)
    time.sleep(0.2)
    sandbox.poll(folder)
    assert taken == [folder, folder]
