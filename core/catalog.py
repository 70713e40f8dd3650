"""What is learned from: a catalog entry for raw data or a base model, and the card people and agents read."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue, field_validator

from tuneloop.core.frozen import Frozen

# What is measured: a benchmark, its items and splits.

Split = Literal["train", "validation", "test"]
Direction = Literal["max", "min"]
Form = Literal["auto", "chat", "base"]

ANSWER_KINDS = ("boxed", "choice", "code", "exact", "number")
SCORER, PATTERN, VERIFIER = "scorer:", "regex:", "verifier:"


class Source(Frozen):
    """Where items come from: a data set repository of the hub. Patterns as in a shell, of the files that are taken."""

    model_config = ConfigDict(extra="forbid")

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    files: tuple[str, ...] = Field(min_length=1, description="what the items are made from")
    without: tuple[str, ...] = Field((), description="of those, what is never fetched")
    train: tuple[str, ...] = Field(
        (), description="the source's own training rows, offered as the data set <name>-train"
    )
    revision: str | None = Field(
        None, description="None: what the main branch has at the first fetch, kept from then on"
    )


class Benchmark(Frozen):
    """A declaration; the items lie beside it as `validation.jsonl` and `sealed/test.jsonl`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: str = "general"
    description: str = Field(min_length=1, description="what is asked and how an answer must look, true to the scorer")
    answer: str = Field(
        "exact",
        description="boxed | choice | code | exact | number | regex:PATTERN (first group or whole match) | scorer:NAME | "
        "verifier:FILE (Python with score(answer, item))",
    )
    final: str = Field(
        "", description="how a right reply ends, the word ANSWER in the answer's place; empty: as the kind wants it"
    )
    prompt: str = Field("{prompt}", description="user turn, a template over the item's fields")
    form: Form = Field(
        "auto", description="chat: in the model's template; base: a text to be continued; auto: as the model is"
    )
    stop: tuple[str, ...] = Field((), description="a reply ends before the first of these")
    metric: str = "accuracy"
    metrics: tuple[str, ...] = Field((), description="further numbers that the scorer gives; they decide nothing")
    direction: Direction = "max"
    max_new_tokens: int = Field(256, ge=1, le=65536)
    samples: int = Field(1, ge=1, le=256, description="replies to each item; they are one unit of every test")
    temperature: float = Field(0.0, ge=0, le=2, description="0: the most likely token each time")
    top_p: float = Field(1.0, gt=0, le=1)
    licence: str = "unknown"
    source: Source | None = None
    more: tuple[Source, ...] = Field((), description="further repositories that the splits are made of")
    validation_size: int = Field(2000, ge=1, description="items at most")
    test_size: int = Field(1000, ge=1, description="items at most")
    judge: bool = Field(
        False, description="a language model may decide what the rule calls wrong, where one is configured"
    )
    unavailable: dict[str, str] = Field({}, description="metric or group that cannot be had: why, and what would help")
    parts: tuple[str, ...] = Field((), description="a family: the benchmarks it stands for; it has no items of its own")
    seconds: float = Field(
        10.0, ge=1, le=600, description="CPU seconds of one answer that is run (answer: code) or verified"
    )
    verifier: str = Field("", description="source of the verifier; with the declaration it goes wherever that goes")
    engine: str = Field("", description="the engine that the verifier runs in; empty: the one that evaluates")
    own_dataset: str = Field("", description="the data set that is learned from where none is named")

    @field_validator("answer")
    @classmethod
    def known_answer(cls, value: str) -> str:
        """One of the kinds, or what stands after `regex:`, `scorer:` or `verifier:`."""
        if value not in ANSWER_KINDS and not value.startswith((PATTERN, SCORER, VERIFIER)):
            raise ValueError(
                f"answer is {value!r}; right is one of {', '.join(ANSWER_KINDS)}, regex:PATTERN, scorer:NAME or "
                "verifier:FILE"
            )
        return value

    @property
    def executed(self) -> bool:
        """Whether a job of its own decides about replies: it runs their code, or a verifier on them."""
        return self.answer == "code" or self.verified

    @property
    def verified(self) -> bool:
        """Whether a verifier decides about replies."""
        return self.answer.startswith(VERIFIER)

    @property
    def scorer(self) -> str:
        """Name of the module that judges replies; "" where `answer` is one of the plain kinds."""
        return self.answer.removeprefix(SCORER) if self.answer.startswith(SCORER) else ""


class Calls(Frozen):
    """How a reply's code is called: the function `entry`, once with each list of arguments.

    `typed`: arguments and what they give are Python's plain values, as `tools/scoring/typed_json.py` writes them.
    """

    model_config = ConfigDict(extra="forbid")

    entry: str = Field(pattern=r"^[A-Za-z_]\w*$")
    inputs: list[list[JsonValue]] = Field(min_length=1)
    typed: bool = False
    before: str = Field("", description="code that stands before the reply's")


class Program(Frozen):
    """A program that decides about a reply's code, run in a process of its own; it passes when it comes to its end.

    `setup` is run first; then `names` stand for what the reply calls so; then `program` is run.
    """

    model_config = ConfigDict(extra="forbid")

    program: str = Field(min_length=1)
    names: tuple[str, ...] = Field(min_length=1)
    setup: str = ""
    before: str = Field("", description="code that stands before the reply's")


class Drawn(Frozen):
    """A reply's code draws; what lies on its axes is compared. `files` (name to text) are there when it runs."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, str]
    before: str = Field("", description="code that stands before the reply's")


class Verified(Frozen):
    """What a verifier gets beside the answer: the whole item as it was given."""

    model_config = ConfigDict(extra="forbid")

    item: dict[str, JsonValue]


class Item(Frozen):
    """One question. `fields` feed the benchmark's prompt template; `answer` is the gold answer.

    Where code is run it is JSON: what each of `calls` has to give (`tools/scoring/code_results.py`). `group` is the part
    of the benchmark it belongs to; items of one `cluster` share a context: they are never torn between splits and count as
    one in a test.
    """

    id: str
    fields: dict[str, str]
    answer: str
    calls: Calls | Program | Drawn | Verified | None = None
    group: str = ""
    cluster: str = ""


class Dataset(Frozen):
    """A raw data set of the catalog; its files lie in `datasets/<name>/`."""

    model_config = ConfigDict(extra="forbid")

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


class BaseModelCard(Frozen):
    """A base model of the catalog; its files lie in `models/<name>/`."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str
    licence: str = "unknown"
    sha256: str = Field("", description="of the file that its weights are made from, where it is fetched")
    template: str | None = Field(None, description="LLaMA-Factory template equal to the tokenizer's own chat template")
