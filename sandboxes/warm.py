"""The keeper's side of a job that a warm engine forks; `engines/warden.py` is the other side and writes down the words.

Standard library only, as all of the supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from contextlib import suppress

from tuneloop.sandboxes.cgroups import Group
from tuneloop.sandboxes.spawn import Cold, Lost, Plan
from tuneloop.sandboxes.tree import send, tree

PATIENCE = 60.0  # seconds that a worker may be too busy to answer
PACKET = 1 << 16
PID = struct.Struct("3i")  # struct ucred


class Forked:
    """A job that a worker's warden forked; `code` is None while it runs."""

    wrappers = 0

    def __init__(self, plan: Plan, output: int, group: Group | None) -> None:
        self.code: int | None = None
        self.most, self.spent = 0, 0.0
        self.line = call(plan.warm["socket"])  # type: ignore[index]
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.line.settimeout(PATIENCE)
        try:
            request = {**plan.warm, "cwd": plan.cwd, "env": plan.env, "write": plan.write}  # type: ignore[dict-item]
            socket.send_fds(self.line, [json.dumps(request).encode()], [output, plan.lock])
            self.warden = self.introduced("warden")
            self.pid = self.introduced("job")
            self.handle = os.pidfd_open(self.pid)
            if group:
                group.add(self.pid)
            self.line.send(b"go")
        except (OSError, ValueError) as e:
            raise Cold(f"the worker does not answer: {e}") from e
        self.line.setblocking(False)

    def introduced(self, who: str) -> int:
        """The pid, as we see it, of who speaks next. Raises Cold when it is a refusal."""
        data, ancillary, _, _ = self.line.recvmsg(PACKET, socket.CMSG_SPACE(PID.size))
        word = json.loads(data or "{}")
        if who not in word:
            raise Cold(word.get("refused", "the worker ended"))
        return int(next(PID.unpack(c)[0] for _, kind, c in ancillary if kind == socket.SCM_CREDENTIALS))

    def reap(self) -> bool:
        """False when nothing of the job is left. Raises Lost when its end will never be told."""
        if self.code is not None:
            return False
        try:
            data = self.line.recv(PACKET)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self.bury()
        end = json.loads(data)
        self.code, self.most, self.spent = end["code"], end["peak"], end["cpu"]
        return False

    def bury(self) -> None:
        """Make sure that the job is dead. Raises Lost."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        send(self.processes(), signal.SIGKILL)
        raise Lost("the worker was killed, and the job with it")

    def processes(self) -> list[int]:
        """Every process of the job."""
        return tree(self.warden)

    def ask(self) -> None:
        """SIGTERM to each."""
        send(self.processes(), signal.SIGTERM)

    def peak(self) -> int:
        """Bytes that the largest process had."""
        return self.most

    def cpu(self) -> float:
        """CPU seconds of every process of the job."""
        return self.spent

    def verdict(self) -> int:
        """The exit status."""
        return self.code or 0


def call(place: str) -> socket.socket:
    """Connect to the socket at `place`, however long its path. Raises Cold when nobody listens."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        folder = os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
        try:
            line.connect(f"/proc/self/fd/{folder}/{os.path.basename(place)}")  # noqa: PTH119
        finally:
            os.close(folder)
    except OSError as e:
        line.close()
        raise Cold(f"no worker listens: {e.strerror}") from e
    return line


def listens(place: str) -> bool:
    """Whether a worker answers there."""
    try:
        call(place).close()
    except Cold:
        return False
    return True


def retire(place: str) -> bool:
    """Tell a worker to end when its last job is over; False when nobody listens."""
    try:
        with call(place) as line:
            line.send(b"retire")
    except (Cold, OSError):
        return False
    return True
