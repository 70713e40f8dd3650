"""Benchmarks: one file an entry, or any folder of the user's.

An entry has `BENCHMARK`, or several of a family in `BENCHMARKS`, and either `fetch(folder)`, which makes the splits, or a
`source` on the hub and `pool(benchmark, raw)`, which reads the items of a public test set out of the source's files; where the
source itself has two splits, `splits(benchmark, raw, *more)`, with a folder for each of its sources. `train(benchmark, raw)`
reads rows to learn from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.benchmarks.checking import check_items
from tuneloop.tools.benchmarks.folder import (
    TEST,
    VALIDATION,
    BenchmarkFolder,
    Validation,
    open_folder,
    prompt,
    read_items,
    sealed_items,
    validation,
)
from tuneloop.tools.benchmarks.own import DECLARATION, import_own, read_own
from tuneloop.tools.benchmarks.scorer import check_needs
from tuneloop.tools.benchmarks.sources import fetched
from tuneloop.tools.benchmarks.splitting import seal_half
from tuneloop.tools.benchmarks.stock import PREFIX, check_stock, resolve_stock
from tuneloop.tools.registry import declared, unknown
from tuneloop.tools.store import make_whole

__all__ = [
    "BenchmarkFolder", "Validation", "check", "load", "names", "parts", "prompt", "resolve", "sealed_items", "validation",
]  # fmt: skip

HERE = sys.modules[__name__]


def names() -> tuple[str, ...]:
    """Registered benchmarks."""
    return tuple(declared(HERE, "BENCHMARK"))


def load(name: str) -> tuple[Benchmark, ModuleType]:
    """The declaration `name` and its module. Raises SetupError when there is none."""
    found: dict[str, tuple[Benchmark, ModuleType]] = declared(HERE, "BENCHMARK")
    if name not in found:
        raise unknown("benchmark", name, list(found), "or a folder with benchmark.yaml")
    return found[name]


def check(name_or_dir: str, settings: Settings | None = None) -> Benchmark:
    """The declaration; refuses what can be seen to be wrong before anything is fetched. Raises SetupError."""
    settings = settings or load_settings()
    found = declaration(name_or_dir, settings)
    check_needs(found, settings.scorer_folder)
    return found


def declaration(name_or_dir: str, settings: Settings) -> Benchmark:
    """What is declared under a name or in a folder. Raises SetupError."""
    if is_own(name_or_dir):
        return read_own(Path(name_or_dir).expanduser()).benchmark
    if name_or_dir.startswith(PREFIX):
        return check_stock(name_or_dir, settings)
    return load(name_or_dir)[0]


def parts(name_or_dir: str) -> tuple[str, ...]:
    """The benchmarks that a name stands for: those of a family, else itself. Raises SetupError for an unknown name."""
    return () if is_own(name_or_dir) or name_or_dir.startswith(PREFIX) else load(name_or_dir)[0].parts


def resolve(
    name_or_dir: str, home: Home, description: str | None = None, settings: Settings | None = None
) -> BenchmarkFolder:
    """The benchmark, fetched or copied when it is not there yet; `description` replaces the task's text.

    Raises SetupError when the name is unknown or the user's folder is wrong, WorldError when it cannot be fetched.
    """
    if is_own(name_or_dir):
        return import_own(Path(name_or_dir).expanduser().absolute(), home, description)
    if name_or_dir.startswith(PREFIX):
        return resolve_stock(name_or_dir, home, settings or load_settings(), description)
    benchmark, module = load(name_or_dir)
    if benchmark.parts:
        raise SetupError(f"benchmark {benchmark.name} is a family; right is {', '.join(benchmark.parts)}")
    if benchmark.source is None:
        root = make_whole(home.benchmarks / benchmark.name, partial(fill, benchmark, module.fetch))
    else:
        root = fetched(benchmark, module, home, settings or load_settings())
    return open_folder(benchmark.model_copy(update={"description": description}) if description else benchmark, root)


def fill(benchmark: Benchmark, make: Callable[[Path], None], part: Path) -> None:
    """Make the items in the folder `part`, check them, and seal a half of validation."""
    make(part)
    check_items(benchmark, read_items(part / VALIDATION), read_items(part / TEST), benchmark.name)
    seal_half(part)


def is_own(name_or_dir: str) -> bool:
    """Whether a folder is meant: a path, or a folder here that is no entry's name. Raises SetupError for a lost one."""
    path = Path(name_or_dir).expanduser()
    if name_or_dir in names():
        return False
    if name_or_dir.startswith(PREFIX):
        return False
    looks_like_path = "/" in name_or_dir or name_or_dir.startswith((".", "~"))
    if looks_like_path and not path.is_dir():
        raise SetupError(f"benchmark {path}: no such folder; right is a folder with {DECLARATION}, or a known name")
    return path.is_dir()
