"""The commands that a person sends to a run: one table and a small grammar, the same for chat, MCP, Studio and Python."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

from pydantic import ValidationError

from tuneloop.core.budget import parse_amount
from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Command,
    Delete,
    Edit,
    Extend,
    Finish,
    Focus,
    Keep,
    NewRun,
    Pause,
    Publish,
    Question,
    Reply,
    Resume,
    Revoke,
    Sources,
    Use,
)
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import Value
from tuneloop.core.run_spec import ApproveAt

NAME = r"[A-Za-z_]\w*"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


class NotACommandError(InvalidRequestError):
    """The text does not begin with the name of a command."""


@dataclass(frozen=True)
class CommandSpec:
    """`read` turns the words after the name into a command, and raises ValueError for others.

    `phrases`: example phrases; the nearest one decides which command is suggested for text that is not a command.
    """

    name: str
    arguments: str
    help: str
    example: str
    read: Callable[[str], Command]
    phrases: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """`use PARAMETER=VALUE [always]`."""
        return f"{self.name} {self.arguments}".strip()


def scalar(text: str) -> Value:
    """A value of `train.yaml`: true, 3, 1e-4, cosine."""
    text = text.strip().strip("\"'")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(NUMBER, text) and math.isfinite(float(text)) else text


def no_arguments(make: Callable[[], Command], text: str) -> Command:
    """Read a command without arguments."""
    if text:
        raise ValueError("takes no arguments")
    return make()


def assignment(text: str) -> tuple[str, Value]:
    """`lora_rank=32`."""
    match = re.fullmatch(rf"({NAME})\s*=\s*(\S.*)", text)
    if match is None:
        raise ValueError(f"no PARAMETER=VALUE in {text!r}")
    return match[1], scalar(match[2])


def read_use(text: str) -> Use:
    """`lora_rank=32 always`."""
    name, value = assignment(re.sub(r"\s+always$", "", text))
    return Use(parameter=name, value=value, always=text.endswith(" always"))


def read_avoid(text: str) -> Avoid:
    """`optim=adafactor`."""
    name, value = assignment(text)
    return Avoid(parameter=name, value=value)


def read_limit(text: str) -> Bound:
    """`num_train_epochs<=3`, `lora_rank>=8` or `8<=lora_rank<=32`."""
    plain = text.replace("≤", "<=").replace("≥", ">=").replace(" ", "")
    match = re.fullmatch(rf"(?:({NUMBER})<=)?({NAME})(?:(<=|>=)({NUMBER}))?", plain)
    ends_given = [float(end) for end in (match[1], match[4]) if end] if match else []
    if match is None or not ends_given or not all(map(math.isfinite, ends_given)) or (match[1] and match[3] == ">="):
        raise ValueError(f"no bound in {text!r}")
    ends = {"<=": "at_most", ">=": "at_least"}
    given = {ends[match[3]]: float(match[4])} if match[3] else {}
    if match[1]:
        given["at_least"] = float(match[1])
    return Bound.model_validate({"parameter": match[2], **given})


def read_keep(text: str) -> Keep:
    """`template`."""
    if not re.fullmatch(NAME, text):
        raise ValueError(f"no parameter in {text!r}")
    return Keep(parameter=text)


def read_sources(text: str) -> Sources:
    """`only a,b`, `not c`, or both."""
    names: dict[str, list[str]] = {"only": [], "not": []}
    into = ""
    for word in text.replace("|", " ").replace(",", " ").split():
        if word in names:
            into = word
        elif into:
            names[into].append(word)
        else:
            raise ValueError(f"neither `only` nor `not` before {word!r}")
    if not (names["only"] or names["not"]):
        raise ValueError("no source is named")
    return Sources(only=tuple(names["only"]), never=tuple(names["not"]))


def read_focus(text: str) -> Focus:
    """An idea, quoted or not."""
    idea = text.strip("\"' ")
    if not idea:
        raise ValueError("no idea is given")
    return Focus(text=idea)


def read_more(text: str) -> Extend:
    """`2h`, `-3 experiments`, `2M tokens`, `$5`."""
    return Extend.model_validate(parse_amount(text))


def read_ask(text: str) -> Approve:
    """`plan`, `launch` or `never`."""
    if text not in get_args(ApproveAt):
        raise ValueError(f"{text!r} is not when a run can ask")
    return Approve.model_validate({"at": text})


def read_delete(text: str) -> Delete:
    """`2,3`."""
    if not re.fullmatch(r"(?:experiments?\s+)?\d+(?:[\s,]+\d+)*", text):
        raise ValueError(f"no numbers of experiments in {text!r}")
    return Delete(experiments=tuple(sorted({int(n) for n in re.findall(r"\d+", text)})))


def read_publish(text: str) -> Publish:
    """`org/name`."""
    if not text or " " in text:
        raise ValueError(f"no repository in {text!r}")
    return Publish(to=text)


def read_revoke(text: str) -> Revoke:
    """`3 4`."""
    if not re.fullmatch(r"\d+(?:[\s,]+\d+)*", text):
        raise ValueError(f"no ids of directives in {text!r}")
    return Revoke(ids=tuple(re.findall(r"\d+", text)))


DOUBTS = "but|if|only|except|unless|wait|not|no|hold|how|what|why|when|after|later|until"


def read_reply(yes: bool, text: str) -> Reply:
    """An optional reason. A yes with a condition or a doubt is refused, and a no that may be a yes."""
    reason = text.lstrip(" ,.:-")
    if yes and ("?" in reason or re.match(rf"(?:{DOUBTS})\b", reason, re.IGNORECASE)):
        raise ValueError("a yes under a condition or with a question is no answer")
    if not yes and re.match(r"(?:problem|worries|objection)s?\b", reason, re.IGNORECASE):
        raise ValueError("it is not clear whether that is a yes or a no")
    return Reply(yes=yes, reason=reason)


def read_run(text: str) -> NewRun:
    """`benchmark=wordproblems base_model=tiny loop_n=2`."""
    pairs = [word.lstrip("-").partition("=") for word in shlex.split(text)]
    if not pairs or not all(name and equals and value for name, equals, value in pairs):
        raise ValueError(f"no OPTION=VALUE in {text!r}")
    return NewRun(options={name.replace("-", "_"): value for name, _, value in pairs})


def read_why(text: str) -> Question:
    """An experiment number, or nothing."""
    number = re.fullmatch(r"(?:experiment\s+)?(\d+)", text)
    if text and number is None:
        raise ValueError(f"{text!r} is no number of an experiment")
    return Question(topic="why", experiment=int(number[1]) if number else None)


def question(topic: str, help_: str, *phrases: str) -> CommandSpec:
    """A question without arguments."""
    read = partial(no_arguments, partial(Question.model_validate, {"topic": topic}))
    return CommandSpec(topic, "", help_, topic, read, phrases)


COMMANDS = (
    question("status", "where the run stands", "how is it going", "what is it doing now", "progress", "where are we"),
    question("best", "the best experiment so far", "what is the best model", "best score so far", "which one is best"),
    question("budget", "what is spent and what is left", "how much have we spent", "what does it cost", "money left"),
    CommandSpec("why", "[N]", "why an experiment brought nothing", "why 3", read_why,
                ("why did the last fail", "what went wrong", "why was it not promoted", "reason of the failure")),
    question("directives", "what was asked of the run", "what did i ask for", "list my directives", "what holds now"),
    question("plan", "the open idea and what comes next", "what is next", "what do you try next", "what is the plan"),
    question("config", "train.yaml of the open or best experiment", "show the config", "which parameters are used"),
    question("loss", "losses of the newest training", "how is the loss", "is the loss going down", "training curve"),
    question("data", "raw data and training rows", "which data is used", "how many rows", "what data do you train on"),
    question("time", "time spent, left and expected", "how long will it take", "when is it done", "time left"),
    question("report", "the report, when the run is over", "show the report", "final result", "test score"),
    question("help", "all commands", "what can i say", "which commands are there", "how do i steer you"),
    CommandSpec("use", "PARAMETER=VALUE [always]", "use a value in the next experiment, or in all", "use lora_rank=32",
                read_use, ("try another value", "set the parameter to", "use a higher rank", "train with")),
    CommandSpec("avoid", "PARAMETER=VALUE", "never use a value", "avoid optim=adafactor", read_avoid,
                ("never use", "do not use this value", "without this optimizer")),
    CommandSpec("limit", "[MIN<=]PARAMETER<=MAX", "keep a parameter within bounds", "limit num_train_epochs<=3",
                read_limit, ("never raise above", "at most so many epochs", "not more than", "not below")),
    CommandSpec("keep", "PARAMETER", "leave a parameter as it is", "keep template", read_keep,
                ("do not change", "leave the parameter as it is", "keep the same")),
    CommandSpec("sources", "only A,B | not C", "which raw data may be used", "sources not forum.jsonl", read_sources,
                ("use only this data", "leave out this data set", "without this file")),
    CommandSpec("focus", '"IDEA"', "an idea in words, for agents that are chat models",
                'focus "longer solutions with every step written"', read_focus, ("concentrate on", "try the idea of")),
    CommandSpec("more", "AMOUNT", "more (or with -, less) time, experiments, tokens, money, GPU-hours", "more 2h",
                read_more, ("give it more time", "two more hours", "another experiment", "spend less")),
    CommandSpec("finish", "", "end after the open experiment, then test and report", "finish",
                partial(no_arguments, Finish), ("stop after this one", "finish up", "wrap it up", "no more experiments"),
                ("done",)),
    CommandSpec("pause", "", "stop now and keep everything", "pause", partial(no_arguments, Pause),
                ("stop now", "hold on", "halt", "stop the run", "take a break")),
    CommandSpec("resume", "", "go on with a paused run", "resume", partial(no_arguments, Resume),
                ("go on", "continue", "carry on", "start again")),
    CommandSpec("ask", "plan|launch|never", "when the run asks before it goes on", "ask launch", read_ask,
                ("ask me before each training", "ask before you launch", "stop asking me", "i want to approve plans")),
    CommandSpec("yes", "[REASON]", "yes to what the run asks or offers", "yes", partial(read_reply, True), (),
                ("y", "ok", "okay", "approve")),
    CommandSpec("no", "[REASON]", "no to it", "no too expensive", partial(read_reply, False), (), ("n", "reject")),
    CommandSpec("edit", "", "change what waits for approval, in $EDITOR", "edit", partial(no_arguments, Edit),
                ("let me change the plan", "i want to edit the config")),
    CommandSpec("delete", "N,N", "remove the weights of experiments", "delete 2", read_delete,
                ("delete the weights", "free some disk space", "remove the model of experiment")),
    CommandSpec("publish", "REPOSITORY", "where the model lies, to upload it", "publish me/my-model", read_publish,
                ("upload the model", "push to the hub")),
    CommandSpec("revoke", "N", "take a directive back", "revoke 2", read_revoke,
                ("undo that", "take that back", "forget what i said")),
    CommandSpec("run", "benchmark=B base_model=M [OPTION=VALUE …]", "start a new run, with the options of tuneloop run",
                "run benchmark=wordproblems base_model=tiny loop_n=2", read_run,
                ("start a run", "fine-tune a model on", "train this model")),
)  # fmt: skip
BY_NAME = {name: spec for spec in COMMANDS for name in (spec.name, *spec.aliases)}


def named_command(text: str) -> CommandSpec | None:
    """The command whose name a text begins with; a leading slash is optional."""
    return BY_NAME.get(text.strip().removeprefix("/").partition(" ")[0].lower().rstrip(".,!?"))


def parse(text: str) -> Command:
    """Parse a text as a command; a leading slash is optional.

    Raises:
        NotACommandError: The text does not begin with the name of a command.
        InvalidRequestError: The arguments are wrong.
    """
    spec = named_command(text)
    if spec is None:
        raise NotACommandError(
            f"{text.strip()[:80]!r} is no command; right is one of {', '.join(s.name for s in COMMANDS)}"
        )
    try:
        return spec.read(text.strip().removeprefix("/").partition(" ")[2].strip())
    except ValidationError as e:
        reason = e.errors()[0]["msg"].removeprefix("Value error, ")
    except ValueError as e:
        reason = str(e)
    raise InvalidRequestError(f"{spec.name}: {reason}; right is `{spec.usage}`, e.g. `{spec.example}`")


def find_command(text: str) -> Command | None:
    """Parse a text as a command; None when it is not one."""
    try:
        return parse(text)
    except InvalidRequestError:
        return None


def table() -> str:
    """Usage and help of every command, one per line."""
    width = max(len(spec.usage) for spec in COMMANDS)
    return "\n".join(f"{spec.usage:{width}}  {spec.help}" for spec in COMMANDS)
