"""What a profile of raw data says: plain facts about sources, fields and labels, and what the benchmark's items look like."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from tuneloop.core.frozen import Frozen

Shape = Literal["integer", "number", "letter", "label", "text"]
Kind = Literal["text", "number", "bool", "list", "mixed"]


class ProfileModel(Frozen):
    """Frozen and closed; every share is 0 to 1."""

    model_config = ConfigDict(extra="forbid")


class Lengths(ProfileModel):
    """Characters."""

    p50: int
    p95: int
    max: int


class FieldProfile(ProfileModel):
    """One value inside the records, by its path, e.g. `input.text` or `turns[from=human].value`."""

    path: str
    kind: Kind
    filled: float
    distinct: float
    lengths: Lengths
    examples: tuple[str, ...]
    numeric: float = Field(description="the value is one number")
    letter: float = Field(description="the value is one letter A to J")
    has_number: float
    boxed: float
    similarity: float = Field(description="cosine of its words with those of the benchmark's validation prompts")
    answer_like: float = Field(description="the value is an answer of the benchmark's shape")


class FieldRoles(ProfileModel):
    """Which field plays which part: the likeliest by content and name; the source's facts are measured with it."""

    question: tuple[str, ...] = Field((), description="paths that make up the question, in order")
    fields: dict[str, str] = Field({}, description="item field → path, where the benchmark's template uses several")
    solution: str | None = Field(None, description="worked solution, or the bare answer where that is all there is")
    key: str | None = Field(None, description="short reference answer beside a solution")
    options: tuple[str, ...] = Field((), description="paths of the options in order, or one path of a list")
    prefix: str = Field(
        "", description="what the source itself says before nearly every question, foreign to the benchmark"
    )
    suffix: str = Field("", description="the same behind the question")
    flag: str = Field("", description="`path=value` of records that the source itself marks as right")
    codes: dict[str, str] = Field({}, description="value of `solution` → the benchmark's label it stands for")
    index_base: Literal[0, 1] | None = Field(
        None, description="the answer is the number of an option, counted from this"
    )


class SourceProfile(ProfileModel):
    """One file, or one group of records inside a file that mixes several."""

    name: str
    file: str
    where: str = Field("", description="`field=value` or `has=field`: which records of the file; empty: all")
    rows: int
    sampled: int
    fields: tuple[FieldProfile, ...]
    reading: FieldRoles
    similarity: float = Field(description="of its questions to the benchmark's")
    answered: float = Field(description="rows in which an answer of the benchmark's shape was found")
    worked: float = Field(description="rows with more than the answer: steps, reasons")
    equations: float = Field(description="rows with at least one `a op b = c`")
    two_equations: float
    spoken_equations: float = Field(
        description="rows that have two only when words are read as signs: `3 plus 9 makes 12`"
    )
    false_equations: float = Field(description="of the rows with equations, those with one that does not hold")
    unfinished: float = Field(
        default=0.0, description="of the rows with two, those that end with another number than the last gives"
    )
    chatter: float = Field(description="rows beginning or ending with a sentence that many rows share")
    off_topic: float = Field(description="rows without an answer of the shape, or with no word of the benchmark's")
    exact_duplicates: float = Field(description="rows that repeat an earlier record")
    near_duplicates: float = Field(description="rows whose question repeats an earlier one but for case and spacing")
    repeated: float = Field(description="rows whose question occurs with more than one reply")
    disagreeing: float = Field(description="of those, rows whose question has different final answers")
    key_agreement: float | None = Field(None, description="rows whose solution ends with the key; None: no key")
    contradicted: float | None = Field(
        None,
        description="answers that are wrong by how often sources agree on shared questions; None: nothing is shared",
    )
    unlikely: float | None = Field(
        description="rows whose label the words of other rows speak against; None: no labels"
    )
    validation_overlap: float = Field(description="rows whose question is a validation item")
    overlapping: str = Field("", description="records of the file, counted from 1, that hold a validation item")
    question_lengths: Lengths
    solution_lengths: Lengths
    answers: dict[str, float] = Field({}, description="most frequent final answers and their shares")

    @property
    def votes(self) -> bool:
        """Whether questions have several independent replies: most occur more than once, and replies differ."""
        return self.repeated > 0.5 and self.disagreeing > 0.02


class Agreement(ProfileModel):
    """Two sources that share questions."""

    first: str
    second: str
    questions: int
    agreeing: float
    shared: float = Field(description="of the different questions seen of the source that has fewer")


class ItemField(ProfileModel):
    """One field of the benchmark's items: what all values begin and end with; `constant`: they are all the same."""

    prefix: str
    suffix: str
    constant: bool = False


class OptionStyle(ProfileModel):
    """How options stand in the prompts, e.g. `A. ` on lines of their own."""

    mark: str = Field(description="what stands around the letter, e.g. `{}. `")
    separator: str
    lead: str = Field("", description="what stands between question and first option")
    count: int


class FinalForm(ProfileModel):
    """How a right reply ends: the last word `ANSWER` stands for the answer; `steps`: something may stand before it."""

    template: str
    steps: bool


class BenchmarkFacts(ProfileModel):
    """Seen in the validation items."""

    items: int
    answer_shape: Shape
    answer_low: float | None = None
    answer_high: float | None = None
    labels: tuple[str, ...] = Field((), description="all answers, where they are few and repeat")
    answer_examples: tuple[str, ...]
    final: FinalForm
    prompt_prefix: str
    prompt_suffix: str
    prompt_lengths: Lengths
    fields: dict[str, ItemField]
    options: OptionStyle | None = None
    words: dict[str, float] = Field(description="telling words and the share of prompts that hold them")
    least_words: int = Field(description="nearly every prompt holds at least so many of these words")


class DatasetProfile(ProfileModel):
    """Facts, no decisions."""

    name: str
    readme: str
    benchmark: BenchmarkFacts
    sources: tuple[SourceProfile, ...]
    agreements: tuple[Agreement, ...] = ()
