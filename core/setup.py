"""What `prepare` settled for a run: names turned into places; written once, as `setup.json`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.run import SandboxKind


class Placed(BaseModel):
    """A benchmark whose items are there."""

    model_config = ConfigDict(frozen=True)

    benchmark: Benchmark
    root: Path
    fingerprint: str


class Setup(BaseModel):
    """Places are absolute; `datasets` maps the name that scripts see below `DATASETS_DIR` to where it lies."""

    model_config = ConfigDict(frozen=True)

    benchmark: Benchmark
    benchmark_root: Path
    benchmark_fingerprint: str
    also: tuple[Placed, ...] = ()
    model_name: str
    model_root: Path
    model_fingerprint: str
    datasets: dict[str, Path]
    dataset_fingerprints: dict[str, str]
    sandbox: SandboxKind
    device: str
    planner: str
    judge: str = ""  # the model that judges what the rule does not call right; "": the rule decides alone
    versions: dict[str, str]

    @property
    def benchmarks(self) -> tuple[Placed, ...]:
        """All that is measured; the first decides."""
        first = Placed(benchmark=self.benchmark, root=self.benchmark_root, fingerprint=self.benchmark_fingerprint)
        return (first, *self.also)
