"""A second process answers, fails or is ended; nothing is left of it."""

from __future__ import annotations

import os

from tuneloop.sandboxes.detached import worker_process


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
