"""The training rows that a benchmark's own source has, offered as the data set `<benchmark>-train`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.dataset import Dataset
from tuneloop.core.files import digest, digest_file, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools import benchmarks
from tuneloop.tools.benchmarks.sources import train_rows
from tuneloop.tools.store import make_whole

SUFFIX = "-train"


@cache
def cards() -> dict[str, Dataset]:
    """A card for each benchmark whose source has training rows, by name."""
    found = (card(benchmarks.load(name)[0]) for name in benchmarks.names() if _has_rows(name))
    return {dataset.name: dataset for dataset in found}


def card(benchmark: Benchmark) -> Dataset:
    """What can be said without having them."""
    assert benchmark.source
    source = benchmark.source.model_copy(update={"files": benchmark.source.train, "train": ()})
    first = benchmark.description.partition(". ")[0].rstrip(".")
    return Dataset(
        name=benchmark.name + SUFFIX,
        description=f"Training rows of {source.repo}, which {benchmark.name} is taken from, as JSON Lines. There: {first}.",
        domain=benchmark.domain,
        licence=benchmark.licence,
        source=source,
        teaches=(benchmark.name,),
        quality="In the benchmark's own kind of questions; the contamination guard looks for its items in them.",
    )


def make(name: str, home: Home, settings: Settings) -> Path:
    """The folder with `rows.jsonl`. Raises SetupError or WorldError."""
    benchmark, module = benchmarks.load(name.removesuffix(SUFFIX))
    made_by = digest(digest_file(Path(str(module.__file__))), benchmark.model_dump_json())

    def fill(part: Path) -> None:
        write_lines(part / "rows.jsonl", train_rows(benchmark, module, home, settings))

    return make_whole(home.datasets / f"{name}-{made_by}", fill, benchmark=benchmark.name)


def _has_rows(name: str) -> bool:
    benchmark, module = benchmarks.load(name)
    return bool(benchmark.source and benchmark.source.train and hasattr(module, "train"))
