"""The training rows that a recipe makes, by the policy's own operations, and what they are like: the surface's features."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from planner.arena import Arena
from planner.space import Point
from tuneloop.agents.policy import row_operations
from tuneloop.agents.policy.rows import Row, alpaca, read_source
from tuneloop.agents.policy.script_composer import (
    FORM,
    READ,
    SELECT,
    form_entry,
    option_list,
    parse_pairs,
    source_entry,
)
from tuneloop.agents.policy.situation import form_of
from tuneloop.core.experiment import Step
from tuneloop.core.text import equations, plain_number, tokens
from tuneloop.tools.models.tiny import SHIPPED

BARE_LINE = re.compile(r"[\d\s+\-*/=]+$")
TOKENIZER = SHIPPED / "tokenizer.json"
SAMPLE = 300  # rows whose length is taken


@dataclass(frozen=True)
class Made:
    """Rows and shares of them, 0 to 1; `wrong` by the generator's own key, which no player is shown.

    `lean`: share of letters that would have to change until each is as frequent as it is right; 0 where answers are numbers.
    `overlong`: share of replies with more tokens than the benchmark lets a model say.
    """

    rows: int
    wrong: float
    false_steps: float
    compact: float
    spaced: float
    prose: float
    worded: float
    unknown: float
    unique: float
    products: float
    lean: float
    overlong: float


class RowMaker:
    """Makes rows for points of one task; sources are read once, the same data are made once."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        situation = arena.space.situation
        self.skip = {source.id: source.profile.overlapping for source in situation.sources}
        self.form = form_of(situation.task, situation.facts)
        self.task = form_entry(self.form, (Step(do=FORM),))
        self.read = functools.cache(self._read)
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._made: dict[tuple[object, ...], Made] = {}

    def stats(self, point: Point) -> Made:
        """What the rows of a recipe are like."""
        if point.data not in self._made:
            rows = self.rows(point)
            self.learn(point, described(rows, self.arena.made.truth, self._overlong(rows)))
        return self._made[point.data]

    def _overlong(self, rows: Sequence[Row]) -> float:
        """Of the first replies; rows come in an order that says nothing."""
        replies = [alpaca(row, self.task)["output"] for row in rows[:SAMPLE]]
        most = self.arena.brief.task.max_new_tokens
        return sum(len(code.ids) > most for code in self._tokenizer.encode_batch(replies)) / max(1, len(replies))

    def learn(self, point: Point, made: Made) -> None:
        """What was found out before."""
        self._made[point.data] = made

    def _read(self, name: str) -> tuple[Row, ...]:
        point = Point((name,), "own_words", "none", (), "full", 1e-3, 100, 0)
        step = next(s for s in self.arena.space.plan(point) if s.do == READ)
        return tuple(read_source(self.arena.datasets, source_entry(step, self.form, self.skip), self.task, None))

    def rows(self, point: Point) -> list[Row]:
        """As the script of the policy makes them."""
        plan, task = self.arena.space.plan(point), self.arena.space.situation.task
        rows = [row for step in plan if step.do == READ for row in self.read(source_entry(step, self.form, {})["name"])]
        words: dict[str, float] = {}
        for step in plan:
            if step.do == SELECT:
                words = parse_pairs(option_list(step.options, "words"))
            elif step.do not in (READ, FORM):
                rows = getattr(row_operations, step.do)(rows, **step.options)
        return row_operations.select(rows, task.row_limit, task.seed, words)


def described(rows: Sequence[Row], truth: Mapping[str, str], overlong: float) -> Made:
    """Shares over the rows."""
    n = max(1, len(rows))
    known = [row for row in rows if row.name in truth]
    right = [row for row in known if said(row) == truth[row.name]]
    looks = [look(row) for row in rows]
    return Made(
        rows=len(rows),
        wrong=1 - len(right) / len(known) if known else 0.0,
        false_steps=sum(any(not holds for _, _, holds in equations(row.solution)) for row in rows) / n,
        **{name: looks.count(name) / n for name in ("compact", "spaced", "prose", "worded")},
        unknown=1 - len(known) / n,
        unique=len({row.name for row in rows}) / n,
        products=sum(any(c in row.solution for c in "*/") for row in right) / max(1, len(right)),
        lean=lean([said(row) for row in rows], list(truth.values())),
        overlong=overlong,
    )


def said(row: Row) -> str:
    """The row's answer in normal form."""
    return plain_number(row.answer or "") or (row.answer or "").strip()


def lean(answers: Sequence[str], truth: Sequence[str]) -> float:
    """How far the shares of letters are from those of right answers: half the sum of the differences."""
    if not answers or not all(answer.isalpha() for answer in truth):
        return 0.0
    found, right = Counter(answers), Counter(truth)
    return sum(abs(found[c] / len(answers) - right[c] / len(truth)) for c in found | right) / 2


def look(row: Row) -> str:
    """How a solution is written."""
    text = "\n".join(line for line in row.solution.splitlines() if not line.startswith("Answer"))
    if equations(text):
        if not BARE_LINE.match(text):
            return "prose"
        return "spaced" if " = " in text else "compact"
    return "worded" if len(tokens(text)) > 2 else "bare"
