"""What is learned from: a catalog entry for raw data or a base model, and the card people and agents read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Dataset(BaseModel):
    """A raw data set of the catalog; its files lie in `datasets/<name>/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    domain: str = "general"
    licence: str = "unknown"


class BaseModelCard(BaseModel):
    """A base model of the catalog; its files lie in `models/<name>/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    licence: str = "unknown"
    template: str | None = Field(None, description="LLaMA-Factory template equal to the tokenizer's own chat template")
