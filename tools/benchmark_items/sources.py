"""Benchmarks whose items come from the hub: the source's files, and the two splits that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import splitting
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import TEST, VALIDATION, item_line
from tuneloop.tools.hub.fetch import fetch_repository
from tuneloop.tools.hub.store import make_complete


def fetch_benchmark(benchmark: Benchmark, module: ModuleType, home: Home, settings: Settings) -> Path:
    """The folder of a benchmark with a source; made anew when what reads or splits the source has changed."""

    def fill(part: Path) -> None:
        raw = raw_files(benchmark, home, settings)
        more = [files_of(source, source.files, home, settings) for source in benchmark.more]
        validation, test = splits_of(benchmark, module, raw, *more)
        check_items(benchmark, validation, test, benchmark.name)
        write_lines(part / VALIDATION, map(item_line, validation))
        write_lines(part / TEST, map(item_line, test))
        splitting.seal_half(part)

    return make_complete(folder_of(benchmark, module, home), fill, benchmark=benchmark.name)


def folder_of(benchmark: Benchmark, module: ModuleType, home: Home) -> Path:
    """Where a benchmark with a source lies when it was fetched."""
    made_by = digest(*(digest_file(Path(str(m.__file__))) for m in (module, splitting)), benchmark.model_dump_json())
    return home.benchmarks / f"{benchmark.name}-{made_by}"


def splits_of(benchmark: Benchmark, module: ModuleType, raw: Path, *more: Path) -> tuple[list[Item], list[Item]]:
    """Validation and test items. Raises InvalidRequestError when the source's files are not what the entry reads."""
    try:
        if hasattr(module, "splits"):
            validation, test = module.splits(benchmark, raw, *more)
            return list(validation), list(test)
        return splitting.split(benchmark, module.pool(benchmark, raw))
    except (KeyError, ValueError, TypeError, OSError) as e:
        raise InvalidRequestError(
            f"benchmark {benchmark.name}: its source has another form than it had: {e!r}"[:400]
        ) from e


def train_rows(benchmark: Benchmark, module: ModuleType, home: Home, settings: Settings) -> Iterable[dict[str, Any]]:
    """The source's own rows to learn from. Raises InvalidRequestError when it has none."""
    if not hasattr(module, "train") or not (benchmark.source and benchmark.source.train):
        raise InvalidRequestError(f"benchmark {benchmark.name} has no training rows of its own")
    rows: Iterable[dict[str, Any]] = module.train(benchmark, raw_files(benchmark, home, settings, train=True))
    return rows


def raw_files(benchmark: Benchmark, home: Home, settings: Settings, *, train: bool = False) -> Path:
    """The source's files as the hub has them; no job and no tool reads them."""
    source: Source | None = benchmark.source
    if source is None:
        raise InvalidRequestError(f"benchmark {benchmark.name} has no source on the hub")
    return files_of(source, source.train if train else source.files, home, settings)


def files_of(source: Source, files: tuple[str, ...], home: Home, settings: Settings) -> Path:
    """The files of a repository that fit the patterns."""
    made_of = digest(str(source.revision), *files, *source.without)
    folder = home.benchmarks / "sources" / f"{source.repo.replace('/', '--')}-{made_of}"
    return fetch_repository(
        source.repo, "dataset", folder, settings, files=files, without=source.without, revision=source.revision
    )
