"""What is declared of every registered benchmark, for lists: one row each, true whether it was fetched or not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.layout import Home
from tuneloop.tools import benchmarks
from tuneloop.tools.benchmarks import scorer
from tuneloop.tools.benchmarks.folder import TEST, UNSEEN, VALIDATION
from tuneloop.tools.benchmarks.sources import folder_of
from tuneloop.tools.registry import declared
from tuneloop.tools.store import MANIFEST

TOLD = (
    "name", "domain", "description", "metric", "direction", "metrics", "answer", "form", "max_new_tokens", "samples",
    "temperature", "licence", "source", "parts", "unavailable",
)  # fmt: skip


def cards(home: Home) -> list[dict[str, Any]]:
    """All registered ones, by name."""
    found = declared(sys.modules[benchmarks.__name__], "BENCHMARK")
    return [card(benchmark, module, home) for benchmark, module in found.values()]


def card(benchmark: Benchmark, module: ModuleType, home: Home) -> dict[str, Any]:
    """`needs`: judge, code, files or nothing; `items`: counts of both splits where they are here, else null."""
    root = folder_of(benchmark, module, home) if benchmark.source else home.benchmarks / benchmark.name
    return {
        **benchmark.model_dump(mode="json", include=set(TOLD)),
        "needs": needs(benchmark),
        "items": counts(root),
    }


def needs(benchmark: Benchmark) -> list[str]:
    """What scoring needs beside a rule."""
    kinds = {"judge": benchmark.judge, "code": benchmark.executed, "files": bool(scorer.needs(benchmark))}
    return [name for name, there in kinds.items() if there]


def counts(root: Path) -> dict[str, int] | None:
    """Items of a fetched benchmark, both halves of validation together; None where it is not here, or not whole."""
    files = {"validation": (VALIDATION, UNSEEN), "test": (TEST,)}
    if not (root / MANIFEST).is_file() or not (root / UNSEEN).is_file():
        return None
    return {
        split: sum(1 for name in names for line in (root / name).open("rb") if line.strip())
        for split, names in files.items()
    }
