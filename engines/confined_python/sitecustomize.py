"""Imported by every Python that a script in the landlock sandbox starts: multiprocessing without /dev/shm and sockets.

Locks, queues, pools, values and executors work, by `semaphores.py` and files of the job's own. New processes are forked, or
spawned where a script says so; a server of forks and a Manager need sockets. Standard library only; costs nothing before
multiprocessing, or `multiprocess`, is imported.
"""

from __future__ import annotations

import errno
import sys

TYPE_CHECKING = False  # typing would be most of what this costs
if TYPE_CHECKING:
    from typing import Any, NoReturn

PACKAGES = ("multiprocessing", "multiprocess")
NO_MANAGER = (
    "this sandbox has no sockets, which a Manager needs (datasets starts one for num_proc): "
    "right is multiprocessing.Pool or Queue, or num_proc left out"
)


class Finder:
    """Changes modules as they are imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG004
        """The module's own spec, whose end is ours."""
        package, _, module = name.partition(".")
        change = CHANGES.get(module) if package in PACKAGES else None
        if change is None:
            return None
        spec = next(filter(None, (other.find_spec(name, path) for other in sys.meta_path if other is not Finder)))
        run = spec.loader.exec_module

        def exec_module(loaded: Any) -> None:
            run(loaded)
            change(loaded)

        spec.loader.exec_module = exec_module
        return spec


def change_context(context: Any) -> None:
    """Our semaphores, which are imported later; fork, also where Python 3.14 would take a server; no Manager."""
    import semaphores

    sys.modules["_multiprocessing"] = semaphores
    ways = context._concrete_contexts
    ways["forkserver"] = ways["spawn"]
    context._default_context._default_context = ways["fork"]
    context.BaseContext.Manager = refuse_manager


def change_heap(heap: Any) -> None:
    """Values and arrays lie in files below TMPDIR."""
    heap.Arena._dir_candidates = []


def refuse_manager(*_: Any, **__: Any) -> NoReturn:
    """Raises OSError with the cure."""
    raise OSError(errno.EAFNOSUPPORT, NO_MANAGER)


CHANGES = {"context": change_context, "heap": change_heap}
sys.meta_path.insert(0, Finder)
