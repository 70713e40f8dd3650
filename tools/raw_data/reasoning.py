"""How good the worked solutions of a data set are: measured on sampled rows, and two words that follow from the numbers.

`baseline_quality` is none where fewer than 5 % of the rows reason. Else reasoned x readable x agreeing (1 where there is no
reference) x (1 - repeated) decides: high from 0.9, medium-high from 0.75, medium from 0.5, low below. Without a reference it
is medium at most: nothing shows that what reads well is right.
`polish_difficulty` is high where reasoning is missing in more than half of the rows: it must be made. It is low where all
four numbers are good (at least 0.9), medium otherwise: what is there must be filtered or reshaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tuneloop.core.profile import Shape
from tuneloop.core.text import final_answer, letter_in, plain_number, same_answer, stated
from tuneloop.core.text import tokens as words
from tuneloop.tools.raw_data.accumulators import length_stats
from tuneloop.tools.raw_data.facts import ColumnFacts, Quality, ReasoningFacts, Work
from tuneloop.tools.raw_data.fields import CONTEXT, EXPLAINS, KEY, META, QUESTION, SOLUTION, FieldColumn, find_options
from tuneloop.tools.raw_data.languages import script_shares, writing_script
from tuneloop.tools.raw_data.profile import make_columns
from tuneloop.tools.raw_data.source_metrics import share_of

ENOUGH = 5
END = 2000  # characters of a solution in which its answer is looked for
SHORT = 40  # characters of a reference answer
LEVELS: tuple[tuple[float, Quality], ...] = ((0.9, "high"), (0.75, "medium-high"), (0.5, "medium"), (0.0, "low"))
ROLE_ASKING = re.compile(r"\[\w+=(user|human|prompter)\]", re.IGNORECASE)
ROLE_ANSWERING = re.compile(r"\[\w+=(assistant|gpt|model|bot)\]", re.IGNORECASE)
ANSWERING = re.compile(
    rf"{ROLE_ANSWERING.pattern}|output|response|answer|completion|reply|target|chosen", re.IGNORECASE
)


def reasoning_facts(rows: Sequence[dict[str, Any]], whole: Mapping[str, ColumnFacts]) -> ReasoningFacts:
    """Facts on sampled rows; `whole` are the columns of all rows, by path."""
    columns = make_columns(rows)
    question, solution, key = find_parts(columns)
    asked, solved, keys = (texts_of(columns, path, len(rows)) for path in (question, solution, key))
    shape = shape_of([text for text in keys if text] or [text for text in solved if text and len(text) <= SHORT])
    ends = [text[-END:] for text in solved]
    said = [stated(end) or (end if len(end) <= SHORT else None) if end else None for end in ends]
    reasons = [reasoning_length(text, answer) for text, answer in zip(solved, said, strict=True)]
    both = [(k, final_answer(end, shape)) for end, k, some in zip(ends, keys, reasons, strict=True) if k and some]
    pairs = [same_answer(final_answer(k, shape) or k, answer) for k, answer in both if answer]
    has, readable = share_of(sum(map(bool, reasons)), rows), share_of(sum(s is not None for s in said), rows)
    agreeing = share_of(sum(pairs), pairs) if len(pairs) >= ENOUGH else None
    repeated = repeated_share(whole[question]) if question in whole else share_of(len(asked) - len(set(asked)), rows)
    quality, work, why = quality_labels(has, readable, agreeing, repeated)
    return ReasoningFacts(
        rows=len(rows),
        question=question,
        solution=solution,
        answer=key,
        reasoned=has,
        characters=length_stats(count for count in reasons if count),
        readable=readable,
        agreeing=agreeing,
        compared=len(pairs),
        repeated=repeated,
        scripts=script_shares(Counter(writing_script(f"{a} {s}") for a, s in zip(asked, solved, strict=True))),
        baseline_quality=quality,
        polish_difficulty=work,
        why=why,
    )


def repeated_share(column: ColumnFacts) -> float:
    """Share of a column's values that occurred before."""
    filled = column.places - column.empty
    return round(max(0, filled - column.distinct) / filled, 3) if filled else 0.0


def quality_labels(
    reasoned: float, readable: float, agreeing: float | None, repeated: float
) -> tuple[Quality, Work, str]:
    """Both words, and the numbers behind them."""
    agrees = "no reference to compare" if agreeing is None else f"agreeing {agreeing:g}"
    parts = (reasoned, readable, 1.0 if agreeing is None else agreeing, 1 - repeated)
    product = parts[0] * parts[1] * parts[2] * parts[3]
    quality: Quality = "none" if reasoned < 0.05 else next(word for least, word in LEVELS if product >= least)
    if agreeing is None and quality in ("high", "medium-high"):
        quality = "medium"
    work: Work = "high" if reasoned <= 0.5 else "low" if min(parts) >= 0.9 else "medium"
    return (
        quality,
        work,
        f"reasoned {reasoned:g}, readable {readable:g}, {agrees}, repeated {repeated:g}: {product:.2f}",
    )


def reasoning_length(text: str, answer: str | None) -> int:
    """Characters of a solution beside its answer; 0 where it says little more than that."""
    if len(words(text[:END])) <= len(words(answer or "")) + 4:
        return 0
    return max(1, len(text) - len(answer or ""))


def texts_of(columns: Sequence[FieldColumn], path: str, count: int) -> list[str]:
    """The values of a path as texts."""
    found = next((c for c in columns if c.path == path), None)
    return [value_text(value) for value in found.values] if found else [""] * count


def value_text(value: Any) -> str:
    """A value as text; a list as lines."""
    if isinstance(value, list):
        return "\n".join(map(value_text, value))
    return "" if value is None else str(value).strip()


def find_parts(columns: Sequence[FieldColumn]) -> tuple[str, str, str]:
    """Paths of question, solution and short reference answer, by name, role and length; "" for none."""
    options = find_options(columns)
    free = [c for c in columns if c.texts and c.path not in options and not c.named(META)]
    asking = [c for c in free if ROLE_ASKING.search(c.path)]
    named = [c for c in free if c.named(QUESTION) and not c.named(EXPLAINS) and not ANSWERING.search(c.path)]
    question = best_column(asking) or best_column([c for c in named if not c.named(CONTEXT)]) or best_column(named)
    rest = [c for c in free if c is not question and c not in asking]
    answering = [c for c in rest if ROLE_ANSWERING.search(c.path)]
    explains = [c for c in rest if c.named(EXPLAINS)]
    solution = (
        best_column(answering)
        or best_column(explains)
        or best_column([c for c in rest if c.named(SOLUTION) or c.named(KEY)])
    )
    keys = [c for c in rest if c is not solution and c.named(KEY) and c.length <= SHORT]
    key = min(keys, key=lambda c: (not re.search(r"answer|key|gold", c.path, re.IGNORECASE), c.length), default=None)
    return tuple(c.path if c else "" for c in (question, solution, key))  # type: ignore[return-value]


def best_column(columns: Sequence[FieldColumn]) -> FieldColumn | None:
    """The one with the longest texts, those that differ from row to row before the others."""
    return max(columns, key=lambda c: (c.distinct > 0.1, c.length), default=None)


def shape_of(answers: Sequence[str]) -> Shape:
    """What most answers are."""
    some = answers[:300]
    if not some:
        return "text"
    if sum(plain_number(a) is not None for a in some) >= 0.8 * len(some):
        return "number"
    letters = sum(len(a.strip(" ().")) == 1 and letter_in(a) is not None for a in some)
    return "letter" if letters >= 0.8 * len(some) else "text"
