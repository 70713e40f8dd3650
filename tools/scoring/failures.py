"""Why items were not solved: kinds of failure with their shares, groups, common wrong answers, and the items themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from tuneloop.core.score import ItemResult, Score
from tuneloop.core.text import endless

Kind = Literal["empty", "cut_off", "unparsed", "scorer_failed", "judge_unknown", "partly_right", "wrong"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MEANING: dict[Kind, str] = {
    "empty": "nothing was said",
    "cut_off": "no answer found, and the reply is nearly as long as allowed or repeats itself",
    "unparsed": "no answer found: another form than the scorer reads",
    "scorer_failed": "the scorer itself failed; the item counts as wrong",
    "judge_unknown": "the rule found it wrong, and the judge gave no verdict",
    "partly_right": "a part of the points",
    "wrong": "an answer was found, and it is another one",
}
EVIDENCE, COMMON, GROUPS = 3, 5, 12


def failure_kind(result: ItemResult, max_new_tokens: int) -> Kind | None:
    """The kind of failure, None for what is right."""
    if result.correct:
        return None
    if result.error:
        return "scorer_failed"
    if not result.prediction.strip():
        return "empty"
    if result.parsed is None:
        return "cut_off" if endless(result.prediction, max_new_tokens) else "unparsed"
    if result.value > 0:
        return "partly_right"
    return "judge_unknown" if result.extra.get("judge") == "unknown" else "wrong"


def explain_failures(
    score: Score,
    prompts: Mapping[str, str],
    max_new_tokens: int,
    *,
    kind: str = "any",
    group: str = "",
    count: int = 10,
    offset: int = 0,
) -> dict[str, Any]:
    """Counts over all failures on items that are shown, and one page of them; `kind` and `group` choose the page."""
    failed = [(k, result) for result in score.items if (k := failure_kind(result, max_new_tokens))]
    chosen = [(k, result) for k, result in failed if kind in ("any", k) and group in ("", result.group)]
    return {
        "benchmark": score.benchmark,
        "n": len(score.items),
        "failed": len(failed),
        "kinds": [row for name in KINDS if (row := _kind(name, failed, len(score.items)))],
        "groups": worst_groups(score),
        "common_wrong_answers": common_wrong_answers([result for _, result in failed]),
        "chosen": len(chosen),
        "items": [failure_entry(k, result, prompts[result.id]) for k, result in chosen[offset : offset + count]],
    }


def _kind(name: Kind, failed: Sequence[tuple[Kind, ItemResult]], n: int) -> dict[str, Any]:
    ids = [result.id for k, result in failed if k == name]
    if not ids:
        return {}
    percent = round(100 * len(ids) / n, 1)
    return {"kind": name, "means": MEANING[name], "count": len(ids), "percent": percent, "examples": ids[:EVIDENCE]}


def worst_groups(score: Score) -> list[dict[str, Any]]:
    """Parts of the benchmark, the weakest first."""
    sign = 1 if score.direction == "max" else -1
    rows = sorted(score.groups.items(), key=lambda row: (sign * row[1].value, row[0]))
    return [{"group": name, **found.model_dump()} for name, found in rows[:GROUPS]]


def common_wrong_answers(failed: Sequence[ItemResult]) -> list[dict[str, Any]]:
    """Wrong answers that were given more than once: one that is given everywhere tells of a habit, not of a mistake."""
    counted = Counter(result.parsed for result in failed if result.parsed is not None)
    return [{"answer": text, "count": n} for text, n in counted.most_common(COMMON) if n > 1]


def failure_entry(kind: Kind, result: ItemResult, prompt: str) -> dict[str, Any]:
    """One item, whole."""
    return {"kind": kind, **result.model_dump(mode="json", exclude={"correct"}), "prompt": prompt}
