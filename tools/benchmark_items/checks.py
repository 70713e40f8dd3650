"""What items must be before anything is measured with them: complete, readable by the scorer, the splits apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.benchmark_items.folder import RESERVED, render_prompt
from tuneloop.tools.registry import did_you_mean
from tuneloop.tools.scoring import answer_matching, code_results
from tuneloop.tools.scoring.scorer import scorer_file

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
LATEX = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})*$")


def template_fields(benchmark: Benchmark, rows: Iterable[Mapping[str, Any]], where: str) -> tuple[str, ...]:
    r"""Fields the prompt template uses.

    `{name}` is a field's place where some row has the field `name`. `{answer}`, `{id}`, braces after a LaTeX command
    (`\boxed{x}`) and braces around anything but a name are text. Any other `{name}` is a mistake: InvalidRequestError.
    """
    known = {name for row in rows for name in row} - set(RESERVED)
    used: dict[str, None] = {}
    for match in PLACEHOLDER.finditer(benchmark.prompt):
        name = match[1]
        if name in known:
            used[name] = None
        elif name not in RESERVED and not LATEX.search(benchmark.prompt[: match.start()]):
            raise InvalidRequestError(f"{where}: the prompt names {{{name}}}, which no item has; {_right(name, known)}")
    if not used:
        raise InvalidRequestError(f"{where}: the prompt uses no field of the items; {_right('', known)}")
    return tuple(used)


def check_answer_format(benchmark: Benchmark, where: str) -> None:
    """Refuse a pattern that cannot be used, and a scorer that does not exist."""
    scorer_file(benchmark)
    if benchmark.answer.startswith("regex:"):
        try:
            answer_matching.compiled(benchmark.answer.removeprefix("regex:"))
        except ValueError as e:
            raise InvalidRequestError(f"{where}: answer: {e}") from e


def check_gold(benchmark: Benchmark, answer: str, where: str) -> None:
    """Refuse a gold answer that no reply could ever match."""
    if benchmark.verified:
        return
    if not answer.strip():
        raise InvalidRequestError(f"{where}: answer is empty")
    if benchmark.scorer or (benchmark.executed and code_results.is_readable(answer)):
        return
    if answer_matching.gold(benchmark.answer, answer) is None:
        raise InvalidRequestError(
            f"{where}: answer {answer[:60]!r} is no {benchmark.answer} answer; right is {_example(benchmark.answer)}"
        )


def check_disjoint_splits(benchmark: Benchmark, validation: Iterable[Item], test: Iterable[Item], where: str) -> None:
    """Refuse splits that share questions; case and white space do not count."""
    seen = {_normal(render_prompt(benchmark, item)) for item in validation}
    shared = sum(_normal(render_prompt(benchmark, item)) in seen for item in test)
    if shared:
        raise InvalidRequestError(
            f"{where}: {shared} questions are in validation.jsonl and in test.jsonl; right is none"
        )


def check_ids(items: Iterable[Item], where: str) -> None:
    """Refuse two items of one split with one id."""
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise InvalidRequestError(f"{where}: id {item.id!r} appears twice")
        seen.add(item.id)


def check_items(benchmark: Benchmark, validation: list[Item], test: list[Item], where: str) -> None:
    """Everything above, for items that were made or fetched."""
    check_answer_format(benchmark, where)
    for split, items in (("validation", validation), ("test", test)):
        if not items:
            raise InvalidRequestError(f"{where}: {split} has no items")
        template_fields(benchmark, (item.fields for item in items), where)
        for item in items:
            check_gold(benchmark, item.answer, f"{where}: item {item.id}")
            if benchmark.executed != (item.calls is not None):
                raise InvalidRequestError(
                    f"{where}: item {item.id}: calls are for benchmarks whose replies are run, and they need them"
                )
        check_ids(items, f"{where}: {split}")
    check_disjoint_splits(benchmark, validation, test, where)


def _right(name: str, known: set[str]) -> str:
    return did_you_mean(name, sorted(known)) + "; a field's place is its name in braces"


def _example(kind: str) -> str:
    examples = {"boxed": "what stands in the box, e.g. 12", "choice": "one letter, e.g. B", "number": "e.g. -1234.5"}
    examples |= {"code": "what each call gives, e.g. [3, 7]"}
    return examples.get(kind, "a text, not empty") if not kind.startswith("regex:") else "a text the pattern finds"


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())
