"""What is declared of every registered benchmark, for lists: one row each, true whether it was fetched or not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.layout import Home
from tuneloop.core.setting_values import is_storage_url
from tuneloop.core.settings import Settings
from tuneloop.tools import benchmarks
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import (
    TEST,
    UNSEEN,
    VALIDATION,
    BenchmarkFolder,
    open_folder,
    read_items,
)
from tuneloop.tools.benchmark_items.opencompass_configs import PREFIX, check_opencompass, resolve_opencompass
from tuneloop.tools.benchmark_items.reasoning_gym import PREFIX as RG
from tuneloop.tools.benchmark_items.reasoning_gym import declare_reasoning_gym
from tuneloop.tools.benchmark_items.reasoning_gym_items import resolve_reasoning_gym
from tuneloop.tools.benchmark_items.sources import fetch_benchmark, folder_of
from tuneloop.tools.benchmark_items.splitting import seal_half
from tuneloop.tools.benchmark_items.user_folder import DECLARATION, import_user_benchmark, read_user_benchmark
from tuneloop.tools.hub.fetch import fetch_objects
from tuneloop.tools.hub.store import MANIFEST, make_complete
from tuneloop.tools.registry import declared_entries, unknown_entry
from tuneloop.tools.scoring import scorer
from tuneloop.tools.scoring.scorer import check_needs

# Benchmarks: one file an entry, or any folder of the user's.

HERE = benchmarks


def registered_names() -> tuple[str, ...]:
    """Registered benchmarks."""
    return tuple(declared_entries(HERE, "BENCHMARK"))


def load_entry(name: str) -> tuple[Benchmark, ModuleType]:
    """The declaration `name` and its module. Raises InvalidRequestError when there is none."""
    found: dict[str, tuple[Benchmark, ModuleType]] = declared_entries(HERE, "BENCHMARK")
    if name not in found:
        raise unknown_entry("benchmark", name, list(found), "or a folder with benchmark.yaml, or its s3://bucket/path")
    return found[name]


def check_benchmark(name_or_dir: str, settings: Settings) -> Benchmark:
    """The declaration; refuses what can be seen to be wrong before anything is fetched. Raises InvalidRequestError."""
    found = find_declaration(name_or_dir, settings)
    check_needs(found, settings.scorer_folder)
    return found


def find_declaration(name_or_dir: str, settings: Settings) -> Benchmark:
    """What is declared under a name, in a folder or at an address. Raises InvalidRequestError."""
    name_or_dir = local_name(name_or_dir, settings.home)
    if is_user_folder(name_or_dir):
        return read_user_benchmark(Path(name_or_dir).expanduser()).benchmark
    if name_or_dir.startswith(PREFIX):
        return check_opencompass(name_or_dir, settings)
    if name_or_dir.startswith(RG):
        return declare_reasoning_gym(name_or_dir)
    return load_entry(name_or_dir)[0]


def family_members(name_or_dir: str) -> tuple[str, ...]:
    """The benchmarks that a name stands for: those of a family, else itself. Raises InvalidRequestError for an unknown name."""
    if is_storage_url(name_or_dir) or is_user_folder(name_or_dir) or name_or_dir.startswith((PREFIX, RG)):
        return ()
    return load_entry(name_or_dir)[0].parts


def local_name(name: str, home: Home) -> str:
    """The folder that holds what lies at an address of an object storage now; any other name as it is."""
    return str(fetch_objects(name, "benchmark", home.benchmarks)[1]) if is_storage_url(name) else name


def resolve_benchmark(
    name_or_dir: str, home: Home, description: str | None = None, settings: Settings | None = None
) -> BenchmarkFolder:
    """The benchmark, fetched or copied when it is not there yet.

    Args:
        name_or_dir: a registered name, a folder, its address in an object storage, `opencompass:NAME` or `rg:TASK`.
        home: where benchmarks lie.
        description: replaces the task's text.
        settings: how to fetch; folders and made benchmarks need none.

    Raises:
        InvalidRequestError: the name is unknown, or the user's folder is wrong.
        InfrastructureError: the benchmark cannot be fetched.
    """
    name_or_dir = local_name(name_or_dir, home)
    if is_user_folder(name_or_dir):
        return import_user_benchmark(absolute_path(name_or_dir), home, description)
    if name_or_dir.startswith(PREFIX):
        return resolve_opencompass(name_or_dir, home, required(settings, name_or_dir), description)
    if name_or_dir.startswith(RG):
        return resolve_reasoning_gym(name_or_dir, home, required(settings, name_or_dir), description)
    benchmark, module = load_entry(name_or_dir)
    if benchmark.parts:
        raise InvalidRequestError(f"benchmark {benchmark.name} is a family; right is {', '.join(benchmark.parts)}")
    if benchmark.source is None:
        root = make_complete(home.benchmarks / benchmark.name, partial(write_items, benchmark, module.fetch))
    else:
        root = fetch_benchmark(benchmark, module, home, required(settings, name_or_dir))
    return open_folder(benchmark.model_copy(update={"description": description}) if description else benchmark, root)


def required(settings: Settings | None, name: str) -> Settings:
    """The settings that say how to fetch. Raises TypeError without."""
    if settings is None:
        raise TypeError(f"benchmark {name} is fetched: settings are needed")
    return settings


def write_items(benchmark: Benchmark, make: Callable[[Path], None], part: Path) -> None:
    """Make the items in the folder `part`, check them, and seal a half of validation."""
    make(part)
    check_items(benchmark, read_items(part / VALIDATION), read_items(part / TEST), benchmark.name)
    seal_half(part)


def is_user_folder(name_or_dir: str) -> bool:
    """Whether a folder is meant: a path, or a folder here that is no entry's name. Raises InvalidRequestError for a lost one."""
    path = Path(name_or_dir).expanduser()
    if name_or_dir in registered_names() or is_storage_url(name_or_dir):
        return False
    if name_or_dir.startswith((PREFIX, RG)):
        return False
    looks_like_path = "/" in name_or_dir or name_or_dir.startswith((".", "~"))
    if looks_like_path and not path.is_dir():
        raise InvalidRequestError(
            f"benchmark {path}: no such folder; right is a folder with {DECLARATION}, or a known name"
        )
    return path.is_dir()


