"""The parameters that the policy turns, by what they mean: their names and first values are the parameter server's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuneloop.agents.policy.evidence import call
from tuneloop.agents.policy.situation import BATCH
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import Value
from tuneloop.core.toolbox import Toolbox

Values = dict[str, Value]
FULL, LORA = "full", "lora"
MEANINGS = {
    "method": "finetuning type",
    "rate": "learning rate",
    "steps": "max steps",
    "epochs": "train epochs",
    "rank": "lora rank",
}


@dataclass(frozen=True)
class Knobs:
    """Names in this release, and for each method the values that the server suggests first."""

    method: str
    rate: str
    steps: str
    epochs: str
    rank: str
    first: Mapping[str, Values]

    def begun(self, method: str) -> Values:
        """Method, rate and, where it has one, rank as suggested."""
        return {
            key: self.first[method][key] for key in (self.method, self.rate, self.rank) if key in self.first[method]
        }

    def steps_of(self, values: Values, rows: float) -> int:
        """Optimizer steps of a plan."""
        if self.steps in values:
            return int(number(values[self.steps]))
        return max(1, round(number(values.get(self.epochs, 3)) * rows / BATCH))

    def with_steps(self, values: Values, steps: int, rows: float) -> Values:
        """The plan with another length, said as it was said before."""
        if self.epochs in values:
            return {**values, self.epochs: round(max(0.5, steps * BATCH / max(1.0, rows)), 1)}
        return {**values, self.steps: steps}

    def with_rate(self, values: Values, factor: float) -> Values:
        """The plan with another learning rate, two digits."""
        rate = values.get(self.rate, self.first.get(str(values.get(self.method)), self.first[LORA])[self.rate])
        return {**values, self.rate: float(f"{number(rate) * factor:.2g}")}

    def other_method(self, values: Values) -> Values:
        """Full ↔ LoRA, with the rate and rank that suit it."""
        rest = {k: v for k, v in values.items() if k not in (self.method, self.rate, self.rank)}
        return {**self.begun(FULL if values.get(self.method) == LORA else LORA), **rest}


async def read_knobs(tools: Toolbox, *, search: bool = True) -> Knobs:
    """Ask the server; without its search its suggestions alone show the names. Raises ToolError for one it lacks."""
    told, full, lora = await asyncio.gather(
        call(tools, "params_query_parameters", text=", ".join(MEANINGS.values())) if search else nothing(),
        tools.call("params_suggest_config", method=FULL, batch=BATCH, steps=100),
        tools.call("params_suggest_config", method=LORA, batch=BATCH),
    )
    first: dict[str, Values] = {FULL: full["values"], LORA: lora["values"]}
    names = [*(told or {}).get("names", ()), *first[FULL], *first[LORA]]
    found = {knob: meant(words, names) for knob, words in MEANINGS.items()}
    if lacking := [MEANINGS[knob] for knob, name in found.items() if name is None]:
        raise ToolError(f"this release has no parameter for {', '.join(lacking)}")
    return Knobs(first=first, **{knob: str(name) for knob, name in found.items()})


async def nothing() -> None:
    """The answer of nobody."""


def meant(words: str, names: Iterable[str]) -> str | None:
    """The shortest of the names that say all the words; a word may be cut short (`length`, `len`)."""
    fitting = [name for name in names if all(said(word, name) for word in words.lower().replace("_", " ").split())]
    return min(fitting, key=lambda name: name.count("_"), default=None)


def said(word: str, name: str) -> bool:
    """Whether the name says the word."""
    return any(part.startswith(word) or (len(part) > 2 and word.startswith(part)) for part in name.lower().split("_"))


def number(value: Value) -> float:
    """A value as a number; plans come as people and models write them."""
    return float(str(value))
