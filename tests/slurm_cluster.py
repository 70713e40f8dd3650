"""A Slurm cluster of its own on this machine: munged, slurmctld and one slurmd for each node, on free ports."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.waiting import until
from tuneloop.core.run_spec import ExecutorKind

SILENCE = 120  # seconds after which a node is down: a busy machine is none
NEEDS = ("munged", "slurmctld", "slurmd", "sbatch")
CONF = """\
ClusterName=test
SlurmctldHost={host}
SlurmUser=root
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout={silence}
SlurmctldTimeout=10
InactiveLimit=0
KillWait=5
MinJobAge=300
PreemptMode=OFF
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes={names} MaxTime=10 State=UP
"""

SITE = Path(sys.prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
# A node of its own: an empty disk where this machine's files lie, packages beside ours, and its own profile.
ALONE = """
mount -t overlay overlay -o lowerdir={site}:{packages} {site} && mount --bind {profile} /etc/profile &&
mount -t tmpfs tmpfs {hidden} && exec "$@"
"""


def missing() -> str:
    """What is not there: Slurm's programs, or root, who starts them."""
    absent = [name for name in NEEDS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return ", ".join(absent) or ("root" if os.geteuid() else "")


@dataclass
class Cluster:
    """Its folder, and its processes by name."""

    executor: ClassVar[ExecutorKind] = "slurm"
    root: Path
    nodes: tuple[str, ...]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lost: str = ""
    within: tuple[str, ...] = ()  # the command that starts the daemons of nodes

    @property
    def env(self) -> dict[str, str]:
        """Variables by which Slurm's commands find it."""
        return {"SLURM_CONF": str(self.root / "slurm.conf")}

    def start(self, name: str) -> None:
        """A daemon: munged, slurmctld, or a node's name."""
        there = self.root
        munged = (
            f"--key-file={there}/munge.key",
            f"--socket={there}/munge.socket",
            f"--pid-file={there}/munge.pid",
            f"--log-file={there}/munge.log",
            f"--seed-file={there}/munge.seed",
        )
        argv = {
            "munged": ("munged", "--foreground", "--force", *munged),
            "slurmctld": ("slurmctld", "-D", "-f", f"{there}/slurm.conf"),
        }.get(name) or (*self.within, "slurmd", "-D", "-f", f"{there}/slurm.conf", "-N", name)
        env = {**os.environ, **self.env, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        with (self.root / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one daemon alone. A controller that is killed forgets its newest jobs and gives their numbers again."""
        self.processes[name].send_signal(how)
        self.processes[name].wait()

    def expect_signs(self, seconds: int) -> None:
        """From nodes, so often."""
        conf = self.root / "slurm.conf"
        conf.write_text(re.sub(r"SlurmdTimeout=\d+", f"SlurmdTimeout={seconds}", conf.read_text()))
        self.ask("scontrol", "reconfigure")

    def end_node(self, job: str) -> None:
        """The daemon of the node that runs a job; soon the controller counts it as lost."""
        self.expect_signs(10)
        self.lost = self.ask("squeue", "-h", f"--name={job}", "-o", "%N").strip()
        self.end(self.lost)

    def mend_node(self) -> None:
        """Start it again."""
        self.expect_signs(SILENCE)
        self.start(self.lost)
        self.wait_until_idle()

    def end_controller(self) -> None:
        """As an administrator does; a controller that is killed forgets."""
        self.end("slurmctld", signal.SIGTERM)

    def mend_controller(self) -> None:
        """Start it again, with all that it knew."""
        self.start("slurmctld")
        until(lambda: self.ask("sinfo", "--noheader"), seconds=30)

    def ask(self, *argv: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(argv, env={**os.environ, **self.env}, capture_output=True, text=True, check=False)
        return done.stdout

    def resume_nodes(self) -> None:
        """As an administrator does where a controller that forgot has drained a node: it gives numbers of jobs again."""
        for name in set(self.ask("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split()):
            self.ask("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def told(self) -> str:
        """Its nodes and jobs, and the last words of daemons that have ended."""
        asked = (self.ask("sinfo", "-N", "-l"), self.ask("squeue", "-l"))
        ended = [name for name, process in self.processes.items() if process.poll() is not None]
        return "\n".join([*asked, *(f"{name}: {(self.root / f'{name}.out').read_text()[-500:]}" for name in ended)])

    def wait_until_idle(self) -> None:
        """Every node can take jobs."""
        end = time.monotonic() + 60
        while (states := self.ask("sinfo", "-h", "-N", "-o", "%T").split()).count("idle") < len(self.nodes):
            if time.monotonic() > end:
                raise TimeoutError(f"{states}: {(self.root / 'slurmctld.log').read_text()[-2000:]}")
            time.sleep(0.1)


def alone(hidden: Path, profile: Path, packages: Path, given: Mapping[str, str]) -> tuple[str, ...]:
    """The command that starts a node's daemon where nothing of the folder `hidden` is seen; `given`: variables of its users."""
    profile.write_text("".join(f"export {name}={value}\n" for name, value in given.items()))
    script = ALONE.format(site=SITE, packages=packages, profile=profile, hidden=hidden)
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "node")


def processes_with(words: str) -> list[int]:
    """Processes whose command line has these words."""
    found = Path("/proc").glob("[0-9]*/cmdline")
    return [int(path.parent.name) for path in found if words.encode() in path.read_bytes()]


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def cluster(root: Path, *, nodes: int = 2, within: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """A running cluster with GPUs that are none (/dev/null); everything is ended after the block."""
    root.mkdir(parents=True)
    (root / "state").mkdir()
    (root / "munge.key").write_bytes(secrets.token_bytes(128))
    (root / "munge.key").chmod(0o600)
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    controller, *ports = free_ports(nodes + 1)
    host = socket.gethostname()
    lines = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000 Gres=gpu:1 State=UNKNOWN"
        for name, port in zip(names, ports, strict=True)
    ]
    conf = CONF.format(
        host=f"{host}(127.0.0.1)",
        controller=controller,
        root=root,
        nodes="\n".join(lines),
        names=",".join(names),
        silence=SILENCE,
    )
    (root / "slurm.conf").write_text(f"GresTypes=gpu\n{conf}")
    (root / "gres.conf").write_text("".join(f"NodeName={name} Name=gpu File=/dev/null\n" for name in names))
    made = Cluster(root, names, within=within)
    try:
        made.start("munged")
        end = time.monotonic() + 20
        while not (root / "munge.socket").exists():
            if time.monotonic() > end:
                raise TimeoutError((root / "munged.out").read_text())
            time.sleep(0.05)
        for name in ("slurmctld", *names):
            made.start(name)
        made.wait_until_idle()
        yield made
    finally:
        made.ask("scancel", "--user=root")
        for name in (*names, "slurmctld", "munged"):
            if name in made.processes:
                made.processes[name].send_signal(signal.SIGTERM)
        for one in made.processes.values():
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
