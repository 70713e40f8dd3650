"""Jobs on a real cluster of Slurm and of Ray on this machine: how they begin, end, wait, are lost and stay alone."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests import ray_cluster
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command, Limits
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster, local, node_runner, ray, slurm
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.cluster import ClusterSandbox, job_name, prove_cluster
from tuneloop.sandboxes.jobs import launch, stop_and_wait, wait
from tuneloop.sandboxes.local import claim_attempt
from tuneloop.sandboxes.process import ProcessSandbox

from .conftest import CLUSTERS, Cluster

BEAT = "import time\nwhile True:\n    open('beat', 'a').write('x')\n    time.sleep(0.05)\n"
Opener = Callable[..., ClusterSandbox]
Asker = Callable[..., Command]
# By executor: what asks for a GPU, for something that comes later, and for something that cannot come.
GPU = {"slurm": "--gres=gpu:1", "ray": "num_gpus=1"}
LATER = {"slurm": "--begin=now+1hour", "ray": "late=1"}
NEVER = {"slurm": "--partition=short --time=60", "ray": "late=1"}

REFUSED = {
    "slurm": {
        "--partition=gold": "invalid partition specified: gold",
        "--gres=gpu:4": "Requested node configuration is not available",
        "--mem=9999999": "Requested node configuration is not available",
        "--nonsense": "unrecognized option '--nonsense'",
    },
    "ray": {
        "num_gpus=4": "no node has 4 GPU: look at TUNELOOP_RAY_RESOURCES",
        "memory=1TiB gold=1": "no node has 1 gold, 1099.5 GB memory: look at TUNELOOP_RAY_RESOURCES",
    },
}
THERE = {"slurm": "main: 2 nodes", "ray": "1 × 2 CPU, 1 GPU, 2.0 GB memory"}


@pytest.fixture(params=CLUSTERS)
def nodes(request: pytest.FixtureRequest, find_nodes: Callable[[str], Cluster]) -> Cluster:
    """The cluster."""
    return find_nodes(request.param)


@pytest.fixture
def on_nodes(nodes: Cluster, on_nodes: Opener) -> Opener:
    """A job's sandbox there, with these options or resources."""
    return lambda options="": on_nodes(nodes.executor, BubblewrapSandbox(), options)


@pytest.fixture
def sandbox(on_nodes: Opener) -> ClusterSandbox:
    """With what a job gets by itself."""
    return on_nodes()


@pytest.fixture
def command(tmp_path: Path) -> Asker:
    """A job that runs Python code in the folder `work`."""
    work = tmp_path / "work"
    work.mkdir()

    def made(code: str, **fields: object) -> Command:
        read = (sys.prefix, sys.base_prefix)
        argv = (sys.executable, "-I", "-S", "-c", code)
        given = {"limits": Limits(seconds=120), **fields}
        return Command(argv=argv, cwd=str(work), write=(str(work),), read=read, **given)

    return made


def begun(sandbox: ClusterSandbox, folder: Path, sign: Path | None = None) -> None:
    """Wait for a job's first sign; a busy Ray may put it out of its queue, and whoever polls hands it over again."""
    until(lambda: sandbox.poll(folder).state == "running" and (sign or folder / "alive").exists(), seconds=90)


def processes_of(folder: Path) -> list[int]:
    """Processes on the node that were started for the job: its runner and its supervisor."""
    named = bytes(folder)
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if named in path.read_bytes()]


