"""Benchmarks: one file an entry (`BENCHMARK` and `fetch`), or any folder of the user's."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home
from tuneloop.tools.benchmarks.checking import check_items
from tuneloop.tools.benchmarks.folder import (
    TEST,
    VALIDATION,
    BenchmarkFolder,
    items,
    open_folder,
    prompt,
    read_items,
    sealed_items,
)
from tuneloop.tools.benchmarks.own import DECLARATION, import_own, read_own
from tuneloop.tools.registry import entries, unknown
from tuneloop.tools.store import make_whole

__all__ = ["BenchmarkFolder", "check", "items", "load", "names", "prompt", "resolve", "sealed_items"]

HERE = sys.modules[__name__]


def names() -> tuple[str, ...]:
    """Registered benchmarks."""
    return tuple(entries(HERE, "BENCHMARK"))


def load(name: str) -> ModuleType:
    """The entry `name`: a module with `BENCHMARK` and `fetch(folder)`. Raises SetupError when there is none."""
    found = entries(HERE, "BENCHMARK")
    if name not in found:
        raise unknown("benchmark", name, list(found), "or a folder with benchmark.yaml")
    return found[name]


def check(name_or_dir: str) -> Benchmark:
    """The declaration; refuses what can be seen to be wrong before anything is fetched. Raises SetupError."""
    if is_own(name_or_dir):
        return read_own(Path(name_or_dir).expanduser()).benchmark
    declared: Benchmark = load(name_or_dir).BENCHMARK
    return declared


def resolve(name_or_dir: str, home: Home, description: str | None = None) -> BenchmarkFolder:
    """The benchmark, fetched or copied when it is not there yet; `description` replaces the task's text.

    Raises SetupError when the name is unknown or the user's folder is wrong.
    """
    if is_own(name_or_dir):
        return import_own(Path(name_or_dir).expanduser().absolute(), home, description)
    entry = load(name_or_dir)
    declared: Benchmark = entry.BENCHMARK

    def fill(part: Path) -> None:
        entry.fetch(part)
        check_items(declared, read_items(part / VALIDATION), read_items(part / TEST), declared.name)

    root = make_whole(home.benchmarks / declared.name, fill)
    return open_folder(declared.model_copy(update={"description": description}) if description else declared, root)


def is_own(name_or_dir: str) -> bool:
    """Whether a folder is meant: a path, or a folder here that is no entry's name. Raises SetupError for a lost one."""
    path = Path(name_or_dir).expanduser()
    if name_or_dir in names():
        return False
    looks_like_path = "/" in name_or_dir or name_or_dir.startswith((".", "~"))
    if looks_like_path and not path.is_dir():
        raise SetupError(f"benchmark {path}: no such folder; right is a folder with {DECLARATION}, or a known name")
    return path.is_dir()
