"""One job on several nodes of an allocation: the first node's runner leads, one on each of the others follows it.

`srun` starts the followers. A follower says in the job's folder under which address `srun` reached it from; by that address
its processes find the first node's (`engines/llamafactory/lf_processes.py`). It runs the job's command in its own sandbox, in
`node-K/` of the job's folder, and ends it when the job has ended or the leader gives no sign of life.

Not covered: nodes that know each other by IPv6 alone; InfiniBand.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.frozen import Frozen
from tuneloop.core.job import Command
from tuneloop.sandboxes.local import ROOT

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from tuneloop.sandboxes.node_runner import follow; follow(*sys.argv[2:])"
JOIN_SECONDS = 120.0  # in which all nodes' runners have to be there
LAST_SECONDS = 20.0  # that they have to end in once the job has
BROKEN_SECONDS = 60.0  # after which one that has ended badly ends the job, unless the job's processes did it before
SIOCGIFADDR = 0x8915
NODE = "node-"  # and a number: what belongs to one of the other nodes, in the job's folder


class Joined(Frozen):
    """What a follower says: the address that the leader's call came from, or why it cannot take part."""

    leader: str = ""
    error: str = ""


class Group:
    """The followers, as the leader sees them; none where the job has one node."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder, self.count = folder, nodes_granted() if command.spans else 1
        self.threads = command.env.get("TUNELOOP_JOB_THREADS", "1")
        self.srun: subprocess.Popen[bytes] | None = None
        self.broken = 0.0

    def start(self, kind: str, memory: str) -> None:
        """Their runners, each for the sandbox `kind`. Raises InfrastructureError."""
        others = str(self.count - 1)
        how = (
            "--relative=1",
            f"--nodes={others}",
            f"--ntasks={others}",
            "--ntasks-per-node=1",
            "--overlap",
            "--chdir=/",
        )
        runner = (sys.executable, "-I", "-c", BOOT, str(ROOT), str(self.folder), kind, memory)
        try:
            argv = ("srun", *how, f"--cpus-per-task={self.threads}", *runner)
            self.srun = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        except OSError as e:
            raise InfrastructureError(f"srun does not start: {e}") from e

    def address(self, tick: Callable[[], None]) -> str:
        """Where the followers reach this node, once all are there. Raises InfrastructureError."""
        end = time.monotonic() + JOIN_SECONDS
        files = [self.folder / f"{NODE}{rank}.json" for rank in range(1, self.count)]
        while missing := [file.stem for file in files if not file.is_file()]:
            if time.monotonic() > end or (self.srun and self.srun.poll() is not None):
                raise InfrastructureError(
                    f"{', '.join(missing)} of the job did not join: see cluster.out beside this log"
                )
            tick()
            time.sleep(0.1)
        joined = [read_model(file, Joined) for file in files]
        if errors := [one.error for one in joined if one.error]:
            raise InfrastructureError(errors[0])
        return joined[0].leader

    def is_broken(self) -> bool:
        """Whether a follower ended badly a while ago, and the job has not ended by itself."""
        if self.srun is None or not self.srun.poll():
            return False
        self.broken = self.broken or time.monotonic()
        return time.monotonic() - self.broken > BROKEN_SECONDS

    def wait(self, tick: Callable[[], None]) -> None:
        """After the job's end, until the followers have ended too: no next attempt begins beside them."""
        end = time.monotonic() + LAST_SECONDS
        while self.srun and self.srun.poll() is None and time.monotonic() < end:
            tick()
            time.sleep(0.1)

    def end(self) -> None:
        """What is left of them: srun ends its tasks by force."""
        if self.srun is not None and self.srun.poll() is None:
            self.srun.terminate()
            self.srun.wait()


def spans_nodes(folder: Path) -> bool:
    """Whether other nodes take part in the job of this folder."""
    return (folder / f"{NODE}1.json").is_file()


def nodes_granted() -> int:
    """Nodes of this job's allocation."""
    return int(os.environ.get("SLURM_JOB_NUM_NODES") or 1)


def tell_leader(folder: Path, rank: int, joined: Joined) -> None:
    """That this node is there, or why it cannot be."""
    write_json(folder / f"{NODE}{rank}.json", joined.model_dump())


def as_node(command: Command, kind: str, folder: Path, rank: int, count: int, leader: str) -> Command:
    """The command as one of several nodes has it: with a network, and what it needs to find the others.

    Landlock's sandbox has TCP in the ephemeral range for such a job, and needs no more.
    """
    interface = interface_to(leader)
    env = {"FORCE_TORCHRUN": "1", "NNODES": str(count), "NODE_RANK": str(rank), "MASTER_ADDR": leader}
    env |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    env["RDZV_ID"] = f"{folder.name}-{os.environ.get('SLURM_JOB_ID', '')}"
    if rank and "HF_HOME" in command.env:  # two nodes do not write into one cache
        env["HF_HOME"] = f"{command.env['HF_HOME']}-{rank}"
    return command.model_copy(update={"env": {**command.env, **env}, "network": kind != "landlock"})


def interface_to(address: str) -> str:
    """The network interface by which this node reaches an IPv4 address, also one of its own. Raises InfrastructureError."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.connect((address, 9))  # sends nothing
            own = line.getsockname()[0]
            for _, name in socket.if_nameindex():
                try:
                    found = fcntl.ioctl(line, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                except OSError:  # it has no address
                    continue
                if socket.inet_ntoa(found[20:24]) == own:
                    return name
    except OSError as e:
        raise InfrastructureError(f"{os.uname().nodename} does not reach the first node at {address!r}: {e}") from e
    raise InfrastructureError(f"{os.uname().nodename} has no interface with the address {own}")
