"""The training rows that a benchmark's own source has, offered as the data set `<benchmark>-train`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Dataset
from tuneloop.core.files import digest, digest_file, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.sources import train_rows
from tuneloop.tools.hub.store import make_complete

SUFFIX = "-train"


@cache
def training_row_cards() -> dict[str, Dataset]:
    """A card for each benchmark whose source has training rows, by name."""
    found = (training_row_card(resolve.load_entry(name)[0]) for name in resolve.registered_names() if _has_rows(name))
    return {dataset.name: dataset for dataset in found}


def training_row_card(benchmark: Benchmark) -> Dataset:
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


def make_training_rows(name: str, home: Home, settings: Settings) -> Path:
    """The folder with `rows.jsonl`. Raises InvalidRequestError or InfrastructureError."""
    benchmark, module = resolve.load_entry(name.removesuffix(SUFFIX))
    made_by = digest(digest_file(Path(str(module.__file__))), benchmark.model_dump_json())

    def fill(part: Path) -> None:
        write_lines(part / "rows.jsonl", train_rows(benchmark, module, home, settings))

    return make_complete(home.datasets / f"{name}-{made_by}", fill, benchmark=benchmark.name)


def _has_rows(name: str) -> bool:
    benchmark, module = resolve.load_entry(name)
    return bool(benchmark.source and benchmark.source.train and hasattr(module, "train"))
