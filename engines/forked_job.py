"""Turns a fork of the worker into the job that a fresh Python would be, and ends it as Python would."""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import fork_isolation
import landlock


def become(request: dict[str, Any], ruleset: int, hook: Callable[[], None] | None, handles: Iterable[int]) -> NoReturn:
    """Run `request["argv"]`'s script as `__main__` and exit as Python does; `handles` are closed, the last one last."""
    fork_isolation.own_keys()
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    os.chdir(request["cwd"])
    landlock.restrict(ruleset)
    fork_isolation.filter_calls(request["filter"])
    fork_isolation.closed_to_others(False)
    for handle in handles:
        os.close(handle)
    gc.enable()
    code = status_of(lambda: execute(request["argv"][1:], hook))
    leave(code)


def execute(argv: list[str], hook: Callable[[], None] | None) -> None:
    """The script, with the arguments and the first import folder that it expects."""
    sys.argv[:] = argv
    sys.path[0] = str(Path(argv[0]).parent)
    if hook is not None:
        hook()
    runpy.run_path(argv[0], run_name="__main__")


def status_of(call: Callable[[], None]) -> int:
    """What Python's exit status would be; prints what it would print."""
    try:
        call()
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return (e.code or 0) & 0xFF
        print(e.code, file=sys.stderr)
        return 1
    except BaseException as e:  # noqa: BLE001 - as the interpreter does
        e.__traceback__ = own_frames(e.__traceback__)
        sys.excepthook(type(e), e, e.__traceback__)
        return -signal.SIGINT if isinstance(e, KeyboardInterrupt) else 1
    return 0


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames that a fresh Python would not have."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def leave(code: int) -> NoReturn:
    """End threads, run exit handlers, flush; skip taking the heap apart."""
    threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing does in its forks
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
