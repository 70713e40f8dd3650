"""Raw data below $DATASETS_DIR → data.json for LLaMA-Factory (Alpaca); `python process_data.py [--debug]`.

wordproblems/distilled.jsonl, wordproblems/textbook.csv in the benchmark's own form, cleaned by
drop_unanswered, repair_from_key, drop_false_equations, drop_contradicted, keep_agreed.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import hashlib
import itertools
import json
import math
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

SEED, LIMIT = 1, 2000
DEBUG_ROWS, DEBUG_READ = 100, 4000  # with --debug: rows written, records read of each source

# Where the raw records lie and which of their fields play which part.
SOURCES = [
    {
        'name': 'wordproblems/distilled.jsonl',
        'dataset': 'wordproblems',
        'file': 'distilled.jsonl',
        'where': '',
        'fields': {'prompt': ['conversation[from=human].value']},
        'solution': 'conversation[from=model].value',
        'key': '',
        'options': [],
        'frame': ['', ''],
        'flag': '',
        'codes': {},
        'base': None,
    },
    {
        'name': 'wordproblems/textbook.csv',
        'dataset': 'wordproblems',
        'file': 'textbook.csv',
        'where': '',
        'fields': {'prompt': ['problem']},
        'solution': 'worked_solution',
        'key': 'key',
        'options': [],
        'frame': ['', ''],
        'flag': '',
        'codes': {},
        'base': None,
    },
]

# How the benchmark asks and how its scorer wants the answer.
TASK = {
    'prompt': '{prompt}',
    'prefixes': {'prompt': ''},
    'suffixes': {'prompt': '\nEnd with \\boxed{answer}.'},
    'constants': [],
    'shape': 'integer',
    'labels': [],
    'low': 0.0,
    'high': 180,
    'options': None,
    'final': '\\boxed{ANSWER}',
    'steps': True,
}
WORDS = {
    'does': 0.81,
    'has': 0.795,
    'have': 0.795,
    'now': 0.605,
    'more': 0.555,
    'she': 0.44,
    'buys': 0.375,
    'he': 0.365,
    'gives': 0.34,
    'sells': 0.245,
    'as': 0.21,
    'times': 0.21,
    'back': 0.205,
    'dollars': 0.205,
    'each': 0.205,
    'for': 0.205,
    'get': 0.205,
    'pays': 0.205,
    'with': 0.205,
    'do': 0.19,
    'than': 0.19,
    'they': 0.19,
    'to': 0.19,
    'together': 0.19,
}


WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:/\d+)?")
AMOUNT = r"[$€£]?\d[\d,]*(?:\.\d+)?"
OPERATOR = r"(?:[-+*/×÷−·]|x)"
EQUATION = re.compile(rf"({AMOUNT}(?:\s*{OPERATOR}\s*{AMOUNT})+)\s*=\s*(-?{AMOUNT})(?!\s*[-+*/×÷%^(]\s*\d|[\d%]|\.\d)")
LETTER = re.compile(r"(?<![A-Za-z0-9])([A-J])(?![A-Za-z0-9'])")
STATED = re.compile(
    r"(?:####|</think>|(?:final\s+|correct\s+)?(?:answer|option|result|antwort|lösung|respuesta|réponse|risposta|resposta|ответ|答案|答え)"
    r"\s*(?:is|are|should be|would be|must be|ist|es|est|è|é|是|は|为)?\s*[:：=]?)\s*",
    re.IGNORECASE,
)
BOX = re.compile(r"\\boxed\s*\{")
TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
VERDICTS = (frozenset({"yes", "true", "1", "y"}), frozenset({"no", "false", "0", "n"}))


def tokens(text: str) -> list[str]:
    """Words without case; every number is `#`, every ideograph a word of its own."""
    found = WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return ["#" if word[0].isdigit() else word for word in found]


def normalise(text: str) -> str:
    """The text without case, punctuation and spacing: equal for near duplicates. Numbers and signs before them stay."""
    return " ".join(re.findall(r"-?\d+(?:\.\d+)?|[^\W\d_]+", unicodedata.normalize("NFKC", text).casefold()))


def plain_number(text: str) -> str | None:
    """`$1,200.50` → `1200.5`, `3/4` → `0.75`, `7.0` → `7`; None when the text is not one number."""
    bare = text.strip().strip("$€£%. ").replace(",", "").replace("−", "-").removeprefix("+").lstrip("$€£ ")
    if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:/[1-9]\d*)?", bare):
        return None
    top, _, bottom = bare.partition("/")
    value = Fraction(top) / (int(bottom) if bottom else 1)
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6f}".rstrip("0")


def value_of(expression: str) -> Fraction | None:
    """What `2 + 3 × 4` is, products before sums; None for a division by zero."""
    parts = re.findall(rf"{AMOUNT}|{OPERATOR}", expression)
    total, sign, product = Fraction(0), 1, Fraction(re.sub(r"[$€£,]", "", parts[0]))
    for op, amount in zip(parts[1::2], parts[2::2], strict=True):
        number = Fraction(re.sub(r"[$€£,]", "", amount))
        if op in "+-−":
            total, sign, product = total + sign * product, 1 if op == "+" else -1, number
        elif op in "/÷":
            if number == 0:
                return None
            product /= number
        else:
            product *= number
    return total + sign * product


def equations(text: str) -> list[tuple[str, str, bool]]:
    """Every `a + b = c` in the text: left side, right side, and whether it holds (a rounded result does)."""
    found = []
    for match in EQUATION.finditer(text) if "=" in text else ():
        if text[: match.start()].rstrip()[-1:] in tuple("+-*/×÷−^(=%"):
            continue
        left, right = match[1], re.sub(r"[$€£,]", "", match[2])
        value = value_of(left)
        slack = Fraction(51, 100) / 10 ** len(right.partition(".")[2]) if "." in right else 0
        found.append((left, right, value is not None and abs(value - Fraction(right)) <= slack))
    return found


def boxed(text: str) -> str | None:
    r"""Content of the last `\boxed{}`, inner braces included."""
    starts = list(BOX.finditer(text))
    if not starts:
        return None
    depth, begin = 1, starts[-1].end()
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin:i].strip()
    return text[begin:].strip()


def stated(text: str) -> str | None:
    """What the text itself calls its answer: a box, a tag, or the rest of the line after `Answer:` and its like."""
    tagged = TAG.findall(text)
    marks = list(STATED.finditer(text))
    found = boxed(text) or (tagged[-1].strip() if tagged else None)
    if found is None and marks:
        found = text[marks[-1].end() :].strip().partition("\n")[0]
    return found.strip(" *_`\"'").rstrip(".。 *") or None if found else None


def number_in(text: str | None, *, last: bool) -> str | None:
    """The first or last number of a text, plain."""
    found = NUMBER.findall(text or "")
    return plain_number(found[-1 if last else 0]) if found else None


def letter_in(text: str | None) -> str | None:
    """The option letter of a text: the whole of it, at its head (`B) 12`), or the last that stands alone."""
    bare = (text or "").strip().strip("()[]*. ")
    if re.fullmatch(r"[A-Ja-j]", bare):
        return bare.upper()
    head = re.match(r"\(?([A-J])\s*[.):\]]", bare)
    found = LETTER.findall(bare)
    return head[1] if head else next((c for c in reversed(found) if c not in "AI" or len(bare) < 12), None)


def label_in(text: str, labels: Sequence[str]) -> str | None:
    """The label a text is, states, misspells a little, or mentions alone; in the labels' own writing."""
    names = {normalise(label) or label: label for label in labels}
    for part in (text, stated(text) or ""):
        bare = normalise(part) or part.strip()
        close = difflib.get_close_matches(bare, names, 1, 0.84) if 3 < len(bare) < 60 else []
        if bare in names or close:
            return names[bare if bare in names else close[0]]
        verdict = next((same for same in VERDICTS if bare in same), frozenset())
        meant = [label for name, label in names.items() if name in verdict]
        if meant and len(names) == 2:
            return meant[0]
    flat = f" {normalise(text)} "
    found = [name for name in names if f" {name} " in flat]
    return names[found[0]] if len(found) == 1 else None


