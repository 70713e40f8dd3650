"""A Ray cluster of its own on this machine, in a network namespace that has loopback alone; a port of ours leads into it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import httpx

from tests.waiting import until
from tuneloop.core.run_spec import ExecutorKind

RAY = Path(__file__).parent.parent / ".venv" / "ray" / "bin" / "ray"
TOKEN = "token-4f21"
DASHBOARD = 8265  # inside
SECOND = r"127.0.0.3"
TRIES = 8
QUEUE_SECONDS = 12  # after which this Ray puts a job out of its queue
# Inside the namespace: what comes in at a socket that was made outside goes to the dashboard.
FORWARD = """
import socket, subprocess, sys, threading
subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass
listener = socket.socket(fileno=int(sys.argv[1]))
print("up", flush=True)
while True:
    one, _ = listener.accept()
    try:
        other = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    except OSError:
        one.close()
        continue
    for pair in ((one, other), (other, one)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


def missing() -> str:
    """What is not there: Ray (`make slow` installs it), or the right to make a network namespace."""
    if not RAY.is_file():
        return str(RAY)
    made = shutil.which("unshare") and shutil.which("ip") and subprocess.run(("unshare", "--net", "true"), check=False)
    return "" if made and made.returncode == 0 and os.geteuid() == 0 else "a network namespace"


@dataclass
class Cluster:
    """Its folder, the process that holds the namespace, and the port here."""

    executor: ClassVar[ExecutorKind] = "ray"
    root: Path
    holder: subprocess.Popen[bytes]
    address: str

    @property
    def env(self) -> dict[str, str]:
        """Variables by which tuneloop finds it."""
        return {"RAY_ADDRESS": self.address, "RAY_AUTH_TOKEN": TOKEN}

    def start(self, mine: str, *options: str) -> None:
        """A node, whose command lines have `mine`; its options say which. Ray gives it half a minute, too little when busy."""
        argv = [str(RAY), "start", "--num-cpus=2", "--num-gpus=1", "--memory=2000000000", "--disable-usage-stats"]
        inside = ("nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *argv, "--object-store-memory=80000000", *options)
        auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_JOB_START_TIMEOUT_SECONDS": str(QUEUE_SECONDS)}
        out = self.root.parent / "ray.out"  # no pipe: its daemons keep it
        for left in range(TRIES - 1, -1, -1):
            with out.open("wb") as to:
                done = subprocess.run(
                    inside, env={**os.environ, **auth}, stdin=subprocess.DEVNULL, stdout=to, stderr=to, check=False
                )
            if done.returncode == 0:
                return
            assert left, out.read_text()[-2000:]
            self.end(mine)

    def start_head(self) -> None:
        """Wait until it answers and has its own node."""
        shutil.rmtree(self.root, ignore_errors=True)
        dashboard = ("--dashboard-host=127.0.0.1", f"--dashboard-port={DASHBOARD}")
        self.start("", "--head", "--port=6379", "--node-ip-address=127.0.0.1", f"--temp-dir={self.root}", *dashboard)
        self.wait_for_nodes(1)

    def grant(self, resource: str) -> None:
        """A second node that has this, unless there is one."""
        if not self.processes(rf"raylet/raylet .*{SECOND}"):
            self.start(
                SECOND, "--address=127.0.0.1:6379", f"--node-ip-address={SECOND}", f'--resources={{"{resource}": 1}}'
            )
            self.wait_for_nodes(2)

    def processes(self, words: str = "") -> list[int]:
        """Those of the namespace whose command line has `words`."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                same = (entry / "ns/net").readlink() == Path(f"/proc/{self.holder.pid}/ns/net").readlink()
                if same and re.search(words, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()):
                    found.append(int(entry.name))
        return found

    def end(self, words: str) -> None:
        """SIGKILL what has `words`: never `ray stop`, which ends every Ray of the machine."""
        for pid in self.processes(words):
            if pid != self.holder.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def end_node(self, job: str) -> None:
        """The second node's daemon."""
        self.end(rf"raylet/raylet .*{SECOND}")

    def mend_node(self) -> None:
        """Whoever needs it has it granted again."""

    def end_controller(self) -> None:
        """The head's store of all state, without which the cluster is lost."""
        self.end("gcs_server")

    def mend_controller(self) -> None:
        """Another cluster at the same address, which knows nothing."""
        self.end_all()
        self.start_head()

    def end_all(self) -> None:
        """Head and nodes, and all that they run."""
        while set(self.processes()) - {self.holder.pid}:
            self.end("")
            time.sleep(0.1)

    def ask(self, path: str, method: str = "GET") -> httpx.Response:
        """What the dashboard says."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=20)

    def told(self) -> str:
        """Its jobs, the newest last; "" where it does not answer."""
        try:
            rows = self.ask("/api/jobs/").json()
        except (httpx.HTTPError, ValueError):
            return ""
        return "\n".join(sorted(f"{row['start_time']} {row['submission_id']} {row['status']}" for row in rows)[-20:])

    def wait_for_nodes(self, count: int) -> None:
        """So many live, and the autoscaler has told of them."""

        def there() -> bool:
            try:
                rows = self.ask("/api/v0/nodes").json()["data"]["result"]["result"]
                told = self.ask("/api/cluster_status").json()["data"]["clusterStatus"]["autoscalerReport"]
            except (httpx.HTTPError, ValueError, LookupError, TypeError):
                return False
            return [row["state"] for row in rows].count("ALIVE") == count and bool(told)

        until(there, seconds=90, every=0.2)


@contextmanager
def cluster(root: Path) -> Iterator[Cluster]:
    """A running cluster with a GPU that is none; everything is ended after the block.

    A thread that has a network of its own shares it with the cluster.
    """
    own = Path("/proc/thread-self/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = (
            *(() if own else ("unshare", "--net", "--")),
            sys.executable,
            "-I",
            "-c",
            FORWARD,
            str(listener.fileno()),
            str(DASHBOARD),
        )
        holder = subprocess.Popen(argv, stdout=subprocess.PIPE, pass_fds=(listener.fileno(),))
        made = Cluster(root, holder, f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        made.start_head()
        yield made
    finally:
        made.end_all()
        holder.kill()
        holder.wait()
