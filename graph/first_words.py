"""The first words of a chat that has no run yet: what is to be tuned on what, understood by names and numbers, or a question."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from tuneloop.core.run import RunSpec
from tuneloop.tools import benchmarks, datasets, models

EXAMPLE = '"fine-tune tiny on wordproblems, 2 experiments" or {"benchmark": "wordproblems", "base_model": "tiny", "loop_n": 2}'
WORD = re.compile(r"[\w./:@~+-]*\w")
EXPERIMENTS = re.compile(r"(\d+)\s+(?:\w+\s+)?(?:experiments?|loops?|turns?)", re.I)
TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)(?:ays?|ours?|rs?|in(?:ute)?s?|ec(?:ond)?s?)?\b", re.I)
NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "eight": "8", "ten": "10"}


def first_words(text: str) -> RunSpec | str:
    """A spec, or the question that is left."""
    given = as_object(text) if "{" in text else by_names(text)
    if isinstance(given, str):
        return given
    try:
        return RunSpec.model_validate(given.get("spec", given))
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg'].removeprefix('Value error, ')}. Right is, e.g., {EXAMPLE}."


def as_object(text: str) -> dict[str, Any] | str:
    """The JSON object in the text."""
    try:
        given, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError as e:
        return f"This is no JSON: {e}. Right is, e.g., {EXAMPLE}."
    return dict(given)


def by_names(text: str) -> dict[str, Any] | str:
    """Registered names and amounts in a sentence."""
    text = re.sub(r"\b\w+\b", lambda word: NUMBERS.get(word[0].lower(), word[0]), text)
    words = [*dict.fromkeys(WORD.findall(text))]
    found = [word for word in words if word in benchmarks.names()]
    base = [word for word in words if word in models.names() or re.fullmatch(r"[\w.-]+/[\w.-]+", word)]
    if not found:
        return f"Which benchmark shall become better? E.g. {', '.join(benchmarks.names()[:5])}. Say it like {EXAMPLE}."
    if not base:
        return (
            f"Which model shall be tuned on {found[0]}? Right is {', '.join(models.names())} or a hub id like org/name."
        )
    spec: dict[str, Any] = {"benchmark": found[0], "also": found[1:], "base_model": base[0]}
    spec["datasets"] = [word for word in words if word in datasets.names() and word not in found]
    text = re.sub(
        "|".join(map(re.escape, sorted({*found, *base}, key=len, reverse=True))), " ", text
    )  # …-70m is no time
    if loops := EXPERIMENTS.search(text):
        spec["loop_n"] = int(loops[1])
    if time := TIME.search(text):
        spec["timeout"] = f"{time[1]}{time[2].lower()}"
    return spec


def summary(spec: RunSpec) -> str:
    """What was understood."""
    loops = f", {spec.loop_n} experiments" if spec.loop_n else ""
    time = f", {spec.timeout / 3600:g} hours" if spec.timeout else ""
    data = f", data: {', '.join(spec.datasets)}" if spec.datasets else ""
    return f"{spec.base_model} is tuned on {', '.join(spec.measured)}{data}{loops}{time}"
