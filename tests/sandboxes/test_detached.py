"""A second process answers, fails or is ended; nothing is left of it."""

from __future__ import annotations

import fcntl
import os

from tuneloop.sandboxes.detached import is_readable, worker_process


def test_it_answers_with_its_output() -> None:
    with worker_process("platform") as other:
        assert b"Linux" in (other.answer() or b"")


def test_one_that_fails_has_no_answer() -> None:
    with worker_process("no.such.module") as other:
        assert other.answer() is None


def test_one_that_is_not_waited_for_is_ended() -> None:
    with worker_process("http.server", "0", "--bind", "127.0.0.1") as other:
        pid = other._child.pid
        assert os.path.isdir(f"/proc/{pid}")
    assert not os.path.isdir(f"/proc/{pid}")


def test_descriptors_beyond_those_of_select_can_be_waited_for() -> None:
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        assert not is_readable(high, 0)
        os.write(writing, b"x")
        assert is_readable(high, 0)
        assert os.read(high, 1) == b"x"
        os.close(writing)
        assert is_readable(high, 5), "the other end is closed"
    finally:
        os.close(reading)
        os.close(high)
