"""What the data gate found; written last, as `report.json`, it proves that `data.json` is whole."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

REPORT, REJECTED, DATA = "report.json", "rejected.json", "data.json"


class Lengths(BaseModel):
    """Tokens of whole records under the target tokenizer and template; `cut` counts records beyond `cutoff_len`.

    `lost` are the tokens beyond it, `unanswered` the records among them whose answer loses its end.
    """

    model_config = ConfigDict(frozen=True)

    p50: int = 0
    p95: int = 0
    p99: int = 0
    longest: int = 0
    total: int = 0
    cutoff_len: int | None = None
    cut: int = 0
    unanswered: int = 0
    lost: int = 0


class Overlap(BaseModel):
    """A row (from 1) that holds a validation item, how the row's question begins, and `mark`: a hash of all of it."""

    model_config = ConfigDict(frozen=True)

    row: int
    benchmark: str
    item: str
    text: str
    mark: str = ""


class GateReport(BaseModel):
    """Counts over every record; `errors` empty: the data may be trained on. `scripts`: percent of rows by script.

    `template` is the one that lengths were counted with; None: the texts alone. `ending`: what every output was ended with.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    read: int
    rows: int
    row_limit: int
    dropped: dict[str, int] = {}
    exact_duplicates: int = 0
    near_duplicates: int = 0
    reasked: int = 0
    parsed: float = 0.0
    template: str | None = None
    ending: str = ""
    lengths: Lengths = Lengths()
    scripts: dict[str, float] = {}
    overlaps: tuple[Overlap, ...] = Field((), description="rows with validation items that were not dropped, some")
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the data may be trained on."""
        return not self.errors


def read_report(out: Path) -> GateReport | None:
    """The report of data that passed the gate; None when it did not pass or was not checked yet."""
    try:
        return GateReport.model_validate_json((out / REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
