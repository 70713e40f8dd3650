"""What a data script can do with rows; each takes rows and gives rows, and scripts carry the ones they use as they are."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tuneloop.agents.policy.rows import Row
from tuneloop.core.text import (
    NUMBER,
    equation_matches,
    equations,
    normalise,
    plain_number,
    same_answer,
    sentences,
    signs,
    tokens,
    unfinished,
    unlikely,
    value_of,
)

CHATTER = re.compile(
    r"^(?:sure|great|good question|okay|ok\b|of course|hello|hi\b|hey\b|thanks|thank you|certainly|absolutely|no problem|"
    r"let me\b|let us think|i hope|hope this|feel free|that was fun|good luck|have a |as an ai|happy to|glad to|you're welcome|"
    r"please let|i am happy|i'd be happy|i'm happy)",
    re.IGNORECASE,
)


def drop_unanswered(rows: Sequence[Row]) -> list[Row]:
    """Rows without a final answer of the benchmark's shape go; where only the key has one, it is taken."""
    return [row if row.answer else replace(row, answer=row.key) for row in rows if row.answer or row.key]


def drop_off_topic(rows: Sequence[Row], words: Sequence[str], at_least: int) -> list[Row]:
    """Rows whose question holds fewer than `at_least` of the benchmark's telling words go."""
    telling = set(words)
    return [row for row in rows if len(telling.intersection(tokens(row.question))) >= at_least]


def strip_chatter(rows: Sequence[Row]) -> list[Row]:
    """First and last sentences without a number go if they are greetings or many rows of the source share them."""
    ends: Counter[tuple[str, str]] = Counter()
    for row in rows:
        parts = sentences(row.solution)
        ends.update({(row.source, part) for part in {*parts[:1], *parts[-1:]}} if len(parts) > 1 else ())
    size = Counter(row.source for row in rows)
    common = {part for (source, part), n in ends.items() if n >= max(5, 0.02 * size[source])}
    return [replace(row, solution=without_ends(row.solution, common)) for row in rows]


def without_ends(text: str, common: set[str]) -> str:
    """The text without idle sentences at its ends."""
    parts = sentences(text)

    def idle(part: str) -> bool:
        return (
            not any(c.isdigit() for c in part) and "boxed" not in part and (part in common or bool(CHATTER.match(part)))
        )

    while len(parts) > 1 and idle(parts[0]):
        text = text[text.index(parts[0]) + len(parts.pop(0)) :]
    while len(parts) > 1 and idle(parts[-1]):
        text = text[: text.rindex(parts.pop())]
    return text.strip()


def signs_for_words(rows: Sequence[Row]) -> list[Row]:
    """`3 plus 9, which makes 12` becomes `3 + 9 = 12`."""
    return [replace(row, solution=signs(row.solution)) for row in rows]


def drop_false_equations(rows: Sequence[Row]) -> list[Row]:
    """Rows with an equation that does not hold go."""
    return [row for row in rows if all(holds for _, _, holds in equations(row.solution))]


def finish_steps(rows: Sequence[Row]) -> list[Row]:
    """Rows whose last equation gives another number than their answer get the step that is missing, or go."""
    return [whole for row in rows if (whole := finished(row)) is not None]


def finished(row: Row) -> Row | None:
    """The row with one equation more, from the last result and a number of the question that no equation uses.

    None where no such equation, or more than one, gives the answer. A result that is negative, or goes on in words, stays.
    """
    place = unfinished(row.solution, row.answer)
    if place is None:
        return row
    last, end = "".join(numbers_in(place[2])), place.end()
    if not last or row.solution[end : end + 1].strip(".,;\n"):
        return row
    used = Counter(n for match in equation_matches(row.solution) for n in numbers_in(match[1]))
    unused = Counter(numbers_in(row.question)) - used
    lefts = {f"{last}{op}{number}" for number in unused for op in "+-*/"}
    right = [left for left in lefts if (value := value_of(left)) is not None and same_answer(str(value), row.answer)]
    if len(right) != 1:
        return None
    return replace(row, solution=f"{row.solution[:end]}\n{right[0]}={row.answer}{row.solution[end:]}")


def numbers_in(text: str) -> list[str]:
    """Whole numbers of a text, plain."""
    return [plain for found in NUMBER.findall(text) if (plain := str(plain_number(found))).isdecimal()]


def drop_contradicted(rows: Sequence[Row]) -> list[Row]:
    """Rows whose solution ends elsewhere than the key go; the others are sure."""
    kept = [row for row in rows if row.key is None or same_answer(row.key, row.answer)]
    return [replace(row, sure=row.sure or row.key is not None) for row in kept]


