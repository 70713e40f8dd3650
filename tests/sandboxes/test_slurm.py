"""Jobs on a real Slurm cluster of two nodes on this machine: how they begin, end, wait, are lost and stay alone."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.slurm_cluster import Cluster, cluster, missing
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command, Limits
from tuneloop.sandboxes import node_runner, slurm
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.jobs import launch, stop_and_wait, wait
from tuneloop.sandboxes.local import claim_attempt
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.slurm import SlurmSandbox, check_options, job_name

BEAT = "import time\nwhile True:\n    open('beat', 'a').write('x')\n    time.sleep(0.05)\n"
needs_slurm = pytest.mark.skipif(bool(missing()), reason=f"Slurm is not there: {missing()}")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """The cluster; its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="slurm", dir="/tmp") as place, cluster(Path(place) / "c") as made:
        yield made


@pytest.fixture
def sandbox(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> SlurmSandbox:
    """As this process sees it."""
    for name, value in nodes.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm, "OFTEN", 0.5)
    monkeypatch.setattr(slurm, "CONTROLLER", slurm.Controller())
    return SlurmSandbox(BubblewrapSandbox())


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Command]:
    """A job that runs Python code in the folder `work`."""
    work = tmp_path / "work"
    work.mkdir()

    def made(code: str, **fields: object) -> Command:
        read = (sys.prefix, sys.base_prefix)
        argv = (sys.executable, "-I", "-S", "-c", code)
        given = {"limits": Limits(seconds=120), **fields}
        return Command(argv=argv, cwd=str(work), write=(str(work),), read=read, **given)

    return made


def processes_of(folder: Path) -> list[int]:
    """Processes on the node that were started for the job: its runner and its supervisor."""
    named = bytes(folder)
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if named in path.read_bytes()]


