"""The supervisor's side of a job that a warm engine forks; `engines/fork_parent.py` is the other side and writes down the words.

Standard library only, as all of the supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from contextlib import suppress

from tuneloop.sandboxes.cgroups import CgroupLimits
from tuneloop.sandboxes.process_tree import descendants, send_signal
from tuneloop.sandboxes.spawn import JobLostError, Plan, WorkerUnavailableError

PATIENCE = 60.0  # seconds that a worker may be too busy to answer
PACKET = 1 << 16
PID = struct.Struct("3i")  # struct ucred


class ForkedJob:
    """A job that a worker's fork_parent forked; `code` is None while it runs."""

    wrappers = 0

    def __init__(self, plan: Plan, output: int, group: CgroupLimits | None) -> None:
        self.code: int | None = None
        self.most, self.spent = 0, 0.0
        self.line = connect_worker(plan.warm["socket"])  # type: ignore[index]
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.line.settimeout(PATIENCE)
        try:
            request = {**plan.warm, "cwd": plan.cwd, "env": plan.env, "write": plan.write}  # type: ignore[dict-item]
            socket.send_fds(self.line, [json.dumps(request).encode()], [output, plan.lock])
            self.fork_parent = self.receive_pid("fork_parent")
            self.pid = self.receive_pid("job")
            self.handle = os.pidfd_open(self.pid)
            if group:
                group.add(self.pid)
            self.line.send(b"go")
        except (OSError, ValueError) as e:
            raise WorkerUnavailableError(f"the worker does not answer: {e}") from e
        self.line.setblocking(False)

    def receive_pid(self, who: str) -> int:
        """The sender's pid, in our namespace, of the next message. Raises WorkerUnavailableError for a refusal."""
        data, ancillary, _, _ = self.line.recvmsg(PACKET, socket.CMSG_SPACE(PID.size))
        word = json.loads(data or "{}")
        if who not in word:
            raise WorkerUnavailableError(word.get("refused", "the worker ended"))
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
            self.kill_job()
        end = json.loads(data)
        self.code, self.most, self.spent = end["code"], end["peak"], end["cpu"]
        return False

    def kill_job(self) -> None:
        """Make sure that the job is dead. Raises Lost."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        send_signal(self.processes(), signal.SIGKILL)
        raise JobLostError("the worker was killed, and the job with it")

    def processes(self) -> list[int]:
        """Every process of the job."""
        return descendants(self.fork_parent)

    def ask(self) -> None:
        """SIGTERM to each."""
        send_signal(self.processes(), signal.SIGTERM)

    def peak(self) -> int:
        """Bytes that the largest process had."""
        return self.most

    def cpu(self) -> float:
        """CPU seconds of every process of the job."""
        return self.spent

    def verdict(self) -> int:
        """The exit status."""
        return self.code or 0


def connect_worker(place: str) -> socket.socket:
    """Connect to the socket at `place`, however long its path. Raises WorkerUnavailableError when no worker listens."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        folder = os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
        try:
            line.connect(f"/proc/self/fd/{folder}/{os.path.basename(place)}")  # noqa: PTH119
        finally:
            os.close(folder)
    except OSError as e:
        line.close()
        raise WorkerUnavailableError(f"no worker listens: {e.strerror}") from e
    return line


def retire_worker(place: str) -> bool:
    """Tell a worker to end when its last job is over; False when no worker listens."""
    try:
        with connect_worker(place) as line:
            line.send(b"retire")
    except (WorkerUnavailableError, OSError):
        return False
    return True