def final_answer(text: str, shape: str) -> str | None:
    """The answer a solution ends with; `shape` is integer, number, letter, label or text. None: there is none."""
    said = stated(text)
    if shape in ("integer", "number"):
        found = number_in(said, last=False) or number_in(text, last=True)
        return None if found is None or (shape == "integer" and "." in found) else found
    if shape == "letter":
        return letter_in(said) or letter_in(text)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return said or (lines[-1].strip("*_`\"' ") if lines else None) or None


def same_answer(a: str | None, b: str | None) -> bool:
    """Equal as numbers, or as words without case and punctuation."""
    if a is None or b is None:
        return False
    left, right = plain_number(a), plain_number(b)
    return left == right if left or right else (normalise(a) or a.strip()) == (normalise(b) or b.strip())


STEP = re.compile(r"([^.\[\]]+)|\[(\d*|[^\]=]+=[^\]]*)\]")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSON, JSON Lines, CSV, TSV or Parquet file, in order. Raises ValueError or OSError when unreadable."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        yield from parquet_records(path)
    elif kind in (".csv", ".tsv"):
        yield from table_records(path)
    elif kind == ".json":
        yield from json_records(path)
    else:
        yield from line_records(path)


def line_records(path: Path) -> Iterator[dict[str, Any]]:
    """One JSON object a line; blank lines are skipped."""
    with path.open(encoding="utf-8-sig") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as e:
                raise ValueError(f"{path.name}:{number}: not JSON") from e
            if isinstance(value, dict):
                yield value


