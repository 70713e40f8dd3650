"""`rg:TASK?option=value`: a task of reasoning_gym by its name, checked against the list of the release that the engine has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tuneloop.core.catalog import VERIFIER, Benchmark, Dataset
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, read_json
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, engine_identity
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.registry import did_you_mean

PREFIX = "rg:"
ENGINE = "reasoning_gym"
SCRIPTS = ENGINES / ENGINE
VERIFIER_FILE = SCRIPTS / "verifier.py"
RIGHT = f"{PREFIX}TASK or {PREFIX}TASK?OPTION=VALUE&..., e.g. '{PREFIX}leg_counting?max_animals=5'"
OURS = ("seed", "size")
PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
LONGEST = 512
ASKED = "{question}\n\nPut the final answer, and nothing else, between <answer> and </answer>."
KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "list": (list,),
}
LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class Task:
    """A task and the options that differ from its defaults, in the order of their names."""

    name: str
    options: Mapping[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What the list says of it."""
        return known_tasks()[self.name]

    @property
    def text(self) -> str:
        """As a user writes it."""
        given = "&".join(f"{name}={_written(value)}" for name, value in self.options.items())
        return PREFIX + self.name + (f"?{given}" if given else "")

    @property
    def title(self) -> str:
        """The name of its benchmark, which names files: with the options, or a hash of them where they are no plain text."""
        given = [f"{name}-{_written(value)}" for name, value in self.options.items()]
        plain = "-".join((f"rg-{self.name}", *given))
        return plain if PLAIN_NAME.fullmatch(plain) else f"rg-{self.name}-{digest(self.options_json)}"

    @property
    def options_json(self) -> str:
        """The options as the engine reads them."""
        return json.dumps(dict(self.options))


@cache
def known_tasks() -> dict[str, dict[str, Any]]:
    """The tasks of the locked release by name, as `engines/reasoning_gym/snapshot.py` lists them."""
    found: dict[str, dict[str, Any]] = read_json(SCRIPTS / "tasks.json")["tasks"]
    return found


def read_task(text: str) -> Task:
    """The task that `rg:...` names. Raises InvalidRequestError in one line that says what is right."""
    name, _, given = text.removeprefix(PREFIX).partition("?")
    if name not in known_tasks():
        raise InvalidRequestError(
            f"benchmark {text!r}: task {name!r} is unknown: {did_you_mean(name, list(known_tasks()))} (right is {RIGHT})"
        )
    facts = known_tasks()[name]
    if facts["refused"]:
        raise InvalidRequestError(f"benchmark {text!r}: no item of this task can be made: {facts['refused']}")
    options: dict[str, Any] = {}
    for pair in filter(None, given.split("&")):
        option, equals, value = pair.partition("=")
        if not equals or option in options:
            raise InvalidRequestError(f"benchmark {text!r}: {pair!r} is no option given once; right is {RIGHT}")
        options[option] = read_option(text, facts["options"], option, value)
    own = {option: value for option, value in sorted(options.items()) if value != facts["options"][option]["default"]}
    return Task(name, own)


def read_option(text: str, options: Mapping[str, Any], option: str, value: str) -> Any:
    """The value of an option by its kind. Raises InvalidRequestError."""
    if option in OURS:
        raise InvalidRequestError(
            f"benchmark {text!r}: {option} is no option here: seeds and sizes are drawn and chosen"
        )
    if option not in options:
        raise InvalidRequestError(
            f"benchmark {text!r}: option {option!r} is unknown: {did_you_mean(option, list(options))}"
        )
    facts = options[option]
    if not facts["kind"]:
        raise InvalidRequestError(f"benchmark {text!r}: option {option} takes no value that can be written")
    found = _parsed(value, facts["kind"])
    usual = json.dumps(facts["default"])
    choices = facts.get("choices")
    is_kind = isinstance(found, KINDS[facts["kind"]]) and isinstance(found, bool) == (facts["kind"] == "bool")
    if not (is_kind or (found is None and facts["none"])) or (choices and found not in choices):
        right = (
            " or ".join(map(str, choices)) if choices else {"list": "a list as JSON"}.get(facts["kind"], facts["kind"])
        )
        raise InvalidRequestError(f"benchmark {text!r}: {option}={value!r}; right is {right}, usual is {usual}")
    return float(found) if facts["kind"] == "float" and found is not None else found