def trust_key(rows: Sequence[Row]) -> list[Row]:
    """Where key and solution differ the key is the answer, and the solution goes."""
    return [
        row
        if row.key is None or same_answer(row.key, row.answer)
        else replace(row, answer=row.key, solution="", sure=True)
        for row in rows
    ]


def repair_from_key(rows: Sequence[Row], at_least: float) -> list[Row]:
    """Where the key contradicts a chain of equations, the one smallest change of signs that leads to the key.

    Nothing is changed where that is possible for less than `at_least` of such rows: then the key is what is wrong.
    """
    mended = [repaired(row) if row.key and row.answer and not same_answer(row.key, row.answer) else row for row in rows]
    against = sum(bool(row.key and row.answer) and not same_answer(row.key, row.answer) for row in rows)
    changed = sum(new is not old for new, old in zip(mended, rows, strict=True))
    return mended if changed and changed >= at_least * against else list(rows)


def repaired(row: Row) -> Row:
    """The row with its chain made right if exactly one smallest change does it; else the row."""
    places = equation_matches(row.solution)
    chain = [re.fullmatch(r"(\d+)\s*([-+*/])\s*(\d+)\s*=\s*(\d+)", place[0]) for place in places]
    if not chain or not all(chain) or len(chain) > 5:
        return row
    old = [(m[1], m[2], m[3], m[4]) for m in chain if m]
    for changes in range(3):
        found = [new for new in variants(old, changes) if same_answer(new[-1][3], row.key)]
        if found:
            return with_chain(row, places, found[0]) if len(found) == 1 else row
    return row


def variants(old: Sequence[tuple[str, str, str, str]], changes: int) -> Iterable[list[tuple[str, str, str, str]]]:
    """Chains with exactly `changes` other signs, worked out anew from the first number on."""
    for ops in itertools.product("+-*/", repeat=len(old)):
        if sum(op != step[1] for op, step in zip(ops, old, strict=True)) != changes:
            continue
        now: dict[str, str] = {}
        new = []
        for op, (a, _, b, c) in zip(ops, old, strict=True):
            left, right = now.get(a, a), now.get(b, b)
            value = value_of(f"{left}{op}{right}")
            if value is None or value.denominator != 1 or value < 0:
                break
            now[c] = str(value)
            new.append((left, op, right, now[c]))
        else:
            yield new


def with_chain(row: Row, places: Sequence[re.Match[str]], new: Sequence[tuple[str, str, str, str]]) -> Row:
    """The row's solution with other equations in their places and the key as its last number."""
    text, at = "", 0
    for place, (a, op, b, c) in zip(places, new, strict=True):
        form = re.sub(r"[-+*/]", op, re.sub(r"\d+", "{}", place[0]))
        text, at = text + row.solution[at : place.start()] + form.format(a, b, c), place.end()
    tail = row.solution[at:]
    if numbers := list(NUMBER.finditer(tail)):
        tail = tail[: numbers[-1].start()] + str(row.key) + tail[numbers[-1].end() :]
    return replace(row, solution=text + tail, answer=row.key, sure=True)


