"""Which items an evaluation outside of a run asks, and how: names become sets, and the seeds' variables overrule decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings
from tuneloop.tools import benchmarks
from tuneloop.tools.benchmarks import BenchmarkFolder
from tuneloop.tools.evaluation import ItemSet, Measured, item_set


@dataclass(frozen=True)
class Decoding:
    """What overrules the benchmarks' own declarations; None: nothing. `max_seq_len`: tokens of prompt and answer together."""

    max_out_len: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_seq_len: int | None = None
    batch_size: int | None = None

    def on(self, benchmark: Benchmark) -> Benchmark:
        """The benchmark decoded in this way. Raises SetupError for a number out of bounds."""
        changed = {"max_new_tokens": self.max_out_len, "temperature": self.temperature, "top_p": self.top_p}
        update = {name: value for name, value in changed.items() if value is not None}
        if not update:
            return benchmark
        try:
            return Benchmark.model_validate({**benchmark.model_dump(), **update})
        except ValidationError as e:
            first: Any = e.errors()[0]
            raise SetupError(f"{first['loc'][0]} {first['input']!r}: {first['msg']}") from e


def whole_names(names: Sequence[str], settings: Settings) -> list[str]:
    """Families replaced by their parts, each name once. Raises SetupError for an unknown one, before anything is fetched."""
    found = [part for name in names for part in benchmarks.parts(name) or (name,)]
    for name in found:
        benchmarks.check(name, settings)
    return list(dict.fromkeys(found))


def fetched(names: Sequence[str], settings: Settings) -> list[BenchmarkFolder]:
    """The benchmarks, fetched where they are not here yet. Raises SetupError or WorldError."""
    return [benchmarks.resolve(name, settings.home, settings=settings) for name in whole_names(names, settings)]


def sets_of(
    folders: Sequence[BenchmarkFolder], split: Measured, limit: int | None, decoding: Decoding
) -> tuple[ItemSet, ...]:
    """Their items. Raises SetupError where none are left, or where only a part of a sealed test is wanted."""
    if split == "test" and limit is not None:
        raise SetupError("--limit with --split test: a sealed test is read whole or not at all")
    found = []
    for folder in folders:
        declared = BenchmarkFolder(decoding.on(folder.benchmark), folder.root, folder.fingerprint)
        one = replace(item_set(declared, split, limit), unseen=frozenset())  # the owner of this machine sees all items
        if not one.items:
            raise SetupError(f"{one.name}: no items are left of its {split} split")
        found.append(one)
    return tuple(found)
