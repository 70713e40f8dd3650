"""What an inspection says: plain facts about files, columns and reasoning, with the numbers that every word stands on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Quality = Literal["none", "low", "medium", "medium-high", "high"]
Work = Literal["low", "medium", "high"]


class FactModel(BaseModel):
    """Frozen and closed; every share is 0 to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LengthStats(FactModel):
    """Of `n` lengths; percentiles are nearest ranks."""

    n: int
    min: int
    mean: float
    p50: int
    p99: int
    max: int


class ColumnFacts(FactModel):
    """One path inside the rows: `meta.source`, `turns[].value` (all elements of the lists), `tags[]`."""

    path: str
    kinds: dict[str, int] = Field(description="how many values of each type: text, integer, number, bool, list, ...")
    places: int = Field(description="rows, or objects and lists, in which a value could stand")
    empty: int = Field(description="of these, absent, null, blank, or an empty list or object")
    distinct: int
    exact: bool = Field(description="whether `distinct` is counted; else it is an estimate, 0.4 % off (one sigma)")
    characters: LengthStats | None = Field(None, description="of the texts")
    items: LengthStats | None = Field(None, description="of the lists")
    tokens: LengthStats | None = Field(None, description="of a sample's texts, by the model's own tokenizer")
    low: float | int | None = Field(None, description="least number; of texts where all of them are numbers")
    high: float | int | None = None
    numeric_text: bool = Field(False, description="texts that are all numbers")
    examples: tuple[str, ...] = ()


class BrokenPlace(FactModel):
    """A line (from 1) that is no row, or that has other cells than the header."""

    where: str = Field(description="file:line")
    why: str
    text: str


class FileFacts(FactModel):
    """One file; `path` from the data set's root."""

    path: str
    kind: str
    packing: str
    encoding: str
    bytes: int
    rows: int
    broken: int
    shown: tuple[BrokenPlace, ...] = ()
    read_error: str = Field("", description="why the file was not read to its end; empty: it was")


class ReasoningFacts(FactModel):
    """How good the worked solutions are; measured on `rows` sampled rows, shares of them unless something else is said."""

    rows: int
    question: str = Field(description="path taken for the question; empty: none looks like one")
    solution: str = Field(description="path taken for the worked solution or the answer")
    answer: str = Field(description="path of a short reference answer beside it")
    reasoned: float = Field(description="rows whose solution says more than its answer")
    characters: LengthStats | None = Field(
        None, description="of the reasoning before the answer, in rows that have some"
    )
    readable: float = Field(description="rows whose solution states its answer so that code can read it")
    agreeing: float | None = Field(None, description="of rows with both, those whose solution ends in the reference")
    compared: int = 0
    repeated: float = Field(description="rows whose question occurred before, in all rows")
    scripts: dict[str, float] = Field(description="percent of rows by the script of most letters")
    baseline_quality: Quality
    polish_difficulty: Work
    why: str = Field(description="the numbers and the rule behind both words")


class PartFacts(FactModel):
    """Files of one folder whose rows have the same columns; never files of two folders."""

    name: str = Field(
        description="the folder from the root (`.` is the root); where it holds several kinds of rows, a file"
    )
    folder: str
    files: tuple[FileFacts, ...]
    rows: int
    broken: int
    duplicates: int = Field(description="rows that repeat an earlier one in every column")
    duplicates_exact: bool = True
    columns: tuple[ColumnFacts, ...]
    more_columns: int = Field(0, description="columns beyond the first 200, not measured")
    reasoning: ReasoningFacts
    samples: tuple[dict[str, object], ...] = Field(description="three rows from across the files, texts cut at 3,000")
    suspicious: int = Field(0, description="of the sampled rows, those that hold text like an instruction to a model")
    suspicious_words: dict[str, int] = {}


class Inspection(FactModel):
    """A data set, read from end to end."""

    name: str
    rows: int
    broken: int
    bytes: int
    parts: tuple[PartFacts, ...]
    empty_files: tuple[FileFacts, ...] = Field((), description="files without a row")
    readmes: dict[str, str] = Field(description="cards within two folders, at most 5,000 characters each")
    tree: str = Field(description="at most 150 lines")
    tokenizer: str = Field("", description="the model whose tokenizer counted")
