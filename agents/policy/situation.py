"""What the offline policy has read before it decides: brief, profiles, model card."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuneloop.agents.policy.compose import Form
from tuneloop.agents.policy.final import final_form
from tuneloop.core.brief import Brief, Task
from tuneloop.core.constraints import is_allowed
from tuneloop.core.profile import BenchmarkFacts, DatasetProfile, SourceProfile
from tuneloop.core.toolbox import Toolbox

TINY = 20_000_000
CPU_FLOPS, GPU_FLOPS = 4e10, 6e13
BATCH = 16


@dataclass(frozen=True)
class Card:
    """The base model as the parameter server tells it."""

    parameters: int
    max_positions: int | None
    chat_template: bool
    template: str | None
    device: str

    @property
    def tiny(self) -> bool:
        """So small that full training on a CPU is a matter of a minute."""
        return self.parameters < TINY

    def seconds_per_step(self, tokens: float) -> float:
        """A guess for one optimizer step of the usual batch with rows of so many tokens."""
        speed = CPU_FLOPS if self.device == "cpu" else GPU_FLOPS
        return 0.02 + 6 * self.parameters * BATCH * max(16.0, tokens) / speed


@dataclass(frozen=True)
class Source:
    """A source of one data set; `contradicted`: share of shared questions on which even the friendliest source differs."""

    dataset: str
    profile: SourceProfile
    contradicted: float = 0.0

    @property
    def id(self) -> str:
        """As rows of a data script name it."""
        p = self.profile
        return f"{self.dataset}/{p.file}" + (f"#{p.where}" if p.where else "")

    @property
    def votes(self) -> bool:
        """Whether questions have several independent replies: most occur more than once, and replies differ."""
        return self.profile.repeated > 0.5 and self.profile.disagreeing > 0.02

    @property
    def verifiable(self) -> bool:
        """Whether something in the data tells right answers from wrong ones."""
        return self.profile.key_agreement is not None or self.votes

    @property
    def noise(self) -> float:
        """Share of wrong answers as far as the source itself shows it; 0 also where nothing shows anything."""
        p = self.profile
        known = 1 - p.key_agreement if p.key_agreement is not None else 0.0
        return max(known, 0.6 * p.disagreeing if p.repeated > 0.05 else 0.0, p.false_equations * p.equations)

    @property
    def equations(self) -> float:
        """Rows with two equations, in signs or in words."""
        return self.profile.two_equations + self.profile.spoken_equations

    @property
    def questions(self) -> float:
        """Different questions, roughly."""
        p = self.profile
        unique = 1 - min(0.95, p.exact_duplicates + p.near_duplicates)
        return p.rows * p.answered * (0.4 if self.votes else unique)

    @property
    def usable(self) -> bool:
        """A question and something to answer it with."""
        return bool(self.profile.reading.question) and bool(self.profile.reading.solution or self.profile.reading.key)

    def fills(self, facts: BenchmarkFacts) -> bool:
        """Whether it has what the benchmark's template wants: each field, or one text where only one field varies."""
        varying = sum(not ends.constant for ends in facts.fields.values())
        return varying <= 1 or bool(self.profile.reading.fields)


@dataclass(frozen=True)
class Situation:
    """Everything read so far."""

    brief: Brief
    facts: BenchmarkFacts
    sources: tuple[Source, ...]
    card: Card

    @property
    def task(self) -> Task:
        """The task card."""
        return self.brief.task

    @property
    def experiment_one(self) -> bool:
        """Whether nothing was measured yet."""
        return not any(row.value is not None for row in self.brief.journal)

    def source(self, name: str) -> Source | None:
        """By its id."""
        return next((s for s in self.sources if s.id == name), None)

    @property
    def enough(self) -> int:
        """So many clean rows need no more company."""
        return min(self.task.row_limit, 500 if self.card.tiny else 1000)


async def read_situation(brief: Brief, tools: Toolbox) -> Situation:
    """Ask the servers. Raises ToolError with a server's own sentence."""
    names = brief.task.datasets or tuple(d["name"] for d in await tools.call("data_list_datasets"))
    card, *told = await asyncio.gather(
        tools.call("params_model_card"), *(tools.call("data_profile_dataset", dataset=name) for name in names)
    )
    profiles = [DatasetProfile.model_validate(answer) for answer in told]
    sources = tuple(
        Source(name, s, contradicted(p, s.name))
        for name, p in zip(names, profiles, strict=True)
        for s in p.sources
        if is_allowed(brief.directives, name, s.file)
    )
    return Situation(brief, profiles[0].benchmark, sources, read_card(card, brief))


def contradicted(profile: DatasetProfile, source: str) -> float:
    """1 less the best agreement with another source on at least 20 shared questions; 0 where nothing is shared."""
    shared = [a.agreeing for a in profile.agreements if source in (a.first, a.second) and a.questions >= 20]
    return 1 - max(shared) if shared else 0.0


def read_card(told: dict[str, Any], brief: Brief) -> Card:
    """The part of a model card the policy needs."""
    return Card(
        parameters=int(told["parameters"]),
        max_positions=told.get("max_positions"),
        chat_template=bool(told.get("chat_template")),
        template=told.get("template"),
        device=str(told.get("device") or brief.task.device),
    )


def form_of(task: Task, facts: BenchmarkFacts) -> Form:
    """How the benchmark asks and reads."""
    final = final_form(task, facts)
    low, high = facts.answer_low or 0.0, facts.answer_high or 0.0
    room = 2 * max(abs(low), abs(high), 10.0)
    style = facts.options
    return Form(
        prompt=task.prompt,
        prefixes={name: ends.prefix for name, ends in facts.fields.items()},
        suffixes={name: ends.suffix for name, ends in facts.fields.items()},
        constants=tuple(name for name, ends in facts.fields.items() if ends.constant),
        shape=facts.answer_shape,
        labels=facts.labels,
        low=min(0.0, low - room) if low < 0 else 0.0,
        high=math.ceil(high + room),
        options={"mark": style.mark, "separator": style.separator, "lead": style.lead} if style else None,
        final=final.template,
        steps=final.steps,
    )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
