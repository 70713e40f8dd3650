"""A Docker daemon for the tests: the one that runs, else one of our own from the distribution's package."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuneloop.sandboxes.docker_api import DockerApi, RefusedError, UnreachableError
from tuneloop.sandboxes.process_tree import descendants

SYSTEMS = "/var/run/docker.sock"
PACKAGES = ("docker.io", "containerd", "runc", "iptables")
# Neither bridges nor rules of a firewall: jobs have no network. Containers outlive the daemon.
ALONE = ("--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--live-restore")
SECONDS = 60.0
PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"  # where daemons live, also of who does not look there


class OwnDaemon:
    """A daemon below `root`, which can be killed and started again."""

    def __init__(self, root: Path) -> None:
        self.root, self.socket = root, root / "docker.sock"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Until it answers."""
        root = self.root
        places = ("--data-root", root / "data", "--exec-root", root / "exec", "--pidfile", root / "dockerd.pid")
        with (root / "dockerd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [dockerd(), "-H", self.url, *map(str, places), *ALONE],
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": PATH},
                start_new_session=True,
            )
        deadline = time.monotonic() + SECONDS
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            return bool(DockerApi(str(self.socket), "1.41").ask("GET", "/version"))
        except (RefusedError, UnreachableError):
            return False

    def kill(self) -> None:
        """As a crash would; the containerd below it dies with it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        (self.root / "exec/containerd/containerd.pid").unlink(missing_ok=True)  # a zombie's counts as alive

    def stop(self) -> None:
        """The daemon, the containerd below it, and what they mounted."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(SECONDS)
        for shim in self.shims():
            os.kill(shim, signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((place for place in mounts if Path(place).is_relative_to(self.root)), reverse=True):
            subprocess.run(["umount", place], check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def shims(self) -> list[int]:
        """Those that a killed containerd has left, with what lives below them."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"containerd-shim-runc-v2") and bytes(self.root) in b" ".join(words):
                    pid = int(path.parent.name)
                    found += [pid, *descendants(pid)]
        return found

    def log(self) -> str:
        return (self.root / "dockerd.log").read_text()[-2000:]


def dockerd() -> str:
    """Its program, "" where there is none."""
    return shutil.which("dockerd", path=PATH) or ""


def installed() -> None:
    """Debian's packages; their services are not wanted."""
    if dockerd():
        return
    assert os.geteuid() == 0 and shutil.which("apt-get"), "no Docker daemon runs and none can be installed"
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=True)
        subprocess.run(install, capture_output=True, check=True)


@contextmanager
def own_daemon() -> Iterator[OwnDaemon]:
    """One that nobody else uses."""
    installed()
    daemon = OwnDaemon(Path(tempfile.mkdtemp(prefix="tuneloop-dockerd-")))
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()


@contextmanager
def any_daemon() -> Iterator[str]:
    """DOCKER_HOST of one that runs, else of our own, which ends with us."""
    given = os.environ.get("DOCKER_HOST", "")
    if given or os.access(SYSTEMS, os.W_OK):
        yield given or f"unix://{SYSTEMS}"
        return
    with own_daemon() as daemon:
        os.environ["DOCKER_HOST"] = daemon.url
        yield daemon.url
        del os.environ["DOCKER_HOST"]