def json_records(path: Path) -> Iterator[dict[str, Any]]:
    """A list of objects, wherever it lies in the document; columns; objects by id; or JSON Lines in disguise."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError:
        yield from line_records(path)
        return
    yield from longest_list(document)


def longest_list(document: Any) -> list[dict[str, Any]]:
    """The longest list of objects inside a JSON document."""
    if isinstance(document, list):
        return [row for row in document if isinstance(row, dict)]
    if not isinstance(document, dict) or not document:
        return []
    values = list(document.values())
    inner = max((longest_list(v) for v in values if isinstance(v, dict | list)), key=len, default=[])
    if all(isinstance(v, dict) for v in values) and len(values) > max(1, len(inner)):
        return values
    columns = [v for v in values if isinstance(v, list)]
    if not inner and len(columns) > 1 and len({len(v) for v in columns}) == 1 and len(columns) == len(values):
        return [dict(zip(document, row, strict=True)) for row in zip(*columns, strict=True)]
    return inner


def table_records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a table with a header; the separator is found in the header line; JSON in a cell is read."""
    csv.field_size_limit(1 << 30)
    with path.open(encoding="utf-8-sig", newline="") as f:
        head = f.readline()
        separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t|", key=head.count)
        f.seek(0)
        for row in csv.DictReader(f, delimiter=separator):
            yield {str(k): cell(v) for k, v in row.items() if k is not None}


