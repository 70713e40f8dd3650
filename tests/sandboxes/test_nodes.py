"""One job on two nodes of a real Slurm on this machine: it finds itself over a network, and ends as one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import slurm_cluster
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command, Limits
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster, node_group, slurm
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.choose import open_executor, open_sandbox
from tuneloop.sandboxes.cluster import ClusterSandbox
from tuneloop.sandboxes.jobs import launch, stop_and_wait, wait
from tuneloop.sandboxes.local import LocalSandbox

TALK = """
import os, pathlib, socket, sys, time
rank, count = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
port = pathlib.Path(os.environ["RDZV_ID"])
if rank:
    while not port.exists():
        time.sleep(0.01)
    line = socket.create_connection((os.environ["MASTER_ADDR"], int(port.read_text())), 30)
    line.sendall(b"hello")
else:
    server = socket.create_server(("", 0))
    pathlib.Path("part").write_text(str(server.getsockname()[1]))
    os.rename("part", port)
    print(count, server.accept()[0].recv(9), os.environ["GLOO_SOCKET_IFNAME"])
pathlib.Path(f"here-{rank}").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
"""
LASTS = (
    "import os, time\nwhile True:\n    open('beat-' + os.environ['NODE_RANK'], 'a').write('x')\n    time.sleep(0.05)\n"
)


@pytest.fixture(scope="module")
def nodes() -> Iterator[slurm_cluster.Cluster]:
    if absent := slurm_cluster.missing():
        pytest.skip(f"not there: {absent}")
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place, slurm_cluster.cluster(Path(place) / "c") as made:
        yield made


@pytest.fixture
def sandbox(nodes: slurm_cluster.Cluster, monkeypatch: pytest.MonkeyPatch) -> ClusterSandbox:
    return opened(nodes, monkeypatch, BubblewrapSandbox())


def opened(nodes: slurm_cluster.Cluster, monkeypatch: pytest.MonkeyPatch, inner: LocalSandbox) -> ClusterSandbox:
    for name, value in nodes.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cluster, "OFTEN", 0.5)
    monkeypatch.setattr(slurm, "CONTROLLER", slurm.Controller())
    made = open_executor("slurm", inner, Settings(TUNELOOP_SLURM_OPTIONS="--nodes=2 --gres=gpu:1"))
    assert isinstance(made, ClusterSandbox)
    return made


def job(work: Path, code: str, **fields: object) -> Command:
    work.mkdir(exist_ok=True)
    argv = (sys.executable, "-I", "-S", "-c", code)
    read = (sys.prefix, sys.base_prefix)
    return Command(argv=argv, cwd=str(work), write=(str(work),), read=read, limits=Limits(seconds=120), **fields)


def runners(folder: Path, what: bytes) -> list[int]:
    """Processes that run this function of the node's runner for the job."""
    named = bytes(folder)
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes()
        if named in words and what in words and b"srun" not in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_two_nodes_find_each_other_and_only_a_job_that_spans_has_a_network(
    sandbox: ClusterSandbox, tmp_path: Path
) -> None:
    folder = launch(sandbox, tmp_path / "jobs", "both", job(tmp_path / "work", TALK, spans=True))
    end = wait(sandbox, folder)
    said = [(folder / name).read_text() for name in ("log.txt", "cluster.out")]
    assert end.ok, said
    assert said[0].startswith("2 b'hello' ")
    assert [(tmp_path / "work" / f"here-{rank}").read_text() for rank in (0, 1)] == ["0", "0"], "each its own GPU"
    assert (folder / "claim").read_text().split()[2] == "2"
    assert (folder / "node-1" / "exit.json").is_file() and not (folder / "alive").exists()
    code = "import os, socket; print('NNODES' in os.environ, [name for _, name in socket.if_nameindex()])"
    alone = launch(sandbox, tmp_path / "jobs", "alone", job(tmp_path / "work", code))
    assert wait(sandbox, alone).ok
    assert (alone / "log.txt").read_text() == "False ['lo']\n"