@pytest.mark.slow
class TestOnACluster:
    """What needs a cluster."""

    def test_it_runs_on_a_node_and_its_end_is_told(
        self, sandbox: ClusterSandbox, command: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        self, sandbox: ClusterSandbox, command: Asker, tmp_path: Path
    ) -> None:
        folder = launch(sandbox, tmp_path / "jobs", "script", command("print(1)", generated=True))
        assert wait(sandbox, folder).ok
        assert not (folder / "cluster.txt").exists()

    def test_a_node_gives_the_gpu_that_was_asked_for_and_the_home_may_have_any_name(
        self, nodes: Cluster, on_nodes: Opener, command: Asker, tmp_path: Path
    ) -> None:
        sandbox = on_nodes(GPU[nodes.executor])
        code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
        folder = launch(sandbox, tmp_path / r"it's 100%j a\b $HOME", "gpu", command(code))
        assert wait(sandbox, folder).ok
        assert (folder / "log.txt").read_text() == "0\n"
        assert (folder / "claim").read_text().split()[2] == "1"
        assert (folder / "cluster.out").is_file()

    def test_one_that_runs_is_stopped_with_grace(self, sandbox: ClusterSandbox, command: Asker, tmp_path: Path) -> None:
        code = (
            "import signal, sys, time\nsignal.signal(15, lambda *_: (open('bye', 'w'), sys.exit(0)))\nopen('up', 'w')\n"
        )
        folder = launch(sandbox, tmp_path / "jobs", "stop", command(code + "time.sleep(60)"))
        begun(sandbox, folder, tmp_path / "work" / "up")
        stop_and_wait(sandbox, folder)
        assert sandbox.poll(folder).killed
        assert (tmp_path / "work" / "bye").exists()

    def test_a_job_that_would_wait_for_ever_is_said(
        self, nodes: Cluster, on_nodes: Opener, command: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ray puts a job out of its queue after a while; it waits again where a node has what it asks for."""
        monkeypatch.setattr(cluster, "SUBMIT_SECONDS", 1.0)
        sandbox = on_nodes(NEVER[nodes.executor])
        folder = launch(sandbox, tmp_path / "jobs", "long", command("print(1)"))

        def told() -> str:
            try:
                sandbox.poll(folder)
            except InfrastructureError as e:
                return str(e)
            return ""

        says = {
            "slurm": "Slurm holds long.1, job ",
            "ray": "Ray held long.1: Job supervisor actor failed to start within 12.0 seconds; no node has 1 late: ",
        }
        assert says[nodes.executor] in until(told, seconds=90, every=0.2)
        if isinstance(nodes, ray_cluster.Cluster):
            nodes.grant("late")
            assert wait(sandbox, folder).ok
            return
        stop_and_wait(sandbox, folder)
        fitted = on_nodes("--partition=short")  # no more is asked for than it gives
        folder = launch(fitted, tmp_path / "jobs", "fits", command("print(1)", limits=Limits(seconds=36_000)))
        assert wait(fitted, folder).ok

    def test_one_that_waits_is_taken_back_and_never_begins(
        self, nodes: Cluster, on_nodes: Opener, command: Asker, tmp_path: Path
    ) -> None:
        """Ray starts it all the same, when its turn comes: it ends at once, and its record is deleted."""
        sandbox = on_nodes(LATER[nodes.executor])
        if isinstance(nodes, ray_cluster.Cluster):
            nodes.grant("late")
            first = launch(sandbox, tmp_path / "jobs", "first", command("import time; time.sleep(60)"))
            begun(sandbox, first)
        folder = launch(sandbox, tmp_path / "jobs", "later", command("open('made', 'w')"))
        until(lambda: job_name(folder) in (sandbox.scheduler.jobs(now=True) or {}), seconds=10)
        assert sandbox.poll(folder).state == "running"
        stop_and_wait(sandbox, folder)
        assert sandbox.poll(folder).killed
        if isinstance(nodes, ray_cluster.Cluster):
            stop_and_wait(sandbox, first)
        until(lambda: job_name(folder) not in (sandbox.scheduler.jobs(now=True) or {}), seconds=20, every=0.2)
        assert not (tmp_path / "work" / "made").exists()
        assert sandbox.scheduler.ending(folder) is None or nodes.executor == "slurm"

    def test_an_orchestrator_that_died_finds_its_job(self, on_nodes: Opener, command: Asker, tmp_path: Path) -> None:
        asked = command("import time; time.sleep(3)")
        folder = launch(on_nodes(), tmp_path / "jobs", "again", asked)
        (folder / "cluster.txt").write_text("")  # killed before it wrote down the number
        other = on_nodes()
        assert launch(other, tmp_path / "jobs", "again", asked) == folder
        other.start(folder, asked)  # nor is it handed over twice
        assert wait(other, folder).ok

    def test_a_killed_node_daemon_loses_no_job(
        self, nodes: Cluster, on_nodes: Opener, command: Asker, tmp_path: Path
    ) -> None:
        """Slurm's step lives on, and Slurm is not believed while it gives signs; Ray ends a job with its node's daemon."""
        code = "import os, time; os.mkdir('alone'); time.sleep({}); os.rmdir('alone'); open('made', 'a').write('x')"
        sandbox = on_nodes()
        if isinstance(nodes, ray_cluster.Cluster):
            nodes.grant("late")
            sandbox = on_nodes("late=1")
        folder = launch(sandbox, tmp_path / "jobs", "on", command(code.format(25), key="k"))
        begun(sandbox, folder)
        nodes.end_node(job_name(folder))
        try:
            if wait(sandbox, folder).killed:
                (tmp_path / "work" / "alone").rmdir()
                folder = launch(on_nodes(), tmp_path / "jobs", "on", command(code.format(0), key="k"))
            assert wait(sandbox, folder).ok
            assert folder.name == {"slurm": "on.1", "ray": "on.2"}[nodes.executor]
        finally:
            nodes.mend_node()
        assert (tmp_path / "work" / "made").read_text() == "x"

    def test_a_lost_job_goes_on_as_its_next_attempt_and_never_beside_it(
        self, on_nodes: Opener, command: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "LOST", 3.0)
        sandbox = on_nodes()
        folder = launch(sandbox, tmp_path / "jobs", "lost", command(BEAT, key="k"))
        beat = tmp_path / "work" / "beat"
        begun(sandbox, folder, beat)
        for pid in processes_of(folder):  # as when the node dies
            os.kill(pid, signal.SIGKILL)
        # Whoever asks is made anew each time, as servers are.
        until(lambda: on_nodes().poll(folder).state != "running", seconds=60)
        assert sandbox.poll(folder).state == "lost"
        size = beat.stat().st_size
        time.sleep(0.5)
        assert beat.stat().st_size == size  # nobody writes any more
        assert not (folder / "cluster.txt").exists()  # nor does anybody wait for it
        second = launch(sandbox, tmp_path / "jobs", "lost", command("print(2)", key="k"))
        assert second.name == "lost.2"
        assert wait(sandbox, second).ok

    def test_a_node_that_does_not_see_our_files_is_named(
        self, sandbox: ClusterSandbox, command: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "SUBMIT_SECONDS", 2.0)
        with monkeypatch.context() as only_here:
            only_here.setattr(sys, "executable", "/only/here/python")
            folder = launch(
                sandbox, tmp_path / "jobs", "blind", command("print(1)").model_copy(update={"argv": ("/bin/true",)})
            )
        assert wait(sandbox, folder).reason == "failed_to_start"
        assert re.search(r"(Slurm|Ray): the job ended as \w+; before it began: ", (folder / "log.txt").read_text())
        with (
            monkeypatch.context() as only_here,
            pytest.raises(InvalidRequestError, match="right is a file system that nodes share"),
        ):
            only_here.setattr(sys, "executable", "/only/here/python")
            prove_cluster(sandbox, tmp_path)
        assert "a job ran on" in prove_cluster(sandbox, tmp_path)

    def test_a_controller_that_is_away_blames_no_job(
        self, nodes: Cluster, on_nodes: Opener, command: Asker, tmp_path: Path
    ) -> None:
        sandbox = on_nodes()
        folder = launch(sandbox, tmp_path / "jobs", "away", command("import time; time.sleep(4)"))
        begun(sandbox, folder)
        nodes.end_controller()
        sandbox.scheduler.next_question = 0.0
        if isinstance(sandbox.scheduler, ray.RayJobs):
            sandbox.scheduler.client.timeout = 3.0  # its dashboard hangs
        try:
            assert sandbox.poll(folder).state == "running"
            assert wait(sandbox, folder).ok
            with pytest.raises(
                InfrastructureError, match=r"^(Slurm does not answer: see `sinfo`|Ray at ).*`tuneloop resume`"
            ):
                launch(sandbox, tmp_path / "jobs", "next", command("print(1)"))
        finally:
            nodes.mend_controller()
        ray.ray_jobs.cache_clear()
        sandbox = on_nodes()
        assert wait(sandbox, launch(sandbox, tmp_path / "jobs", "next", command("print(1)"))).ok

    def test_what_no_node_has_is_refused_before_a_run(self, nodes: Cluster, on_nodes: Opener, tmp_path: Path) -> None:
        for option, says in REFUSED[nodes.executor].items():
            with pytest.raises(InvalidRequestError, match=rf"^--executor {nodes.executor}: ") as refused:
                on_nodes(option).check_reachable(tmp_path)
            assert f"{says}; there is {THERE[nodes.executor]}" in str(refused.value)


def test_only_sandboxes_of_a_node_go_there() -> None:
    with pytest.raises(InvalidRequestError, match=r"sandbox docker does not run on nodes"):
        fake = ProcessSandbox()
        fake.kind = "docker"
        open_executor("slurm", fake, Settings())
    assert open_executor("local", fake, Settings()) is fake


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
    (tmp_path / "alive").touch()
    watchdog = node_runner.Watchdog(lambda: os.utime(tmp_path / "alive"))
    watchdog.last -= node_runner.BEAT
    (tmp_path / "alive").unlink()  # as when the file system is away
    watchdog.beat()
    watchdog.guard()
    assert ended == [0, 1]


def test_the_scheduler_says_which_devices_and_how_much_memory(monkeypatch: pytest.MonkeyPatch, command: Asker) -> None:
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


class SlowScheduler(cluster.Scheduler):
    """Answers badly, and when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer, self.began = 0, threading.Event(), threading.Event()

    def list_jobs(self) -> dict[str, cluster.Seen]:
        self.asked += 1
        self.began.set()
        self.answer.wait(60)
        raise InfrastructureError("busy")

    def ending(self, folder: Path) -> None: ...

    def cancel(self, folder: Path) -> None: ...

    def offers(self) -> str:
        return ""


def test_one_thread_asks_a_scheduler_and_the_others_do_not_wait() -> None:
    scheduler = SlowScheduler()
    first = threading.Thread(target=scheduler.jobs)
    first.start()
    scheduler.began.wait(60)
    scheduler.listed = {}
    assert scheduler.jobs() == {}
    scheduler.answer.set()
    first.join()
    scheduler.jobs(now=True)
    assert (scheduler.asked, scheduler.pause) == (2, 2 * cluster.OFTEN)


def test_a_node_that_died_is_not_believed_alive_once_its_job_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "network_kind", lambda _: "NFS")
    scheduler = SlowScheduler()
    monkeypatch.setattr(slurm.SlurmSandbox, "scheduler", scheduler, raising=False)
    sandbox = object.__new__(slurm.SlurmSandbox)
    sandbox.inner = ProcessSandbox()
    (tmp_path / "command.json").write_text("{}")
    (tmp_path / "lock").write_text("1 node-of-a-cluster\n")
    (tmp_path / "ticket").write_text("7")
    assert claim_attempt(tmp_path, "node")
    assert sandbox._settle(tmp_path).state == "lost"
    assert sandbox.poll(tmp_path).state == "lost"
