"""What is measured: a benchmark, its items and splits."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

Split = Literal["train", "validation", "test"]
Direction = Literal["max", "min"]

ANSWER_KINDS = ("boxed", "choice", "code", "exact", "number")


class Benchmark(BaseModel):
    """A declaration; the items lie beside it as `validation.jsonl` and `sealed/test.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: str = "general"
    description: str = Field(min_length=1, description="what is asked and how an answer must look, true to the scorer")
    answer: str = Field(
        "exact", description="boxed | choice | code | exact | number | regex:PATTERN (first group or whole match)"
    )
    prompt: str = Field("{prompt}", description="user turn, a template over the item's fields")
    metric: str = "accuracy"
    direction: Direction = "max"
    max_new_tokens: int = Field(256, ge=1, le=65536)
    seconds: float = Field(10.0, ge=1, le=600, description="CPU seconds of one answer that is run (answer: code)")

    @field_validator("answer")
    @classmethod
    def known_answer(cls, value: str) -> str:
        """One of the kinds, or a regular expression after `regex:`."""
        if value not in ANSWER_KINDS and not value.startswith("regex:"):
            raise ValueError(f"answer is {value!r}; right is one of {', '.join(ANSWER_KINDS)} or regex:PATTERN")
        return value

    @property
    def executed(self) -> bool:
        """Whether a reply's code is run, in a sandbox of its own, and what it gives is compared."""
        return self.answer == "code"


class Calls(BaseModel):
    """How a reply's code is called: the function `entry`, once with each list of arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entry: str = Field(pattern=r"^[A-Za-z_]\w*$")
    inputs: list[list[JsonValue]] = Field(min_length=1)


class Item(BaseModel):
    """One question. `fields` feed the benchmark's prompt template; `answer` is the gold answer.

    Where replies are run it is JSON: a list of what each of `calls` has to give.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    fields: dict[str, str]
    answer: str
    calls: Calls | None = None
