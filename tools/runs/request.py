"""What a caller over MCP asks of a new run, and the options of the command line that say the same."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import ToolError
from tuneloop.core.run import ApproveAt, Guard, seconds
from tuneloop.tools import benchmarks, datasets, models
from tuneloop.tools.runs.naming import Open


class Request(BaseModel):
    """Fields as options of `tuneloop run`; None, "" and () leave the choice to the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    benchmark: str
    also: tuple[str, ...] = ()
    benchmark_description: str = ""
    base_model: str = ""
    datasets: tuple[str, ...] = ()
    upper_data_size_limit: int | None = None
    drop_overlaps: bool = False
    loop_n: int | None = None
    timeout: str = ""
    max_tokens: int | None = None
    max_cost: float | None = None
    max_gpu_hours: float | None = None
    approve: ApproveAt = "never"
    guards: tuple[str, ...] = ()
    seeds: int | None = None
    seed: int | None = None

    def checked(self, given: Open) -> Request:
        """With paths made absolute. Raises ToolError when one is not open, or when nothing would end the run."""
        if self.limit is None and self.loop_n is None:
            raise ToolError("nothing would end this run; right is experiments, e.g. 3, or timeout, e.g. 2h, or both")
        return self.model_copy(
            update={
                "benchmark": given.confined(self.benchmark, benchmarks.names()),
                "also": tuple(given.confined(name, benchmarks.names()) for name in self.also),
                "base_model": given.confined(self.base_model, models.names()) if self.base_model else "",
                "datasets": tuple(given.confined(name, datasets.names()) for name in self.datasets),
                "guards": tuple(guard(text, given) for text in self.guards),
            }
        )

    @property
    def limit(self) -> float | None:
        """Seconds that the run may take. Raises ToolError for what is no time."""
        try:
            return seconds(self.timeout)  # type: ignore[return-value]  # a validator takes anything and says object
        except ValueError as e:
            raise ToolError(f"timeout: {e}") from e

    def options(self) -> Iterator[str]:
        """Words for `tuneloop run`; `--name=value`, so that no value is taken for an option."""
        told = self.model_dump(exclude={"also", "datasets", "guards", "drop_overlaps", "benchmark"})
        yield "--benchmark=" + ",".join((self.benchmark, *self.also))
        for name, value in told.items():
            if value not in (None, "", "never"):
                yield f"--{name.replace('_', '-')}={value}"
        yield from (f"--dataset={name}" for name in self.datasets)
        yield from (f"--guard={text}" for text in self.guards)
        if self.drop_overlaps:
            yield "--drop-overlaps"


def guard(text: str, given: Open) -> str:
    """`mmlu:-2`, its benchmark looked at. Raises ToolError."""
    try:
        found = Guard.model_validate(text)
    except ValueError as e:
        raise ToolError(f"guard {text!r}: right is BENCHMARK:-POINTS, e.g. mmlu:-2") from e
    return str(found.model_copy(update={"benchmark": given.confined(found.benchmark, benchmarks.names())}))
