"""The benchmarks of a run: as they are declared, and with their items; without one a stand-in that has no items."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.catalog import Benchmark
from tuneloop.core.files import write_lines
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import NO_BENCHMARK, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import TEST, UNSEEN, VALIDATION, BenchmarkFolder, open_folder
from tuneloop.tools.benchmark_items.resolve import check_benchmark, resolve_benchmark
from tuneloop.tools.hub.store import make_complete

# Whatever looks for items of the run's benchmarks finds none here. No list of benchmarks names it.
UNEVALUATED = Benchmark(
    name=NO_BENCHMARK,
    domain=NO_BENCHMARK,
    description="Reply as the data do.",
    metric=NO_BENCHMARK,
    max_new_tokens=2048,
    licence=NO_BENCHMARK,
)


def declared_benchmarks(spec: RunSpec, settings: Settings) -> list[Benchmark]:
    """The one that decides first. Raises InvalidRequestError for a name that nobody knows."""
    if not spec.evaluated:
        return [UNEVALUATED]
    return [check_benchmark(name, settings) for name in spec.measured]


def resolve_benchmarks(spec: RunSpec, settings: Settings) -> list[BenchmarkFolder]:
    """The same with their items, fetched where they are not there. Raises InvalidRequestError, InfrastructureError."""
    if not spec.evaluated:
        return [without_items(settings.home, spec.benchmark_description)]
    described = [spec.benchmark_description, *(None for _ in spec.measured[1:])]
    return [
        resolve_benchmark(name, settings.home, text, settings)
        for name, text in zip(spec.measured, described, strict=True)
    ]


def without_items(home: Home, description: str | None = None) -> BenchmarkFolder:
    """The stand-in, with the user's words for the task where there are some."""

    def fill(part: Path) -> None:
        for name in (VALIDATION, UNSEEN, TEST):
            write_lines(part / name, ())

    told = {"description": description} if description else {}
    return open_folder(UNEVALUATED.model_copy(update=told), make_complete(home.benchmarks / NO_BENCHMARK, fill))
