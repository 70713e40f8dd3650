"""What a user wants of a run: typed wishes that last, are listed, and can be taken back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from tuneloop.core.experiment import Value


class Base(BaseModel):
    """A wish says all that code needs to obey it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Use(Base):
    """A parameter of `train.yaml` shall have this value: in the next experiment, or in all that follow."""

    kind: Literal["use"] = "use"
    parameter: str
    value: Value
    always: bool = False


class Bound(Base):
    """A parameter shall stay within limits."""

    kind: Literal["bound"] = "bound"
    parameter: str
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def bounded(self) -> Bound:
        """A bound has at least one end, in order."""
        if self.at_most is None and self.at_least is None:
            raise ValueError("a bound says at_most, at_least or both")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self


class Keep(Base):
    """A parameter shall stay as it is in the best experiment, in the first plan where there is none."""

    kind: Literal["keep"] = "keep"
    parameter: str


class Avoid(Base):
    """A parameter shall not have this value, e.g. `finetuning_type: full`."""

    kind: Literal["avoid"] = "avoid"
    parameter: str
    value: Value


class Sources(Base):
    """Data sets or files of them, by name: only these, or never these."""

    kind: Literal["sources"] = "sources"
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


class Focus(Base):
    """An idea in words: chat models are told, the offline policy cannot follow it and says so."""

    kind: Literal["focus"] = "focus"
    text: str


class Extend(Base):
    """More of what limits the run; negative is less."""

    kind: Literal["extend"] = "extend"
    seconds: float = 0
    experiments: int = 0
    tokens: int = 0
    money: float = 0
    gpu_hours: float = 0


class Finish(Base):
    """End the search after the open experiment; the sealed test and the report follow."""

    kind: Literal["finish"] = "finish"


class Pause(Base):
    """Stop now, everything is kept: jobs are ended, `tuneloop resume` goes on."""

    kind: Literal["pause"] = "pause"


class Approve(Base):
    """When the run asks before it goes on."""

    kind: Literal["approve"] = "approve"
    at: Literal["none", "plan", "launch"]


class Delete(Base):
    """Something shall be removed from disk."""

    kind: Literal["delete"] = "delete"
    what: str


class Publish(Base):
    """The model shall be sent to a hub."""

    kind: Literal["publish"] = "publish"
    to: str


Wish = Annotated[
    Use | Bound | Keep | Avoid | Sources | Focus | Extend | Finish | Pause | Approve | Delete | Publish,
    Field(discriminator="kind"),
]


def dangerous(wish: Wish) -> bool:
    """Whether it wants a yes: it removes, spends money, or shows something to others."""
    return isinstance(wish, Delete | Publish) or (isinstance(wish, Extend) and (wish.money > 0 or wish.tokens > 0))


class Directive(Base):
    """A wish with the words it came from. `done`: obeyed, and over; `message`: what it was read from, and its place there.

    `ended_by`: the message, and its place there, that took it back or said yes or no to it.
    """

    id: str
    message: str = ""
    ended_by: str = ""
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    said: str
    wish: Wish
    state: Literal["open", "pending", "revoked", "done"] = "open"


class Question(Base):
    """Something is asked; nothing changes."""

    kind: Literal["question"] = "question"
    about: Literal["status", "failure", "best", "budget", "directives", "plan", "help"]
    experiment: int | None = None


class Revoke(Base):
    """Directives are taken back: these, or with none named the newest."""

    kind: Literal["revoke"] = "revoke"
    ids: tuple[str, ...] = ()


class Reply(Base):
    """Yes or no to what the run asked; with a reason where one was given."""

    kind: Literal["reply"] = "reply"
    yes: bool
    reason: str = ""


class Unclear(Base):
    """Not understood: nothing changes, and the user is asked."""

    kind: Literal["unclear"] = "unclear"
    text: str


Meaning = Annotated[Wish | Question | Revoke | Reply | Unclear, Field(discriminator="kind")]
MEANING: TypeAdapter[Meaning] = TypeAdapter(Meaning)


class Line(Base):
    """One line of the conversation; `answers`, `heard`: the id of the message that it answers, or acknowledges.

    `means`: of what a user said, as it was understood; heard again after a kill, it means the same.
    """

    id: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    who: Literal["user", "tuneloop"]
    text: str
    answers: str = ""
    heard: str = ""
    means: tuple[Meaning, ...] = ()
