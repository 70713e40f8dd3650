"""What the offline policy has read before it decides: brief, profiles, model card."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuneloop.agents.policy.script_composer import Form
from tuneloop.core.brief import Brief, TaskCard
from tuneloop.core.constraints import is_allowed
from tuneloop.core.experiment import Throughput
from tuneloop.core.profile import BenchmarkFacts, DatasetProfile, ItemField, SourceProfile
from tuneloop.core.protocols import Toolbox

TINY = 20_000_000
CPU_FLOPS, GPU_FLOPS = 4e10, 6e13
BATCH = 16


@dataclass(frozen=True)
class ModelFacts:
    """The base model as the parameter server tells it; `asked`: chat, or raw where the evaluation asks plain text."""

    parameters: int
    chat_template: bool
    device: str
    throughput: Throughput | None = None
    asked: str = "chat"

    @property
    def tiny(self) -> bool:
        """So small that full training on a CPU is a matter of a minute."""
        return self.parameters < TINY

    def seconds_per_step(self, tokens: float) -> float:
        """One optimizer step of the usual batch with rows of so many tokens: as measured, else a guess."""
        if self.throughput is not None:
            return self.throughput.step_seconds(BATCH, max(16.0, tokens))
        speed = CPU_FLOPS if self.device == "cpu" else GPU_FLOPS
        return 0.02 + 6 * self.parameters * BATCH * max(16.0, tokens) / speed


@dataclass(frozen=True)
class DataSource:
    """A source of one data set."""

    dataset: str
    profile: SourceProfile

    @property
    def contradicted(self) -> float | None:
        """Share of its answers that other sources say are wrong; None: they say nothing."""
        return self.profile.contradicted

    @property
    def id(self) -> str:
        """As rows of a data script name it."""
        p = self.profile
        return f"{self.dataset}/{p.file}" + (f"#{p.where}" if p.where else "")

    @property
    def disputed(self) -> bool:
        """Whether by what other sources say more than a tenth is wrong, and no vote of its own finds out which."""
        return self.contradicted is not None and self.contradicted > 0.1

    @property
    def confirmed(self) -> bool:
        """Whether other sources say that hardly an answer is wrong."""
        return self.contradicted is not None and not self.disputed

    @property
    def verifiable(self) -> bool:
        """Whether something in the data tells right answers from wrong ones."""
        return self.profile.key_agreement is not None or self.profile.votes

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
        return p.rows * p.answered * (0.4 if p.votes else unique)

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
    sources: tuple[DataSource, ...]
    card: ModelFacts

    @property
    def task(self) -> TaskCard:
        """The task card."""
        return self.brief.task

    @property
    def experiment_one(self) -> bool:
        """Whether nothing was measured yet."""
        return not any(row.value is not None for row in self.brief.journal)

    @property
    def longest_question(self) -> int:
        """Characters a question may have: some more than the benchmark's; without one, as nearly all of the data's have."""
        if self.task.evaluated:
            return 3 * self.facts.prompt_lengths.max + 200
        return max((s.profile.question_lengths.p95 for s in self.sources), default=400)

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
    found = [(name, source) for name, p in zip(names, profiles, strict=True) for source in p.sources]
    sources = [DataSource(name, source) for name, source in found if is_allowed(brief.directives, name, source.file)]
    model = ModelFacts(
        parameters=int(card["parameters"]),
        chat_template=bool(card.get("chat_template")),
        device=str(card.get("device") or brief.task.device),
        throughput=brief.throughput,
        asked=str(card.get("asked", "chat")),
    )
    return Situation(brief, profiles[0].benchmark, tuple(sources), model)


def form_of(task: TaskCard, facts: BenchmarkFacts) -> Form:
    """How the benchmark asks and reads."""
    low, high = facts.answer_low or 0.0, facts.answer_high or 0.0
    room = 2 * max(abs(low), abs(high), 10.0)
    style = facts.options
    fields = facts.fields or {"prompt": ItemField(prefix="", suffix="")}
    return Form(
        prompt=task.prompt,
        prefixes={name: ends.prefix for name, ends in fields.items()},
        suffixes={name: ends.suffix for name, ends in fields.items()},
        constants=tuple(name for name, ends in fields.items() if ends.constant),
        shape=facts.answer_shape,
        labels=facts.labels,
        low=min(0.0, low - room) if low < 0 else 0.0,
        high=math.ceil(high + room),
        options={"mark": style.mark, "separator": style.separator, "lead": style.lead} if style else None,
        final=facts.final.template,
        steps=facts.final.steps,
        evaluated=task.evaluated,
    )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
