"""Which field plays which part in a source: question, solution, key, options; by content first, by name second."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from tuneloop.core.profile import FieldRoles
from tuneloop.core.records import text_of
from tuneloop.core.text import same_answer, tokens
from tuneloop.tools.raw_data.benchmark_facts import common_frame
from tuneloop.tools.raw_data.fields import (
    CONTEXT,
    EXPLAINS,
    KEY,
    MARKS,
    META,
    NO,
    QUESTION,
    SOLUTION,
    VERDICT,
    YES,
    FieldColumn,
    find_options,
    option_index_base,
)
from tuneloop.tools.raw_data.similarity import BenchmarkTarget

# Labels in other words: which of the benchmark's labels a source's codes (`0`, `Payments`) stand for, by their questions.

ROWS_EACH = 150
ITEMS_EACH = 3


def find_codes(values: Sequence[str], questions: Sequence[str], target: BenchmarkTarget) -> dict[str, str]:
    """Code → label where each code's questions speak like those of one label and no two codes like the same; else {}."""
    groups: dict[str, list[str]] = defaultdict(list)
    for value, question in zip(values, questions, strict=True):
        if value and question:
            groups[value].append(question)
    labels = Counter(target.answers)
    if not 2 <= len(groups) <= len(labels) or min(labels.values()) < ITEMS_EACH or len(values) < 5 * len(groups):
        return {}
    model = word_model(target)
    scores = {code: label_scores(asked[:ROWS_EACH], model) for code, asked in groups.items()}
    best = {code: max(found, key=lambda label: found[label]) for code, found in scores.items()}
    return dict(sorted(best.items())) if len(set(best.values())) == len(best) else {}


def word_model(target: BenchmarkTarget) -> dict[str, tuple[Counter[str], int]]:
    """Words of each label's items, and how many items there are."""
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for text, answer in zip(target.texts[""], target.answers, strict=True):
        words[answer].update(set(tokens(text)))
    sizes = Counter(target.answers)
    return {label: (counts, sizes[label]) for label, counts in words.items()}


def label_scores(questions: Sequence[str], model: dict[str, tuple[Counter[str], int]]) -> dict[str, float]:
    """How well each label explains the words of the questions."""
    held = Counter(word for question in questions for word in set(tokens(question)))
    return {
        label: sum(n * math.log((counts[word] + 0.3) / (size + 0.6)) for word, n in held.items())
        for label, (counts, size) in model.items()
    }


def find_reading(columns: Sequence[FieldColumn], target: BenchmarkTarget) -> FieldRoles:
    """The likeliest reading of a source."""
    options = find_options(columns)
    free = [c for c in columns if c.path not in options and c.texts]
    fields = find_fields(columns, target)
    question = find_question(free, target)
    if not question:
        return FieldRoles()
    taken = {*fields.values()} if fields else {*question}
    rest = [c for c in free if c.path not in taken]
    split = find_split([c for c in free if c.path in question], rest)
    if split:
        path, mark = split
        return FieldRoles(question=(f"{path}|before|{mark}",), solution=f"{path}|after|{mark}")
    solution, key = find_answers(rest, target, options)
    frame = foreign_frame([c for c in free if c.path in question], target) if not fields else {}
    flag = find_flag(rest)
    coded, codes = find_coded(rest, [c for c in free if c.path in question], target)
    if codes and not any(is_short_answer(c, target, options) for c in rest):
        return FieldRoles(question=question, fields=fields, solution=coded, codes=codes, flag=flag, **frame)
    base = option_index_base(columns, key or solution, options)
    parts = {"question": question, "fields": fields, "solution": solution, "key": key, "options": options}
    return FieldRoles.model_validate({**parts, "index_base": base, "flag": flag, **frame})


def foreign_frame(questions: Sequence[FieldColumn], target: BenchmarkTarget) -> dict[str, str]:
    """The source's own wording around its questions, where the benchmark knows few of its words."""
    if len(questions) != 1 or not target.texts[""]:
        return {}
    ends = common_frame(questions[0].texts)
    known = target.centroids[""]
    told = tokens(target.facts.prompt_prefix + " " + target.facts.prompt_suffix)
    found = {"prefix": ends.prefix, "suffix": ends.suffix}
    words = {side: [w for w in tokens(text) if w not in told] for side, text in found.items()}
    return {side: found[side] for side, w in words.items() if w and sum(x in known for x in w) < 0.5 * len(w)}


