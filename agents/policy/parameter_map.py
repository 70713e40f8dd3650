"""Training values: the sensible first ones for a model and device, and how many steps the time allows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneloop.agents.policy.evidence import call_or_none
from tuneloop.agents.policy.situation import BATCH, Situation
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import Hypothesis, Value, smoke_run_steps
from tuneloop.core.files import parse_json
from tuneloop.core.protocols import Toolbox

# The parameters that the policy turns, by what they mean: their names and first values are the parameter server's.

Values = dict[str, Value]
FULL, LORA = "full", "lora"
STEPS_ASKED: dict[str, dict[str, int]] = {FULL: {"steps": 100}}  # so that both ways to say a length are shown
MEANINGS = {
    "method": "finetuning type",
    "rate": "learning rate",
    "steps": "max steps",
    "epochs": "train epochs",
    "rank": "lora rank",
    "prompt_loss": "train on prompt",
}


@dataclass(frozen=True)
class ParameterMap:
    """Names in this release, and for each method the values that the server suggests first."""

    method: str
    rate: str
    steps: str
    epochs: str
    rank: str
    prompt_loss: str
    first: Mapping[str, Values]

    def begun(self, method: str) -> Values:
        """Method, rate and, where it has one, rank as suggested."""
        first = self.first[method]
        return {key: first[key] for key in (self.method, self.rate, self.rank) if key in first}

    def steps_of(self, values: Values, rows: float) -> int:
        """Optimizer steps of a plan."""
        if self.steps in values:
            return int(as_number(values[self.steps]))
        return max(1, round(as_number(values.get(self.epochs, UNSAID)) * rows / BATCH))

    def with_steps(self, values: Values, steps: int, rows: float) -> Values:
        """The plan with another length, said as it was said before."""
        if self.epochs in values:
            return {**values, self.epochs: round(max(0.5, steps * BATCH / max(1.0, rows)), 1)}
        return {**values, self.steps: steps}

    def with_rate(self, values: Values, factor: float) -> Values:
        """The plan with another learning rate, two digits."""
        first = self.first.get(str(values.get(self.method))) or self.first.get(LORA, {})
        rate = values.get(self.rate, first.get(self.rate, 0))
        return {**values, self.rate: float(f"{as_number(rate) * factor:.2g}")}

    def values_of(self, idea: Hypothesis) -> Values:
        """The training plan; texts as what they say, without rates, lengths and ranks that are no numbers above 0."""
        values = {key: yaml_literal(v) if isinstance(v, str) else v for key, v in idea.training_plan.items()}
        turned = {self.rate, self.steps, self.epochs, self.rank}
        return {key: value for key, value in values.items() if key not in turned or is_amount(value)}

    def other_method(self, values: Values) -> Values:
        """Full ↔ LoRA, with the rate and rank that suit it."""
        rest = {k: v for k, v in values.items() if k not in (self.method, self.rate, self.rank)}
        return {**self.begun(FULL if values.get(self.method) == LORA else LORA), **rest}


async def read_parameter_map(
    tools: Toolbox, *, search: bool = True, methods: Sequence[str] = (FULL, LORA)
) -> ParameterMap:
    """Ask the server; without its search its suggestions alone show the names. Raises ToolError for one it lacks.

    `methods`: those whose first values are asked for; without LoRA its rank may stay unknown.
    """
    asked = [", ".join(MEANINGS.values())] if search else []
    *suggested, told = await asyncio.gather(
        *(tools.call("params_suggest_config", method=m, batch=BATCH, **STEPS_ASKED.get(m, {})) for m in methods),
        asyncio.gather(*(call_or_none(tools, "params_query_parameters", text=text) for text in asked)),
    )
    first: dict[str, Values] = {method: one["values"] for method, one in zip(methods, suggested, strict=True)}
    names = [
        *(name for one in told for name in (one or {}).get("names", ())),
        *(name for values in first.values() for name in values),
    ]
    found = {knob: match_name(words, names) for knob, words in MEANINGS.items()}
    optional = ("prompt_loss",) if LORA in methods else ("prompt_loss", "rank")
    lacking = [MEANINGS[knob] for knob, name in found.items() if name is None and knob not in optional]
    if lacking and len(methods) < 2:  # the server may not be searched
        return await read_parameter_map(tools, search=False)
    if lacking:
        raise ToolError(f"this release has no parameter for {', '.join(lacking)}")
    return ParameterMap(first=first, **{knob: name or "" for knob, name in found.items()})


def match_name(words: str, names: Iterable[str]) -> str | None:
    """The shortest of the names that say all the words; a word may be cut short (`length`, `len`)."""
    fitting = [name for name in names if all(name_says(word, name) for word in words.lower().replace("_", " ").split())]
    return min(fitting, key=lambda name: name.count("_"), default=None)


def name_says(word: str, name: str) -> bool:
    """Whether the name says the word."""
    return any(part.startswith(word) or (len(part) > 2 and word.startswith(part)) for part in name.lower().split("_"))


def yaml_literal(text: str) -> Value:
    """A value as YAML would read it."""
    try:
        value: Any = parse_json(text)
    except ValueError:
        return text.strip("'\"")
    return value if isinstance(value, str | int | float | bool) else text


def is_amount(value: Value) -> bool:
    """Whether it is a number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def as_number(value: Value) -> float:
    """A value as a number; plans come as people and models write them."""
    return float(str(value))


