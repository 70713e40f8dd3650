"""Connections to the models' proxy for a job that can make no socket: it asks, the supervisor connects and hands them down.

`engines/handed_socket.py` is the job's side. One byte asks for a connection; it comes as a descriptor with one byte, or the
byte comes alone where nobody answers. Standard library only, as all of the supervisor.
"""

from __future__ import annotations

import os
import socket
import threading
import time

PATIENCE = 60.0  # seconds without anybody at the socket, as in forward.py
PAUSE = 0.1
REST = 0.01  # between two refusals: who asks without end shall not keep us busy


def serve(ours: socket.socket, endpoint: str) -> None:
    """Answer in a thread, as long as somebody of the job can ask."""
    threading.Thread(target=answer, args=(ours, endpoint), daemon=True).start()


def answer(ours: socket.socket, endpoint: str) -> None:
    """Until the job is over."""
    try:
        while ours.recv(1):
            try:
                with connect(endpoint) as line:
                    socket.send_fds(ours, [b"c"], [line.fileno()])
            except OSError:
                time.sleep(REST)
                ours.send(b"n")
    except OSError:
        return


def connect(endpoint: str) -> socket.socket:
    """A connection to the proxy, waited for, however long its path. Raises OSError."""
    deadline = time.monotonic() + PATIENCE
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            folder = os.open(os.path.dirname(endpoint), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
            try:
                line.connect(f"/proc/self/fd/{folder}/{os.path.basename(endpoint)}")  # noqa: PTH119
            finally:
                os.close(folder)
        except OSError:
            line.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
        else:
            return line