@pytest.mark.soak
def test_landlock_lets_two_nodes_find_each_other(
    nodes: slurm_cluster.Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By TCP ports of the ephemeral range, and nothing else of a network."""
    try:
        inner = open_sandbox("landlock")
    except InvalidRequestError as e:
        pytest.skip(str(e))
    assert isinstance(inner, LocalSandbox)
    sandbox = opened(nodes, monkeypatch, inner)
    code = TALK + "try:\n    socket.socket(type=socket.SOCK_DGRAM)\nexcept OSError:\n    print('no datagrams')\n"
    folder = launch(sandbox, tmp_path / "jobs", "both", job(tmp_path / "work", code, spans=True))
    assert wait(sandbox, folder).ok, (folder / "log.txt").read_text()
    assert "no datagrams" in (folder / "log.txt").read_text()


@pytest.mark.soak
def test_a_stop_ends_both(sandbox: ClusterSandbox, tmp_path: Path) -> None:
    work = tmp_path / "work"
    folder = launch(sandbox, tmp_path / "jobs", "stop", job(work, LASTS, spans=True))
    until(lambda: all((work / f"beat-{rank}").exists() for rank in (0, 1)), seconds=90)
    stop_and_wait(sandbox, folder)
    assert sandbox.poll(folder).killed
    assert is_silent(work)


def is_silent(work: Path) -> bool:
    """Whether nobody writes there any more."""
    before = [file.stat().st_size for file in sorted(work.glob("beat-*"))]
    time.sleep(0.5)
    return before == [file.stat().st_size for file in sorted(work.glob("beat-*"))]


@pytest.mark.soak
@pytest.mark.parametrize("who", ["main", "follow"])
def test_a_dead_node_ends_both_and_the_next_attempt_is_alone(
    sandbox: ClusterSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Whichever dies: the first node's runner with all that it started, or the other's."""
    work = tmp_path / "work"
    command = job(work, LASTS, spans=True, key="k")
    folder = launch(sandbox, tmp_path / "jobs", "dies", command)
    until(lambda: all((work / f"beat-{rank}").exists() for rank in (0, 1)), seconds=90)
    for pid in runners(folder, b"import %s;" % who.encode()):
        os.kill(pid, signal.SIGKILL)
    until(lambda: sandbox.poll(folder).state != "running", seconds=180, every=0.2)
    assert sandbox.poll(folder).killed
    assert is_silent(work)
    assert launch(sandbox, tmp_path / "jobs", "dies", job(work, "print(1)", key="k")).name == "dies.2"
    stop_and_wait(sandbox, tmp_path / "jobs" / "dies.2")


def test_a_node_that_cannot_take_part_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = node_group.Group(tmp_path, job(tmp_path / "work", LASTS))
    assert group.count == 1, "a job that does not span has one node, whatever was granted"
    group.count = 3
    monkeypatch.setattr(node_group, "JOIN_SECONDS", 0.2)
    node_group.tell_leader(tmp_path, 1, node_group.Joined(error="n2: no sandbox"))
    with pytest.raises(InfrastructureError, match=r"node-2 of the job did not join: see cluster.out"):
        group.address(lambda: None)
    node_group.tell_leader(tmp_path, 2, node_group.Joined(leader="10.0.0.1"))
    with pytest.raises(InfrastructureError, match=r"^n2: no sandbox$"):
        group.address(lambda: None)
    node_group.tell_leader(tmp_path, 1, node_group.Joined(leader="10.0.0.1"))
    assert group.address(lambda: None) == "10.0.0.1"


def test_a_node_that_does_not_reach_the_first_is_named() -> None:
    with pytest.raises(InfrastructureError, match="does not reach the first node at 'no address"):
        node_group.interface_to("no address of any kind")


def test_the_interface_is_the_one_with_the_address() -> None:
    assert node_group.interface_to("127.0.0.1") == "lo"
