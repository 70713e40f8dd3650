"""While a run works, copies of it go to object storage: after each experiment, and at the end; no failure of it stops the run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tuneloop.core.errors import FencedError, InfrastructureError, InvalidRequestError, PausedError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.mirror import push_run

GLANCE, LONGEST = 2.0, 600.0  # seconds between looks for an experiment that is over, and between tries that fail
SAY = logging.getLogger("tuneloop.storage")


@contextmanager
def mirrored(run: RunFolder, settings: Settings) -> Iterator[None]:
    """Copy the run where TUNELOOP_STORAGE says; who interrupts it does not wait for the last copy."""
    if settings.storage is None:
        yield
        return
    over, interrupted = threading.Event(), False
    beside = threading.Thread(target=copy_experiments, args=(run, settings.storage, over), name="storage", daemon=True)
    beside.start()
    try:
        yield
    except (KeyboardInterrupt, FencedError):  # who took the run over copies it, too
        interrupted = True
        SAY.warning("the copy of run %s in its storage may lack its end; later: tuneloop push %s", run.id, run.id)
        raise
    finally:
        over.set()
        if not interrupted:
            beside.join()
            copy_once(run, settings.storage)


def copy_experiments(run: RunFolder, url: str, over: threading.Event) -> None:
    """Until the run's work is `over`."""
    copied, wait = closed(run), GLANCE
    while not over.wait(wait):
        if (now := closed(run)) > copied:
            done = copy_once(run, url, over)
            copied, wait = (now, GLANCE) if done else (copied, min(2 * wait, LONGEST))


def closed(run: RunFolder) -> int:
    """Experiments that are over."""
    return sum(1 for _ in run.experiments.glob("[0-9]*/experiment.json"))


def copy_once(run: RunFolder, url: str, over: threading.Event | None = None) -> bool:
    """Whether it is copied; a failure is told, and the run goes on. `over`: of a run at work, when to leave it to the last copy."""

    def stop() -> None:
        if over is not None and over.is_set():
            raise PausedError("the last copy follows")

    try:
        push_run(run, url, lambda *_: None, stop=stop, at_work=over is not None)
    except PausedError:
        return False
    except (InvalidRequestError, InfrastructureError, OSError) as e:
        SAY.warning("run %s is not wholly copied, and goes on: %s; later: tuneloop push %s", run.id, e, run.id)
        return False
    return True