def keep_agreed(rows: Sequence[Row], votes: int, need_votes: Sequence[str]) -> list[Row]:
    """Of rows with the same question those that agree with a confirmed answer, else with all others.

    Sources in `need_votes` keep only questions that at least `votes` rows answer, or that something else confirms.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.name].append(row)
    return [row for group in groups.values() for row in agreed(group, votes, set(need_votes))]


def agreed(group: Sequence[Row], votes: int, need_votes: set[str]) -> list[Row]:
    """The rows of one question that agree."""
    known = [row for row in group if row.sure] or list(group)
    answers = {plain_answer(row) for row in known}
    if len(answers) > 1:
        return []
    kept = [row for row in group if plain_answer(row) in answers]
    enough = any(row.sure for row in kept) or len(known) >= votes
    return [replace(row, sure=enough) for row in kept if enough or row.source not in need_votes]


def plain_answer(row: Row) -> str:
    """The answer so that equal ones are the same text."""
    return str(plain_number(row.answer or "") or normalise(row.answer or ""))


def require_steps(rows: Sequence[Row], equations_at_least: int) -> list[Row]:
    """Rows with fewer equations in their solution go."""
    return [row for row in rows if len(equations(row.solution)) >= equations_at_least]


def rewrite_equations(rows: Sequence[Row], spacing: str) -> list[Row]:
    """The solution as its equations, one a line; `spacing` is as_is, spaced or compact. Without equations it stays."""
    return [replace(row, solution=equation_lines(row.solution, spacing) or row.solution) for row in rows]


def equation_lines(text: str, spacing: str) -> str:
    """`First, 3 + 9 = 12.` → `3 + 9 = 12`."""
    lines = [f"{left} = {right}" if " " in left else f"{left}={right}" for left, right, _ in equations(text)]
    if spacing != "as_is":
        gap = " " if spacing == "spaced" else ""
        lines = [re.sub(r"(?<=\d)\s*([-+*/×÷=])\s*(?=-?\d)", rf"{gap}\1{gap}", line) for line in lines]
    return "\n".join(lines)


def answer_only(rows: Sequence[Row]) -> list[Row]:
    """The solution goes, the final answer stays."""
    return [replace(row, solution="") for row in rows]


def keep_worked_or_bare(rows: Sequence[Row]) -> list[Row]:
    """Where a question has a worked solution, its bare answers go."""
    worked = {row.name for row in rows if not same_answer(row.solution, row.answer) and row.solution}
    return [
        row for row in rows if row.name not in worked or (row.solution and not same_answer(row.solution, row.answer))
    ]


def cap_length(rows: Sequence[Row], question: int, solution: int) -> list[Row]:
    """Rows longer than so many characters go; nothing is cut."""
    return [row for row in rows if len(row.question) <= question and len(row.solution) <= solution]


def dedupe(rows: Sequence[Row]) -> list[Row]:
    """One row a question: the surest, in ordinary writing, the first."""

    def rank(row: Row) -> tuple[bool, bool, bool]:
        text = row.question
        odd = text.isupper() or text.islower() or "  " in text or text != text.strip()
        return not row.sure, not row.solution, odd

    best: dict[str, Row] = {}
    for row in rows:
        if row.name not in best or rank(row) < rank(best[row.name]):
            best[row.name] = row
    return list(best.values())


def balance_answers(rows: Sequence[Row], most: float) -> list[Row]:
    """No answer more than `most` times as frequent as the mean; the surplus goes, sure rows last."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.answer or ""].append(row)
    cap = max(1, math.ceil(most * len(rows) / max(1, len(groups))))
    return [row for group in groups.values() for row in sorted(group, key=lambda r: not r.sure)[:cap]]


def match_weights(rows: Sequence[Row], words: dict[str, float]) -> list[float]:
    """A weight for each row, 0.2 to 5, so that the words occur as often as in the benchmark's prompts."""
    held = [set(tokens(row.question)).intersection(words) for row in rows]
    weights = [1.0] * len(rows)
    for word, goal in list(words.items()) * 4:
        total = sum(weights)
        share = sum(w for w, words_held in zip(weights, held, strict=True) if word in words_held) / total
        if not 0.002 < share < 0.998:
            continue
        inside, outside = goal / share, (1 - goal) / (1 - share)
        weights = [
            min(5.0, max(0.2, w * (inside if word in words_held else outside)))
            for w, words_held in zip(weights, held, strict=True)
        ]
    return weights


def chance(seed: int, row: Row) -> float:
    """A number between 0 and 1 that depends on seed and row alone."""
    mark = hashlib.sha256(f"{seed} {row.source} {row.question} {row.solution}".encode()).digest()
    return (int.from_bytes(mark[:7], "big") + 1) / (1 << 56)


def select(rows: Sequence[Row], limit: int, seed: int, words: dict[str, float]) -> list[Row]:
    """At most `limit` rows: sure ones first, spread over sources, and likely as the benchmark's words ask for."""
    weights = match_weights(rows, words) if words and rows else [1.0] * len(rows)
    draws = {id(row): -math.log(chance(seed, row)) / weight for row, weight in zip(rows, weights, strict=True)}
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (not r.sure, draws[id(r)])):
        by_source[row.source].append(row)
    turns = itertools.zip_longest(*by_source.values())
    ordered = sorted((row for turn in turns for row in turn if row is not None), key=lambda r: not r.sure)
    chosen = ordered[:limit]
    return sorted(chosen, key=lambda r: chance(seed + 1, r))


def drop_unlikely_labels(rows: Sequence[Row], folds: int, least: float) -> list[Row]:
    """Rows whose answer a word model that learned from the other rows holds for less likely than `least` go."""
    doubts = unlikely([(row.question, row.answer or "") for row in rows], folds, least)
    return [row for row, doubt in zip(rows, doubts, strict=True) if row.sure or not doubt]
