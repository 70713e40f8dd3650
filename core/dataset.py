"""What is learned from: a catalog entry for raw data or a base model, and the card people and agents read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.benchmark import Source


class Dataset(BaseModel):
    """A raw data set of the catalog; its files lie in `datasets/<name>/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = Field(description="what it holds: rows, fields, parts")
    domain: str = "general"
    licence: str = "unknown"
    source: Source | None = Field(None, description="where it is fetched from; None: it is made")
    rows: int | None = Field(None, description="as its source states them")
    parts: dict[str, int] = Field({}, description="its parts and their rows; 0 is unknown")
    teaches: tuple[str, ...] = Field(
        (), description="benchmarks that it is made for, families by their common beginning"
    )
    reasoning: Literal["unknown", "none", "some", "full"] = Field(
        "unknown", description="whether answers show their steps"
    )
    quality: str = Field("", description="what is known of it, and what has to be done before it is learned from")
    gaps: str = Field("", description="what a benchmark that it is made for asks and it does not hold")


class BaseModelCard(BaseModel):
    """A base model of the catalog; its files lie in `models/<name>/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    licence: str = "unknown"
    template: str | None = Field(None, description="LLaMA-Factory template equal to the tokenizer's own chat template")