def _parsed(value: str, kind: str) -> Any:
    """A value as JSON has it; a text needs no quotes. What is no JSON, or no finite number, is the text itself."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(value, value)
    if kind == "str" and found is not None:
        return found if isinstance(found, str) else value
    return value if isinstance(found, float) and not math.isfinite(found) else found


def _written(value: Any) -> str:
    """A value as it stands in a name."""
    return value if isinstance(value, str) else json.dumps(value)


def declare_reasoning_gym(text: str) -> Benchmark:
    """The declaration of `rg:...`; nothing is built for it. Raises InvalidRequestError."""
    task = read_task(text)
    source = VERIFIER_FILE.read_text(encoding="utf-8")
    # the engine's identity stands there for the key of results: another release may score otherwise
    made = f"# {engine_identity(ENGINE_BLUEPRINTS[ENGINE])}\nscore = make_score({task.name!r}, {task.options_json!r})\n"
    return Benchmark(
        name=task.title,
        domain="reasoning",
        description=(
            f"The task {task.name} of reasoning_gym{_options_text(task)}: {_about(task.name)} "
            "The answer stands between <answer> and </answer>, else the whole reply is the answer; the task's own "
            "score_answer says what it is worth, from 0 to 1."
        ),
        answer=f"{VERIFIER}{VERIFIER_FILE.name}",
        prompt=ASKED,
        verifier=f"{source}\n\n{made}",
        engine=ENGINE,
        max_new_tokens=LONGEST,
        licence=LICENCE,
        own_dataset=task.text if task.facts["answers"] else "",
    )


def _options_text(task: Task) -> str:
    return (
        f" with {', '.join(f'{name}={_written(value)}' for name, value in task.options.items())}"
        if task.options
        else ""
    )


def _about(name: str) -> str:
    said = known_tasks()[name]["about"] or name.replace("_", " ")
    return said.rstrip(".") + "."


def declare_training_pool(text: str) -> Dataset:
    """The card of the data set `rg:...`. Raises InvalidRequestError, also for a task whose items have no answers."""
    task = read_task(text)
    if not task.facts["answers"]:
        raise InvalidRequestError(
            f"data set {text!r}: items of {task.name} have no answers to learn from: its verifier judges any; "
            "name another data set with --dataset"
        )
    return Dataset(
        name=f"{task.title}-train",
        description=f"Items of reasoning_gym's task {task.name}{_options_text(task)}, of other seeds than the benchmark's.",
        domain="reasoning",
        licence=LICENCE,
        teaches=(task.title,),
        quality="Question and answer as the generator made them; steps, where the generator has them.",
    )


def task_cards() -> Iterator[dict[str, Any]]:
    """A row for each task, for lists; `options` are those that may be written behind its name."""
    for name, facts in known_tasks().items():
        options = {option: one["default"] for option, one in facts["options"].items() if one["kind"]}
        shown = ", ".join(f"{option}={_written(value)}" for option, value in options.items())
        why = {"items": facts["refused"]} if facts["refused"] else {}
        yield {
            "name": PREFIX + name,
            "domain": "reasoning",
            "description": f"{_about(name)} {f'Options: {shown}' if shown else 'No options'}",
            "metric": "accuracy",
            "needs": ["verifier"],
            "licence": LICENCE,
            "parts": [],
            "unavailable": why,
            "items": None,
            "options": options,
            "answers": facts["answers"],
        }
