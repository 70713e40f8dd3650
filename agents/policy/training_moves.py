"""Moves beyond the usual parameters: which tokens carry loss, the chat template, and GRPO on what an SFT has taught."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuneloop.agents.policy.evidence import call_or_none
from tuneloop.agents.policy.moves import Case, Move
from tuneloop.agents.policy.parameter_map import Values, training_seconds
from tuneloop.core.brief import JournalRow
from tuneloop.core.protocols import Toolbox

STAGE, GRPO = "stage", "grpo"
TEMPLATE, BARE = "template", "empty"  # the template of plain text
STEPS = 40
SLOWER = 20  # times a step of SFT: replies are drawn, many to a prompt


def masking_moves(case: Case) -> Iterator[Move]:
    """Loss on prompts too, or on answers alone again."""
    key = case.parameter_map.prompt_loss
    if not key:
        return
    if case.training.get(key):
        rest = {name: value for name, value in case.training.items() if name != key}
        why = "prompts carry loss, and no prompt is ever to be written"
        yield case.move("method.answer_loss", "Loss on answers alone.", why, training=rest)
    else:
        said = "Loss on prompts too: the model learns from the problems' own text."
        why = "only answers carry loss, and they are few tokens"
        yield case.move("method.prompt_loss", said, why, training={**case.training, key: True})


def template_moves(case: Case) -> Iterator[Move]:
    """Rows in the form that is evaluated; as plain text for once, where what was learned before may carry over to a template.

    A tiny model has learned nothing before, and of what it learns in one form little is left in the other. Never in the template
    where plain text is evaluated: both models of `docs/matrix.md` were lost without the template that they were trained in.
    """
    card, values = case.situation.card, case.training
    if not card.chat_template:
        return
    plain = values[TEMPLATE] == BARE if TEMPLATE in values else card.asked == "raw"
    if plain != (card.asked == "raw"):
        rest = {name: value for name, value in values.items() if name != TEMPLATE}
        why = "training and evaluation put prompts into different forms"
        yield case.move("format.evaluated", "Rows in the form that is evaluated.", why, training=rest)
    elif not plain and not card.tiny:
        said, why = "Rows as plain text, evaluated in the chat template.", "what is learned may not hang on a template"
        yield case.move("method.plain_text", said, why, training={**values, TEMPLATE: BARE})


async def read_grpo_values(incumbent: JournalRow, tools: Toolbox) -> Values | None:
    """The server's first GRPO recipe; None where the run cannot train so, or the weights are not those of a promoted SFT.

    Weights of other experiments may be gone.
    """
    if incumbent.outcome != "promoted" or by_grpo(dict(incumbent.hypothesis.training_plan)):
        return None
    told = await call_or_none(tools, "params_suggest_config", stage=GRPO, steps=STEPS)
    return told and dict(told["values"])


def grpo_moves(case: Case, values: Values | None) -> Iterator[Move]:
    """GRPO where the model gets some items right and others wrong: only there replies to one prompt earn differently."""
    if values is None:
        return
    seconds = STEPS * SLOWER * case.evidence.seconds_per_step
    if case.situation.brief.budget.training_left is not None and seconds > training_seconds(case.situation):
        return
    why = f"{100 * case.room:.0f} % are wrong, and the scorer can tell right replies from wrong ones"
    learnable = 4 * case.room * (1 - case.room)
    for factor in (1.0, 0.3):
        training = case.parameter_map.with_rate(values, factor)
        said = f"GRPO on this model, {STEPS} steps at learning rate {training[case.parameter_map.rate]:g}."
        move = case.move("method.grpo", said, why, training=training, strength=learnable)
        yield replace(move, step_cost=float(SLOWER))


def by_grpo(values: Values) -> bool:
    """Whether a training plan is one of GRPO."""
    return values.get(STAGE) == GRPO


def last_sft(journal: Sequence[JournalRow], row: JournalRow) -> JournalRow:
    """The experiment itself, or the SFT that its GRPO began with: what ordinary moves change."""
    rows = {one.number: one for one in journal}
    while by_grpo(dict(row.hypothesis.training_plan)) and (before := rows.get(row.hypothesis.parent or 0)):
        row = before
    return row