def find_flag(columns: Sequence[FieldColumn]) -> str:
    """A column of yes and no, named like a verdict on the record: `path=value` for yes; "" without one."""
    for column in columns:
        values = {text.casefold() for text in column.texts}
        yes = sorted(values & YES)
        if column.named(VERDICT) and yes and len(values) == 2 and values <= YES | NO:
            return f"{column.path}={yes[0]}"
    return ""


def question_score(column: FieldColumn, target: BenchmarkTarget, field: str = "") -> float:
    """Likeness of the words, with a little weight for the name, and none for what is metadata by name."""
    if column.named(META) or (column.is_list and not field):
        return 0.0
    same = field and re.sub(r"\W", "", column.path.casefold()).endswith(re.sub(r"\W", "", field.casefold()))
    name = 0.3 if same else 0.12 * column.named(QUESTION) - 0.1 * (column.named(KEY) and not column.named(QUESTION))
    return target.similarity(column.texts, field) + name + 0.05 * min(1.0, column.distinct)


def find_question(columns: Sequence[FieldColumn], target: BenchmarkTarget) -> tuple[str, ...]:
    """The field like the prompts; with a second one where both together are more like them than one."""
    ranked = sorted(columns, key=lambda c: -question_score(c, target))
    if not ranked or question_score(ranked[0], target) <= 0.05:
        return ()
    best = ranked[0]
    alone = target.similarity(best.texts)
    for other in ranked[1:]:
        pair = sorted((best, other), key=columns.index)
        if not (other.named(CONTEXT) or (other.named(QUESTION) and best.named(CONTEXT))) or other.is_list:
            continue
        joined = [f"{a}\n{b}" for a, b in zip(pair[0].texts, pair[1].texts, strict=False)]
        if target.similarity(joined) > alone + 0.03 or not target.texts[""]:
            return tuple(c.path for c in pair)
    return (best.path,)


def find_fields(columns: Sequence[FieldColumn], target: BenchmarkTarget) -> dict[str, str]:
    """Item field → path where the template uses several fields; {} where it uses one, or a field resembles none here."""
    names = [name for name in target.texts if name]
    if len(names) < 2:
        return {}
    found: dict[str, str] = {}
    for name in names:
        free = [c for c in columns if c.path not in found.values()]
        best = max(free, key=lambda c: question_score(c, target, name), default=None)
        if best is None or question_score(best, target, name) < 0.2:
            return {}
        found[name] = best.path
    return found


def find_split(questions: Sequence[FieldColumn], rest: Sequence[FieldColumn]) -> tuple[str, str] | None:
    """A mark inside the only text that parts question and reply, where most texts have it once."""
    if len(questions) != 1 or any(c.named(SOLUTION) and not c.named(META) for c in rest):
        return None
    texts = questions[0].texts
    return next(
        ((questions[0].path, mark) for mark in MARKS if sum(t.count(mark) == 1 for t in texts) > 0.8 * len(texts)), None
    )


