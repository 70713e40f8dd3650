"""What `prepare` settled for a run: names turned into places; written once, as `setup.json`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tuneloop.core.catalog import Benchmark
from tuneloop.core.frozen import Frozen

# One campaign: everything that can change its result, frozen with the run.

TIME_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_seconds(value: object) -> object:
    """`12h`, `90m`, `3600` → seconds; None, `0` and `unlimited` mean no limit."""
    if value is None or isinstance(value, bool):
        return None if value is None else value
    text = str(value).strip().lower()
    if text in ("", "0", "unlimited", "none"):
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text)
    if match is None:
        raise ValueError(f"{value!r} is not a time; right is a number of seconds or 90m, 12h, 2d")
    return float(match[1]) * TIME_UNITS[match[2] or "s"]


def parse_tokens(value: object) -> object:
    """`200000`, `200k`, `1.5M` → tokens."""
    if value is None or isinstance(value, int):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmM]?)", str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is no number of tokens; right is e.g. 200000, 200k or 1.5M")
    return round(float(match[1]) * {"": 1, "k": 1000, "m": 1_000_000}[match[2].lower()])


def positive_number(unit: str) -> BeforeValidator:
    """A number above 0 with its unit, and nothing else."""

    def check(value: object) -> object:
        if value is None:
            return None
        said = re.fullmatch(r"\d+(?:\.\d+)?", str(value).strip()) if isinstance(value, int | float | str) else None
        if said is None or not 0 < float(said[0]) < float("inf"):
            raise ValueError(f"{value!r} is no number of {unit}; right is a number above 0, e.g. 2.5")
        return float(said[0])

    return BeforeValidator(check)


def reject_nul(text: str) -> str:
    """The text. Raises ValueError for one with a NUL character: no path, no process and no database takes it."""
    if "\0" in text:
        raise ValueError("holds a NUL character; right is plain text")
    return text


Name = Annotated[str, AfterValidator(reject_nul), Field(min_length=1)]
AUTO = "auto"  # the base model that `prepare` chooses
NO_BENCHMARK = "none"  # one experiment is trained and delivered; nothing is evaluated


class Guard(Frozen):
    """A benchmark on which a candidate must not lose more than so many points against the base model."""

    model_config = ConfigDict(extra="forbid")

    benchmark: Name
    points: float = Field(gt=0, lt=100, description="points that it may lose")

    @model_validator(mode="before")
    @classmethod
    def parsed(cls, value: object) -> object:
        """`mmlu:-2`: of mmlu at most two points."""
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"(.+):-(\d+(?:\.\d+)?)", value.strip())
        if match is None or not 0 < float(match[2]) < 100:
            raise ValueError(f"{value!r} is no guard; right is BENCHMARK:-POINTS, e.g. mmlu:-2")
        return {"benchmark": match[1], "points": float(match[2])}

    def __str__(self) -> str:
        return f"{self.benchmark}:-{self.points:g}"


Seconds = Annotated[Annotated[float, Field(gt=0)] | None, BeforeValidator(parse_seconds)]
Tokens = Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(parse_tokens)]
Dollars = Annotated[float | None, positive_number("US dollars")]
GpuHours = Annotated[float | None, positive_number("GPU-hours")]
ApproveAt = Literal["never", "plan", "launch"]
OnStop = Literal["finish", "ask", "continue"]
# What a spec may ask for: `process` is the owner's word alone.
RunSandbox = Literal["auto", "docker", "bubblewrap", "landlock"]
SandboxKind = Literal[RunSandbox, "process"]
ExecutorKind = Literal["local", "slurm", "ray"]


class RunSpec(Frozen):
    """What the user asked for. Names are catalog entries, absolute folders or hub ids."""

    model_config = ConfigDict(extra="forbid")

    benchmark: Name = Field(description="what decides; none: one experiment is trained, and nothing is evaluated")
    also: tuple[Name, ...] = Field(
        default=(), description="further benchmarks: measured and reported, they decide nothing"
    )
    benchmark_description: Annotated[str, AfterValidator(reject_nul)] | None = None
    base_model: Name = Field(description="auto: chosen in `prepare`, by what fits this machine and a short probe")
    datasets: tuple[Name, ...] = Field(default=(), description="empty: the researcher selects among the registered")
    upper_data_size_limit: int = Field(default=2000, gt=0)
    loop_n: int | None = Field(default=None, gt=0, description="experiments; None: until the time is over")
    patience: int | None = Field(
        default=None, gt=0, description="experiments in a row without a promotion that end the run; None: any number"
    )
    parallel: int = Field(default=1, gt=0, le=256, description="experiments side by side")
    timeout: Seconds = Field(default=None, description="wall-clock seconds for everything")
    max_tokens: Tokens = Field(default=None, description="of agents, data scripts and judge, in and out together")
    max_cost: Dollars = Field(default=None, description="USD for those tokens")
    max_gpu_hours: GpuHours = Field(default=None, description="devices times hours")
    seed: int = Field(default=1, ge=0)
    sandbox: RunSandbox = "auto"
    executor: ExecutorKind = Field(
        default="local",
        description="where smoke runs, trainings and evaluations run: this machine, or nodes of Slurm or Ray",
    )
    benchmark_limit: int | None = Field(
        default=None, gt=0, description="validation items; None: as many as are cheap to measure (`validation_share`)"
    )
    validation_share: float = Field(
        default=0.2, gt=0, le=1, description="of an experiment's time that measuring it on validation may take"
    )
    refuse_overlaps: bool = Field(
        default=False, description="training rows that hold validation items refuse the recipe; else they are dropped"
    )
    guards: tuple[Guard, ...] = Field(default=(), description="benchmarks on which a candidate must not lose much")
    approve: ApproveAt = Field(
        default="never", description="what a person is asked before; a directive may change it later"
    )
    on_stop: OnStop = Field(
        default="finish",
        description="when the researcher proposes to stop: the run finishes, a person is asked, or it goes on",
    )
    seeds: int = Field(
        default=1,
        gt=0,
        le=20,
        description="trainings of the last two promoted recipes, as far as time and budget reach",
    )

    @field_validator("guards")
    @classmethod
    def guards_guard(cls, value: tuple[Guard, ...], info: ValidationInfo) -> tuple[Guard, ...]:
        """A guard is another benchmark than the one that decides, and says one number."""
        names = [guard.benchmark for guard in value]
        if info.data.get("benchmark") in names:
            raise ValueError(f"{info.data['benchmark']} decides and cannot guard as well; right is another benchmark")
        if len(set(names)) != len(names):
            raise ValueError(f"{', '.join(map(str, value))} names a benchmark twice; right is one allowance for each")
        return value

    @field_validator("loop_n", "guards", "seeds", "parallel")
    @classmethod
    def needs_scores(cls, value: object, info: ValidationInfo) -> object:
        """Several experiments or trainings are compared by their scores, and a guard is one."""
        if info.data.get("benchmark") == NO_BENCHMARK and value not in (None, 1, ()):
            raise ValueError("a run without a benchmark compares nothing; right is to leave it out, or a --benchmark")
        return value

    @property
    def evaluated(self) -> bool:
        """Whether models are measured."""
        return self.benchmark != NO_BENCHMARK

    @property
    def window(self) -> int:
        """An experiment is planned with the results up to so many numbers before its own, however many are known by then.

        One that takes long holds up nobody until then. The more there are at once, the longer the longest takes beside the
        others: half as many more than run at once for up to 8, twice as many up to 32, three times as many beyond.
        """
        if self.parallel <= 8:
            return self.parallel + self.parallel // 2
        return self.parallel * (2 if self.parallel <= 32 else 3)

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of all benchmarks that are measured, each once; the first decides."""
        return tuple(dict.fromkeys((self.benchmark, *self.also, *(guard.benchmark for guard in self.guards))))


class PlacedBenchmark(Frozen):
    """A benchmark whose items are on disk."""

    benchmark: Benchmark
    root: Path
    fingerprint: str


class Setup(Frozen):
    """Places are absolute; `datasets` maps the name that scripts see below `DATASETS_DIR` to where it lies."""

    benchmark: Benchmark
    benchmark_root: Path
    benchmark_fingerprint: str
    also: tuple[PlacedBenchmark, ...] = ()
    model_name: str
    model_root: Path
    model_fingerprint: str
    datasets: dict[str, Path]
    dataset_fingerprints: dict[str, str]
    views: dict[str, Path] = {}  # data set → the record of its view without sealed items, which `datasets` leads to
    sandbox: SandboxKind
    device: str
    threads: int = Field(1, ge=1, description="of a job on a CPU")
    planner: str
    judge: str = ""  # the model that judges what the rule does not call right; "": the rule decides alone
    versions: dict[str, str]

    @property
    def benchmarks(self) -> tuple[PlacedBenchmark, ...]:
        """All that is measured; the first decides."""
        first = PlacedBenchmark(
            benchmark=self.benchmark, root=self.benchmark_root, fingerprint=self.benchmark_fingerprint
        )
        return (first, *self.also)