TOLD = (
    "name", "domain", "description", "metric", "direction", "metrics", "answer", "form", "max_new_tokens", "samples",
    "temperature", "licence", "source", "parts", "unavailable",
)  # fmt: skip


def benchmark_cards(home: Home) -> list[dict[str, Any]]:
    """All registered ones, by name."""
    found = declared_entries(benchmarks, "BENCHMARK")
    return [benchmark_card(benchmark, module, home) for benchmark, module in found.values()]


def benchmark_card(benchmark: Benchmark, module: ModuleType, home: Home) -> dict[str, Any]:
    """`scoring_needs`: judge, code, files or nothing; `items`: counts of both splits where they are here, else null."""
    root = folder_of(benchmark, module, home) if benchmark.source else home.benchmarks / benchmark.name
    return {
        **benchmark.model_dump(mode="json", include=set(TOLD)),
        "needs": scoring_needs(benchmark),
        "items": item_counts(root),
    }


def scoring_needs(benchmark: Benchmark) -> list[str]:
    """What scoring needs beside a rule."""
    kinds = {"judge": benchmark.judge, "code": benchmark.executed, "files": bool(scorer.scorer_files(benchmark))}
    return [name for name, there in kinds.items() if there]


def item_counts(root: Path) -> dict[str, int] | None:
    """Items of a fetched benchmark, both halves of validation together; None where it is not here, or not whole."""
    files = {"validation": (VALIDATION, UNSEEN), "test": (TEST,)}
    if not (root / MANIFEST).is_file() or not (root / UNSEEN).is_file():
        return None
    return {
        split: sum(1 for name in names for line in (root / name).open("rb") if line.strip())
        for split, names in files.items()
    }