def cell(text: Any) -> Any:
    """A cell's value: a list or object where the text is JSON, else the text."""
    if isinstance(text, str) and text[:1] + text[-1:] in ("[]", "{}"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet file, batch by batch."""
    import pyarrow.parquet as pq  # only where such a file is read

    with pq.ParquetFile(path) as file:  # type: ignore[no-untyped-call]
        for batch in file.iter_batches(batch_size=2000):
            yield from batch.to_pylist()


def pick(record: Any, path: str) -> Any:
    """The value at a path such as `input.text`, `turns[0].value`, `turns[from=human].value` or `choices[]`; None if absent.

    `text|before|MARK` and `text|after|MARK` are the parts of a text around a mark, `steps[]|join` a list as lines.
    """
    path, *cut = path.split("|", 2)
    for name, index in STEP.findall(path):
        if record is None:
            return None
        record = record.get(name) if name and isinstance(record, dict) else inside(record, index)
    if cut == ["join"]:
        return "\n".join(map(text_of, record)) if isinstance(record, list) else record
    if cut and isinstance(record, str):
        before, mark, after = record.partition(cut[1])
        return (before if cut[0] == "before" else after) if mark else None
    return record


def inside(record: Any, index: str) -> Any:
    """One element of a list by number, by a field's value, or (no index) the list itself."""
    if not isinstance(record, list) or not index:
        return record if isinstance(record, list) else None
    if index.isdigit():
        return record[int(index)] if int(index) < len(record) else None
    name, _, value = index.partition("=")
    return next((part for part in record if isinstance(part, dict) and str(part.get(name)) == value), None)


def text_of(value: Any) -> str:
    """A value as text: the first of a list, `7` for 7.0, "" for nothing."""
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


LABELLED = re.compile(r"^\s*(?:question|problem|task|input|query|q)\s*[:：]\s*", re.IGNORECASE)
CLOSING = re.compile(r"(?im)^\W*(?:####.*|(?:final )?answer\s*[:：].*|\\boxed\{.*\}\W*|<answer>.*</answer>)\s*$")
CHOSEN = re.compile(r"\s*\(?[A-J]\s*[.):]\s*\S[^\n]*$")
CALCULATOR = re.compile(r"<<[^<>]*>>")


@dataclass(frozen=True)
class Row:
    """One record: the question's fields, solution, final answer, reference answer if any; `sure`: something confirms it."""

    source: str
    fields: dict[str, str]
    solution: str
    answer: str | None
    key: str | None = None
    sure: bool = False

    @property
    def question(self) -> str:
        """All fields as one text."""
        return "\n".join(self.fields.values())

    @cached_property
    def name(self) -> str:
        """The question without case, punctuation and spacing: equal for near duplicates."""
        return normalise(self.question)


def read_source(root: Path, source: dict[str, Any], task: dict[str, Any], most: int | None) -> list[Row]:
    """Rows of one source, at most `most`; records without a question are left out."""
    folder = root / source["dataset"]
    path = folder if folder.is_file() else folder / source["file"]
    wanted = (r for r in records(path) if belongs(r, source["where"]) and flagged(r, source["flag"]))
    rows = (make_row(record, source, task) for record in itertools.islice(wanted, most))
    return [row for row in rows if row is not None]


def belongs(record: dict[str, Any], where: str) -> bool:
    """Whether a record is one of `field=value` or `has=field`; "" takes all."""
    name, _, value = where.partition("=")
    if name == "has":
        return record.get(value) not in (None, "", [], {})
    return not where or str(record.get(name)) == value


def flagged(record: dict[str, Any], flag: str) -> bool:
    """Whether the source marks the record as right; "" takes all."""
    path, _, yes = flag.rpartition("=")
    return not flag or text_of(pick(record, path)).casefold() == yes


def make_row(record: dict[str, Any], source: dict[str, Any], task: dict[str, Any]) -> Row | None:
    """The record in our shape; None without a question."""
    fields = {n: question_text(record, paths, n, source["frame"], task) for n, paths in source["fields"].items()}
    if not all(text or task["prefixes"].get(name) for name, text in fields.items()) or not any(fields.values()):
        return None
    options = option_texts(record, source["options"])
    solution = CALCULATOR.sub("", text_of(pick(record, source["solution"])))
    solution = source["codes"].get(solution, solution)
    solution = (
        as_letter(solution, options, source["base"]) if task["shape"] == "letter" and not source["key"] else solution
    )
    if task["shape"] == "letter" and CHOSEN.match(solution) and len(solution) < 80:
        solution = solution.strip(" (")[0]
    key = text_of(pick(record, source["key"])) if source["key"] else ""
    key = as_letter(key, options, source["base"]) if task["shape"] == "letter" else key
    if options and task["options"]:
        last = list(fields)[-1]
        fields[last] = with_options(fields[last], options, **task["options"])
    return Row(source["name"], fields, solution, answer_of(solution, task), answer_of(key, task) if key else None)


def question_text(
    record: dict[str, Any], paths: Sequence[str], name: str, frame: Sequence[str], task: dict[str, Any]
) -> str:
    """The question alone: without the source's and the benchmark's own wording around it and without `Question:`."""
    text = "\n".join(part for part in (text_of(pick(record, path)) for path in paths) if part)
    text = text.removeprefix(frame[0].strip()).removesuffix(frame[1].strip()).strip()
    prefix, suffix = task["prefixes"].get(name, ""), task["suffixes"].get(name, "")
    for constant in task["constants"] if prefix not in task["constants"] else ():
        text = text.removesuffix(constant).removeprefix(constant).strip()
    text = LABELLED.sub("", text[len(shared(prefix, text)) :]).strip()
    end = shared(suffix[::-1], text[::-1], least=3)
    return text[: len(text) - len(end)].strip() if end else text


def shared(outer: str, inner: str, least: int = 1) -> str:
    """What `outer` ends with and `inner` begins with, whatever the case: the part of a frame that is there already."""
    low, text = outer.casefold().strip(), inner.casefold()
    sizes = range(min(len(low), len(text)), least - 1, -1)
    size = next((n for n in sizes if text.startswith(low[-n:]) and (n == len(low) or not low[-n - 1].isalnum())), 0)
    return inner[:size]


def option_texts(record: dict[str, Any], paths: Sequence[str]) -> list[str]:
    """Options of a record in order, from one list or from a field each."""
    values = [pick(record, path) for path in paths]
    many = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return [text for text in map(text_of, many) if text]


def as_letter(answer: str, options: Sequence[str], base: int | None) -> str:
    """An option's number (counted from `base`) or its text as its letter; anything else stays."""
    if base is not None and answer.isdigit() and 0 <= int(answer) - base < len(options):
        return chr(ord("A") + int(answer) - base)
    places = [i for i, option in enumerate(options) if same_answer(option, answer)]
    return chr(ord("A") + places[0]) if len(places) == 1 and (len(answer) > 1 or not letter_in(answer)) else answer


def with_options(question: str, options: Sequence[str], mark: str, separator: str, lead: str) -> str:
    """The question with its options as the benchmark shows them, unless they are there already."""
    if all(option in question for option in options) and any(c in question for c in ("A.", "A)", "(A", "A:")):
        return question
    letters = (chr(ord("A") + i) for i in range(len(options)))
    return (
        question + lead + separator.join(mark.format(c) + option for c, option in zip(letters, options, strict=False))
    )


def answer_of(text: str, task: dict[str, Any]) -> str | None:
    """The final answer of a text if it has the benchmark's shape and, for numbers, its range."""
    if task["shape"] == "label":
        return label_in(text, task["labels"])
    found = final_answer(text, task["shape"])
    if found is None or task["shape"] not in ("integer", "number"):
        return found
    value = plain_number(found)
    return value if value is not None and task["low"] <= float(value) <= task["high"] else None


def alpaca(row: Row, task: dict[str, Any]) -> dict[str, str]:
    """The row as the benchmark asks it, answered as its scorer reads it."""
    texts = {n: task["prefixes"].get(n, "") + text + task["suffixes"].get(n, "") for n, text in row.fields.items()}
    names = "|".join(re.escape(name) for name in texts)
    instruction = re.sub(rf"\{{({names})\}}", lambda match: texts[match[1]], task["prompt"])
    steps = CLOSING.sub("", row.solution).strip() if task["steps"] else ""
    bare = steps if not same_answer(steps, row.answer) else ""
    final = task["final"].replace("ANSWER", row.answer or "")
    return {"instruction": instruction, "input": "", "output": f"{bare}\n{final}" if bare else final}


def drop_unanswered(rows: Sequence[Row]) -> list[Row]:
    """Rows without a final answer of the benchmark's shape go; where only the key has one, it is taken."""
    return [row if row.answer else replace(row, answer=row.key) for row in rows if row.answer or row.key]


def drop_false_equations(rows: Sequence[Row]) -> list[Row]:
    """Rows with an equation that does not hold go."""
    return [row for row in rows if all(holds for _, _, holds in equations(row.solution))]


def drop_contradicted(rows: Sequence[Row]) -> list[Row]:
    """Rows whose solution ends elsewhere than the key go; the others are sure."""
    kept = [row for row in rows if row.key is None or same_answer(row.key, row.answer)]
    return [replace(row, sure=row.sure or row.key is not None) for row in kept]


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
    steps = [(left, right) for left, right, _ in equations(row.solution)]
    chain = [re.fullmatch(r"(\d+)(\s*)([-+*/])\s*(\d+)", left) for left, _ in steps]
    if not chain or not all(chain) or len(chain) > 5:
        return row
    old = [(m[1], m[3], m[4], right) for m, (_, right) in zip(chain, steps, strict=True) if m]
    for changes in range(3):
        found = [new for new in variants(old, changes) if same_answer(new[-1][3], row.key)]
        if found:
            return with_chain(row, steps, found[0]) if len(found) == 1 else row
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


def with_chain(row: Row, steps: Sequence[tuple[str, str]], new: Sequence[tuple[str, str, str, str]]) -> Row:
    """The row's solution with other equations in their places and the key as its last number."""
    text, at = row.solution, 0
    for (left, right), (a, op, b, c) in zip(steps, new, strict=True):
        begin = text.index(left, at)
        end = text.index(right, begin + len(left)) + len(right)
        written = (
            re.sub(r"\d+", "{}", text[begin:end]).replace(left.strip("0123456789").strip()[:1], op, 1).format(a, b, c)
        )
        text, at = text[:begin] + written + text[end:], begin + len(written)
    tail, last = text[at:], number_in(text[at:], last=True)
    if last is not None:
        begin = tail.rindex(last)
        text = text[:at] + tail[:begin] + str(row.key) + tail[begin + len(last) :]
    return replace(row, solution=text, answer=row.key, sure=True)


def keep_agreed(rows: Sequence[Row], votes: int, need_votes: Sequence[str], share: float = 1.0) -> list[Row]:
    """Of rows with the same question those that agree: with a confirmed answer, else with at least `share` of the others.

    Sources in `need_votes` keep only questions that at least `votes` rows answer, or that something else confirms.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.name].append(row)
    return [row for group in groups.values() for row in agreed(group, votes, set(need_votes), share)]


def agreed(group: Sequence[Row], votes: int, need_votes: set[str], share: float) -> list[Row]:
    """The rows of one question that agree."""
    known = [row for row in group if row.sure] or list(group)
    counts = Counter(plain_number(row.answer or "") or normalise(row.answer or "") for row in known)
    answer, most = counts.most_common(1)[0]
    if most < share * len(known):
        return []
    kept = [row for row in group if (plain_number(row.answer or "") or normalise(row.answer or "")) == answer]
    sure = any(row.sure for row in kept)
    enough = sure or most >= votes
    return [replace(row, sure=enough) for row in kept if enough or row.source not in need_votes]


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


def dedupe(rows: Sequence[Row]) -> list[Row]:
    """One row a question: the surest, in ordinary writing, the first."""

    def rank(row: Row) -> tuple[bool, bool, bool, bool]:
        text = row.question
        odd = text.isupper() or text.islower() or "  " in text or text != text.strip()
        return not row.sure, not row.solution, odd, False

    best: dict[str, Row] = {}
    for row in rows:
        if row.name not in best or rank(row) < rank(best[row.name]):
            best[row.name] = row
    return list(best.values())


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


# What is done with the rows, in order, and why.
STEPS = [
    # an answer is integer; rows without one teach nothing
    (drop_unanswered, {}),
    # a wrong sign in a chain can be found, as the key is known
    (repair_from_key, {'at_least': 0.6}),
    # up to 9% of a source's rows hold a false equation
    (drop_false_equations, {}),
    # the key agrees with only 62% of the solutions
    (drop_contradicted, {}),
    # replies to the same question differ
    (keep_agreed, {'votes': 2, 'need_votes': ['wordproblems/distilled.jsonl']}),
    # a tiny model learns bare equations more easily than prose
    (rewrite_equations, {'spacing': 'compact'}),
    # a question twice is learned twice
    (dedupe, {}),
]


def main() -> None:
    """Read, clean, select, write."""
    arguments = argparse.ArgumentParser(description="Make data.json from the raw data below $DATASETS_DIR.")
    arguments.add_argument("--debug", action="store_true", help=f"read little, write about {DEBUG_ROWS} rows")
    debug = arguments.parse_args().debug
    root = Path(os.environ["DATASETS_DIR"])
    rows = [row for source in SOURCES for row in read_source(root, source, TASK, DEBUG_READ if debug else None)]
    summary: dict[str, Any] = {"debug": debug, "read": len(rows), "dropped": {}}
    for step, options in STEPS:
        before = len(rows)
        rows = step(rows, **options)
        summary["dropped"][step.__name__] = before - len(rows)
    chosen = select(rows, min(LIMIT, DEBUG_ROWS) if debug else LIMIT, SEED, WORDS)
    data = [alpaca(row, TASK) for row in chosen]
    with open("data.json", "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, indent=1)
    print(json.dumps(summary | {"clean": len(rows), "rows": len(data)}))


if __name__ == "__main__":
    main()
