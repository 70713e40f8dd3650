"""What is wanted beside the prompts, and what of a model's words will do as an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tuneloop_models.endpoint import Said

JSON_WORDS = "Answer with one JSON object and nothing else; its fields: {}."
NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", list: "list", dict: "object"}

Prompt = str | list[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """`text` None: there is none, and `why` says why. `value`: the JSON object where fields were asked for.

    `thought`: what a model that thinks aloud says apart from its answer; `kept`: it was paid for before.
    """

    text: str | None
    value: Any = None
    why: str = ""
    model: str = ""
    thought: str = ""
    kept: bool = False


@dataclass(frozen=True)
class Wanted:
    """What is asked beside the prompts."""

    system: str
    fields: dict[str, type]
    options: dict[str, Any]

    def turns(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The conversation that the model answers."""
        found = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(turn) for turn in prompt]
        if self.fields:
            told = (f"{name} ({NAMES[kind]})" if kind in NAMES else name for name, kind in self.fields.items())
            found[-1]["content"] = f"{found[-1]['content']}\n\n{JSON_WORDS.format(', '.join(told))}"
        return [{"role": "system", "content": self.system}, *found] if self.system else found

    def read(self, said: Said) -> Answer:
        """The answer, or why it will not do."""
        value, why = json_object(said.text) if self.fields else None, ""
        if said.finish in ("length", "content_filter"):
            why = f"the answer was cut ({said.finish})"
        elif not said.text.strip():
            why = "the answer is empty"
        elif self.fields and (value is None or not all(fits(value.get(n), kind) for n, kind in self.fields.items())):
            why = f"no JSON object with {' and '.join(self.fields)}"
        return Answer(None if why else said.text, None if why else value, why, said.model, said.thought, said.kept)


def json_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text, whatever stands around it; what was thought aloud before it does not count."""
    text, decoder = text.rpartition("</think>")[2], json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            found = decoder.raw_decode(text, place)[0]
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        return found if isinstance(found, dict) else None
    return None


def fits(value: Any, kind: type) -> bool:
    """Whether a field is there and is what was asked for."""
    if isinstance(value, bool) and kind in (int, float):
        return False
    return value is not None and isinstance(value, (int, float) if kind is float else kind)