UNSAID = 3.0  # epochs where a plan names neither steps nor epochs
FEWEST = 20  # steps that teach anything
MOST_OF_TIME = 0.6  # the rest is for evaluations and the sealed test
TINY_STEPS, TINY_SECONDS, LONGEST_SECONDS = 640, 155.0, 260.0


def first_training(situation: Situation, parameter_map: ParameterMap, rows: float) -> Values:
    """Full training for a tiny model, LoRA for a real one; steps or epochs by time."""
    if situation.card.tiny:
        return parameter_map.begun(FULL) | {parameter_map.steps: fit_steps(situation, TINY_STEPS, 0.0)}
    values = parameter_map.begun(LORA)
    epochs = parameter_map.first[LORA][parameter_map.epochs]
    wanted = parameter_map.steps_of({parameter_map.epochs: epochs}, rows)
    steps = fit_steps(situation, wanted, 0.0)
    return values | ({parameter_map.epochs: epochs} if steps >= wanted else {parameter_map.steps: steps})


def estimate_tokens(situation: Situation) -> float:
    """Tokens of a typical record, from its characters."""
    reply = max((s.profile.solution_lengths.p50 for s in situation.sources), default=100)
    return (situation.facts.prompt_lengths.p50 + reply) / (2.0 if situation.card.tiny else 3.5) + 10


def training_seconds(situation: Situation) -> float:
    """Seconds one training may take: a fair part of what is left, and on its own a minute or so for a tiny model."""
    budget = situation.brief.budget
    own = (TINY_SECONDS if situation.experiment_one else LONGEST_SECONDS) if situation.card.tiny else float("inf")
    if budget.training_left is None:
        return own
    overhead = max(0.0, (budget.seconds_per_experiment or 0.0) - (budget.training_seconds or 0.0))
    share = 0.7 * budget.training_left / max(1, min(budget.experiments_left or 3, 4)) - overhead
    return max(5.0, min(own, share))


def fit_steps(situation: Situation, wanted: int, seconds_per_step: float) -> int:
    """`wanted`, or as many steps (in tens) as the time allows; at least 20, or what most of the time that is left holds.

    What was measured counts only where the user set a time: else a busy machine would change the journal.
    """
    left = situation.brief.budget.training_left
    measured = seconds_per_step if left is not None else 0.0
    each = measured or situation.card.seconds_per_step(estimate_tokens(situation))
    possible = affordable_steps(situation, training_seconds(situation), each)
    least = FEWEST if left is None else min(FEWEST, max(1, int(affordable_steps(situation, MOST_OF_TIME * left, each))))
    return max(least, wanted if wanted <= possible else int(possible) // 10 * 10)


def affordable_steps(situation: Situation, seconds: float, each: float) -> float:
    """Steps of `each` seconds that so many seconds hold; where nothing was trained yet, the smoke run takes its part of them.

    Later what an experiment takes beside its training is known, the smoke run included.
    """
    found = situation.card.throughput
    if found is None:
        return seconds / each
    possible = max(0.0, seconds - found.overhead) / each
    if not situation.experiment_one:
        return possible
    return max(0.0, possible - smoke_run_steps(int(0.8 * possible)))