@pytest.mark.slow
@needs_slurm
class TestOnACluster:
    """What needs a cluster."""

    def test_it_runs_on_a_node_and_its_end_is_told(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET", "secret-4f21")
        sandbox.check_reachable(tmp_path)
        code = "import os, sys; print('SECRET' in os.environ, os.path.exists('/etc/passwd')); open('made', 'w'); sys.exit(7)"
        folder = launch(sandbox, tmp_path / "jobs", "one", command(code))
        assert sandbox.poll(folder).state == "running"
        end = wait(sandbox, folder)
        assert (end.code, end.reason) == (7, "finished")
        assert (folder / "log.txt").read_text() == "False False\n"
        assert (tmp_path / "work" / "made").exists()
        assert launch(sandbox, tmp_path / "jobs", "one", command(code)) == folder  # over, and not run again
        until(lambda: not (folder / "alive").exists(), seconds=10)

    def test_generated_code_and_warm_engines_stay_here(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        folder = launch(sandbox, tmp_path / "jobs", "script", command("print(1)", generated=True))
        assert wait(sandbox, folder).ok
        assert not (folder / "slurm.txt").exists()

    def test_a_node_gives_the_gpu_that_was_asked_for(
        self, nodes: Cluster, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        sandbox = SlurmSandbox(BubblewrapSandbox(), ("--gres=gpu:1",))
        code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
        folder = launch(sandbox, tmp_path / "jobs", "gpu", command(code))
        assert wait(sandbox, folder).ok
        assert (folder / "log.txt").read_text() == "0\n"

    def test_one_that_runs_is_stopped_with_grace(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        code = (
            "import signal, sys, time\nsignal.signal(15, lambda *_: (open('bye', 'w'), sys.exit(0)))\nopen('up', 'w')\n"
        )
        folder = launch(sandbox, tmp_path / "jobs", "stop", command(code + "time.sleep(60)"))
        until((tmp_path / "work" / "up").exists, seconds=30)
        stop_and_wait(sandbox, folder)
        assert sandbox.poll(folder).killed
        assert (tmp_path / "work" / "bye").exists()

    def test_one_that_waits_is_taken_back_and_never_begins(
        self, nodes: Cluster, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        sandbox = SlurmSandbox(BubblewrapSandbox(), ("--begin=now+1hour",))
        folder = launch(sandbox, tmp_path / "jobs", "later", command("open('made', 'w')"))
        until(lambda: job_name(folder) in (sandbox.controller.jobs(now=True) or {}), seconds=10)
        assert sandbox.poll(folder).state == "running"
        stop_and_wait(sandbox, folder)
        assert sandbox.poll(folder).killed
        until(lambda: job_name(folder) not in (sandbox.controller.jobs(now=True) or {}), seconds=10)
        assert not (tmp_path / "work" / "made").exists()

    def test_an_orchestrator_that_died_finds_its_job(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        asked = command("import time; time.sleep(3)")
        folder = launch(sandbox, tmp_path / "jobs", "again", asked)
        (folder / "slurm.txt").write_text("")  # killed before it wrote down the number
        other = SlurmSandbox(BubblewrapSandbox())
        assert launch(other, tmp_path / "jobs", "again", asked) == folder
        assert wait(other, folder).ok

    def test_a_killed_node_daemon_loses_no_job(
        self, nodes: Cluster, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        """Its step lives on; what Slurm says of it is not believed while it gives signs."""
        folder = launch(sandbox, tmp_path / "jobs", "on", command("import time; time.sleep(25); open('made', 'w')"))
        until((folder / "alive").exists, seconds=20)
        node = nodes.ask("squeue", "-h", f"--name={job_name(folder)}", "-o", "%N").strip()
        nodes.end(node)
        try:
            assert wait(sandbox, folder).ok
        finally:
            nodes.start(node)
            nodes.wait_until_idle()
        assert (tmp_path / "work" / "made").exists()

    def test_a_lost_job_goes_on_as_its_next_attempt_and_never_beside_it(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm, "LOST", 3.0)
        folder = launch(sandbox, tmp_path / "jobs", "lost", command(BEAT, key="k"))
        beat = tmp_path / "work" / "beat"
        until(beat.exists, seconds=20)
        for pid in processes_of(folder):  # as when the node dies
            os.kill(pid, signal.SIGKILL)
        # Whoever asks is made anew each time, as servers are.
        until(lambda: SlurmSandbox(BubblewrapSandbox()).poll(folder).state != "running", seconds=60)
        assert sandbox.poll(folder).state == "lost"
        size = beat.stat().st_size
        time.sleep(0.5)
        assert beat.stat().st_size == size  # nobody writes any more
        assert not (folder / "slurm.txt").exists()  # nor does anybody wait for it
        second = launch(sandbox, tmp_path / "jobs", "lost", command("print(2)", key="k"))
        assert second.name == "lost.2"
        assert wait(sandbox, second).ok

    def test_the_home_may_have_any_name(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        place = tmp_path / r"it's 100%j a\b $HOME"
        folder = launch(sandbox, place, "odd", command("print(1)"))
        assert wait(sandbox, folder).ok
        assert (folder / "slurm.out").is_file()

    def test_a_job_that_would_wait_for_ever_is_said(
        self, nodes: Cluster, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        short = SlurmSandbox(BubblewrapSandbox(), ("--partition=short", "--time=60"))
        folder = launch(short, tmp_path / "jobs", "long", command("print(1)"))

        def told() -> str:
            try:
                short.poll(folder)
            except InfrastructureError as e:
                return str(e)
            return ""

        assert "Slurm holds long.1" in until(told, seconds=30)
        stop_and_wait(short, folder)
        fitted = SlurmSandbox(BubblewrapSandbox(), ("--partition=short",))  # no more is asked for than it gives
        folder = launch(fitted, tmp_path / "jobs", "fits", command("print(1)", limits=Limits(seconds=36_000)))
        assert wait(fitted, folder).ok

    def test_a_node_that_does_not_see_our_files_is_named(
        self, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm, "SUBMIT_SECONDS", 2.0)
        with monkeypatch.context() as only_here:
            only_here.setattr(sys, "executable", "/only/here/python")
            folder = launch(
                sandbox, tmp_path / "jobs", "blind", command("print(1)").model_copy(update={"argv": ("/bin/true",)})
            )
        assert wait(sandbox, folder).reason == "failed_to_start"
        assert "Slurm: the job ended as FAILED; before it began: " in (folder / "log.txt").read_text()
        with (
            monkeypatch.context() as only_here,
            pytest.raises(InvalidRequestError, match="right is a file system that nodes share"),
        ):
            only_here.setattr(sys, "executable", "/only/here/python")
            slurm.prove_cluster(sandbox, tmp_path)
        assert "a job ran on" in slurm.prove_cluster(sandbox, tmp_path)

    def test_a_controller_that_is_away_blames_no_job(
        self, nodes: Cluster, sandbox: SlurmSandbox, command: Callable[..., Command], tmp_path: Path
    ) -> None:
        folder = launch(sandbox, tmp_path / "jobs", "away", command("import time; time.sleep(4)"))
        until((folder / "alive").exists, seconds=20)
        nodes.end("slurmctld", signal.SIGTERM)
        sandbox.controller.next_question = 0.0
        try:
            assert sandbox.poll(folder).state == "running"
            assert wait(sandbox, folder).ok
            with pytest.raises(InfrastructureError, match=r"Slurm does not answer: see `sinfo`"):
                launch(sandbox, tmp_path / "jobs", "next", command("print(1)"))
        finally:
            nodes.start("slurmctld")
            until(lambda: nodes.ask("sinfo", "--noheader"), seconds=30)
        assert wait(sandbox, launch(sandbox, tmp_path / "jobs", "next", command("print(1)"))).ok

    @pytest.mark.parametrize(
        ("option", "says"),
        [
            ("--partition=gold", "invalid partition specified: gold"),
            ("--gres=gpu:4", "Requested node configuration is not available"),
            ("--mem=9999999", "Requested node configuration is not available"),
            ("--nonsense", "unrecognized option '--nonsense'"),
        ],
    )
    def test_what_slurm_refuses_is_refused_before_a_run(
        self, nodes: Cluster, sandbox: SlurmSandbox, tmp_path: Path, option: str, says: str
    ) -> None:
        with pytest.raises(InvalidRequestError, match=r"--executor slurm: .*; there is main: 2 nodes") as refused:
            SlurmSandbox(BubblewrapSandbox(), (option,)).check_reachable(tmp_path)
        assert says in str(refused.value)


@pytest.mark.parametrize(
    "word", ["gpu", "-p", "--job-name=x", "--export=ALL", "--wra=id", "--Partition=x", "--clusters=x", "--help"]
)
def test_options_that_are_not_the_users_are_refused(word: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_SLURM_OPTIONS: .*(right is|leave it out)"):
        check_options((word,))


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", None), ("1-00:00:00", 1440), ("12:00:00", 720), ("30:00", 30), ("0:30", 1), ("n/a", None)],
)
def test_limits_of_partitions(limit: str, minutes: int | None) -> None:
    assert slurm.parse_minutes(limit) == minutes


def test_only_sandboxes_of_a_node_go_there() -> None:
    with pytest.raises(InvalidRequestError, match=r"sandbox docker does not run on nodes"):
        fake = ProcessSandbox()
        fake.kind = "docker"
        open_executor("slurm", fake, ())
    assert open_executor("local", fake, ()) is fake


def test_without_slurm_a_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequestError, match="sbatch is not on PATH"):
        SlurmSandbox(ProcessSandbox()).check_reachable(tmp_path)


def test_an_attempt_is_claimed_once(tmp_path: Path) -> None:
    assert claim_attempt(tmp_path, "one")
    assert not claim_attempt(tmp_path, "other")
    assert (tmp_path / "claim").read_text() == "one"


def test_a_runner_that_can_give_no_sign_ends_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_runner, "FENCE", 0.2)
    ended: list[int] = []
    monkeypatch.setattr(node_runner, "end_all", lambda: ended.append(0))
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(threading, "Thread", lambda **_: MagicMock())
    watchdog = node_runner.Watchdog(tmp_path)
    watchdog.last -= node_runner.BEAT
    (tmp_path / "alive").unlink()  # as when the file system is away
    watchdog.beat()
    watchdog.guard()
    assert ended == [0, 1]


def test_the_scheduler_says_which_devices_and_how_much_memory(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., Command]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "100")
    assert node_runner.device_count(command("1")) == 1
    granted = node_runner.as_scheduled(command("1"), None)
    assert granted.env["CUDA_VISIBLE_DEVICES"] == "3"
    assert granted.limits.memory == 100 << 20
    hidden = node_runner.as_scheduled(
        command("1", env={"CUDA_VISIBLE_DEVICES": ""}, limits=Limits(memory=1 << 20)), 1 << 20
    )
    assert (hidden.env["CUDA_VISIBLE_DEVICES"], hidden.limits.memory) == ("", 1 << 20)
