"""What a user may tell a run: typed commands, and the directives that last until they are done or revoked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, model_validator

from tuneloop.core.experiment import Value
from tuneloop.core.frozen import Frozen
from tuneloop.core.run_spec import ApproveAt


class Base(Frozen):
    """A command holds everything that code needs to carry it out."""

    model_config = ConfigDict(extra="forbid")


class Use(Base):
    """A parameter of `train.yaml` gets this value: in the next experiment, or in all that follow."""

    kind: Literal["use"] = "use"
    parameter: str
    value: Value
    always: bool = False


class Bound(Base):
    """A parameter stays within limits."""

    kind: Literal["bound"] = "bound"
    parameter: str
    at_most: FiniteFloat | None = None
    at_least: FiniteFloat | None = None

    @model_validator(mode="after")
    def has_ordered_ends(self) -> Bound:
        """A bound has at least one end, in order."""
        if self.at_most is None and self.at_least is None:
            raise ValueError("a bound needs at_most, at_least or both")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self


class Keep(Base):
    """A parameter stays as it is in the best experiment; in the first plan where there is none."""

    kind: Literal["keep"] = "keep"
    parameter: str


class Avoid(Base):
    """A parameter must not have this value, e.g. `finetuning_type: full`."""

    kind: Literal["avoid"] = "avoid"
    parameter: str
    value: Value


class Sources(Base):
    """Datasets or files of them, by name: only these, or never these."""

    kind: Literal["sources"] = "sources"
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


class Focus(Base):
    """An idea in words. Chat models are told; the offline policy cannot follow it and says so."""

    kind: Literal["focus"] = "focus"
    text: str


class Extend(Base):
    """More of what limits the run; negative amounts are less."""

    kind: Literal["extend"] = "extend"
    seconds: float = 0
    experiments: int = 0
    tokens: int = 0
    money: float = 0
    gpu_hours: float = 0


class Finish(Base):
    """End the search after the open experiment; the sealed test and the report follow."""

    kind: Literal["finish"] = "finish"


class Approve(Base):
    """When the run asks before it goes on."""

    kind: Literal["approve"] = "approve"
    at: ApproveAt


class Pause(Base):
    """Stop now and keep everything: jobs are ended, `resume` goes on."""

    kind: Literal["pause"] = "pause"


class Resume(Base):
    """Go on with a paused run, in the background."""

    kind: Literal["resume"] = "resume"


class Delete(Base):
    """Remove the weights of experiments from disk; their recipes, scores and logs stay."""

    kind: Literal["delete"] = "delete"
    experiments: tuple[int, ...]


class Publish(Base):
    """Send the model to a hub."""

    kind: Literal["publish"] = "publish"
    to: str


class Revoke(Base):
    """Take directives back, by their ids."""

    kind: Literal["revoke"] = "revoke"
    ids: tuple[str, ...]


class Reply(Base):
    """Yes or no to what the run asked or offered; with a reason where one was given."""

    kind: Literal["reply"] = "reply"
    yes: bool
    reason: str = ""


class Edit(Base):
    """Change the plan or the recipe that waits for approval, in an editor."""

    kind: Literal["edit"] = "edit"


class NewRun(Base):
    """Start another run: options of `tuneloop run` and their values."""

    kind: Literal["run"] = "run"
    options: dict[str, str]


Topic = Literal[
    "status", "best", "budget", "why", "directives", "plan", "config", "loss", "data", "time", "report", "help"
]


class Question(Base):
    """A question that the run's files answer; nothing changes. `experiment`: of `why`, None: the newest."""

    kind: Literal["question"] = "question"
    topic: Topic
    experiment: int | None = None


Lasting = Use | Bound | Keep | Avoid | Sources | Focus | Extend | Finish | Approve
LastingCommand = Annotated[Lasting, Field(discriminator="kind")]
Command = Lasting | Pause | Resume | Delete | Publish | Revoke | Reply | Edit | NewRun | Question
COMMAND: TypeAdapter[Command] = TypeAdapter(
    Annotated[Command, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


class Directive(Base):
    """A command that lasts, with the text it came from.

    `message`: id of the message and the command's place in it. `revoked_by`: the same of the message that took it back.
    `done`: carried out, and over.
    """

    id: str
    message: str = ""
    revoked_by: str = ""
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    text: str
    command: LastingCommand
    state: Literal["open", "revoked", "done"] = "open"


class Line(Base):
    """One line of the conversation with a run.

    `answers`: id of the message that it answers. `acknowledges`: id of one that a chat model still reads. `offers`:
    commands that a yes carries out. `refused`: nothing was changed, the text says why.
    """

    id: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    who: Literal["user", "tuneloop"]
    text: str
    answers: str = ""
    acknowledges: str = ""
    offers: tuple[str, ...] = ()
    refused: bool = False


def describe(command: Command) -> str:  # noqa: PLR0911 - one line a command
    """A command in one line."""
    match command:
        case Use(parameter=p, value=v, always=always):
            return f"{p} = {v} in {'every experiment from now on' if always else 'the next experiment'}"
        case Bound(parameter=p, at_most=high, at_least=low):
            ends = [f"at most {high:g}" if high is not None else "", f"at least {low:g}" if low is not None else ""]
            return f"{p} {' and '.join(filter(None, ends))}"
        case Keep(parameter=p):
            return f"{p} stays as it is"
        case Avoid(parameter=p, value=v):
            return f"{p} is never {v}"
        case Sources(only=only, never=never):
            both = (f"only {', '.join(only)}" if only else "", f"never {', '.join(never)}" if never else "")
            return "data: " + " and ".join(filter(None, both))
        case Focus(text=text):
            return f"idea: {text}"
        case Extend():
            return f"limits: {_amounts(command)}"
        case Finish():
            return "finish after the open experiment"
        case Approve(at=at):
            return "no approval is asked for" if at == "never" else f"ask before each {at}"
        case Delete(experiments=numbers):
            return f"delete the weights of experiment {', '.join(map(str, numbers))}"
    return command.kind


def _amounts(extend: Extend) -> str:
    """`+2 hours, -1 experiments`."""
    parts = (
        (extend.seconds / 3600, "hours"),
        (extend.gpu_hours, "GPU-hours"),
        (extend.experiments, "experiments"),
        (extend.tokens, "tokens"),
        (extend.money, "USD"),
    )
    return ", ".join(f"{amount:+g} {unit}" for amount, unit in parts if amount)