def find_answers(
    columns: Sequence[FieldColumn], target: BenchmarkTarget, options: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Paths of solution and key. A key is a short field that agrees with the ends of the solutions more often than chance."""
    plain = [c for c in columns if not c.named(META) or re.search(r"label|answer", c.path.casefold())]
    longest = [c for c in plain if solution_score(c, target) > 0]
    solution = max(longest, key=lambda c: (not is_answer_column(c, target), solution_score(c, target)), default=None)
    short = [c for c in columns if c is not solution and is_short_answer(c, target, options)]
    keys = sorted(((key_agreement_share(c, solution, target), c.path) for c in short), reverse=True) if solution else []
    bare = max(short, key=lambda c: (c.named(KEY), not c.named(META), c.path), default=None)
    if solution is None:
        return (bare.path if bare else None), None
    if keys_agree(keys):
        return solution.path, keys[0][1]
    if bare and not bare.named(META) and not has_answers(solution, target):
        return (solution.path, bare.path) if solution.named(EXPLAINS) else (bare.path, None)
    if bare and bare.named(KEY) and not (solution.named(SOLUTION) or solution.named(EXPLAINS)):
        return bare.path, None
    return solution.path, key_by_name(short)


def is_answer_column(column: FieldColumn, target: BenchmarkTarget) -> bool:
    """Whether most values are answers and nothing else, where an answer is short."""
    some = column.texts[:200]
    return target.facts.answer_shape != "text" and sum(target.is_answer(t) for t in some) > 0.7 * len(some)


def find_coded(
    columns: Sequence[FieldColumn], questions: Sequence[FieldColumn], target: BenchmarkTarget
) -> tuple[str | None, dict[str, str]]:
    """The column whose few values stand for the benchmark's labels, and what they stand for; None and {} without one."""
    if target.facts.answer_shape != "label" or not questions:
        return None, {}
    asked = [" ".join(map(text_of, values)) for values in zip(*(q.values for q in questions), strict=True)]
    for column in sorted(columns, key=lambda c: (c.named(META), not c.named(KEY))):
        if column.is_list or len(set(column.texts)) > len(target.facts.labels):
            continue
        codes = find_codes([text_of(v) for v in column.values], asked, target)
        if codes:
            return column.path, codes
    return None, {}


def key_by_name(short: Sequence[FieldColumn]) -> str | None:
    """A key that agrees with no solution is still one when its name leaves no doubt."""
    sure = re.compile(
        r"(^|[._])(key|gold\w*|label|final_?answer|correct\w*|answer_?key|ground_?truth|category|class)\b"
    )
    return next((c.path for c in short if c.named(sure)), None)


def keys_agree(keys: Sequence[tuple[float, str]]) -> bool:
    """Whether the best candidate agrees often enough to be no accident."""
    return bool(keys) and keys[0][0] >= 0.2


def has_answers(solution: FieldColumn, target: BenchmarkTarget) -> bool:
    """Whether the solutions hold answers of the benchmark's shape."""
    texts = solution.texts[:200]
    return sum(target.answer(t) is not None for t in texts) >= 0.3 * len(texts)


def solution_score(column: FieldColumn, target: BenchmarkTarget) -> float:
    """Long, distinct, ending with an answer, and named like a solution."""
    if column.is_list or not column.texts or (column.named(CONTEXT) and not column.named(SOLUTION)):
        return 0.0
    texts = column.texts[:200]
    ends = sum(target.answer(t) is not None for t in texts) / len(texts)
    named = 1.0 if column.named(SOLUTION) or column.named(KEY) or column.named(EXPLAINS) else 0.0
    if column.named(META) and not named:
        return 0.0
    return named + ends + min(column.length, 400) / 400 * (0.3 + 0.7 * ends) + 0.2 * (column.length > 12) - 0.9


def is_short_answer(column: FieldColumn, target: BenchmarkTarget, options: tuple[str, ...]) -> bool:
    """Whether most values are bare answers: of the benchmark's shape, an option's letter, number or text."""
    some = column.texts[:300]
    if not some or any(isinstance(v, list) and len(v) > 1 and len({*map(str, v)}) > 1 for v in column.values[:50]):
        return False
    right = sum(target.is_answer(t) for t in some)
    if options and not column.named(META):
        marks = sum(re.fullmatch(r"\d|\(?[A-Ja-j][).]?", t) is not None for t in some)
        right = max(right, marks, len(some) if column.named(KEY) and all(len(t) < 200 for t in some) else 0)
    return right >= 0.7 * len(some)


def key_agreement_share(key: FieldColumn, solution: FieldColumn, target: BenchmarkTarget) -> float:
    """Share of records whose solution ends with the key, less what shuffled keys would reach."""
    pairs = [(text_of(k), text_of(s)) for k, s in zip(key.values[:600], solution.values[:600], strict=True)]
    answers = [(target.answer(k) or k, target.answer(s)) for k, s in pairs if k and s]
    if not answers:
        return 0.0
    hits = sum(same_answer(k, a) for k, a in answers)
    shifted = sum(same_answer(k, answers[i - 1][1]) for i, (k, _) in enumerate(answers))
    return (hits - shifted) / len(answers)
