"""What a careful reader asks of a result: how it was tested, how often, on what, and what the numbers do not cover."""

from __future__ import annotations

from tuneloop.core.score import Comparison, Score
from tuneloop.core.wording import clean, p
from tuneloop.tools.report import tables
from tuneloop.tools.report.data import ReportData, overlaps

SHOWN = 5


def honesty(data: ReportData) -> list[str]:
    """The answers, a line each."""
    lines = [
        "Code decides, by an exact paired test on the same items (signs of differences; where items are right or wrong "
        "this is McNemar's; items that share a context count as one). p must be at most the candidate's share of 5 %: "
        "planned experiments share alike, those that failed leave theirs, and with experiments added on the way what is left is "
        "shared by more; without a plan the n-th gets 1/(n(n+1)) of it. "
        f"Candidates measured on validation: {data.journal.scored}.",
        *_sealed(data),
        _reads(data.reads_of_test),
        *_forked(data),
        f"An answer that cannot be parsed counts as wrong. Parsed on validation: base {_parsed(data.baseline_validation)}"
        f"{f', best {_parsed(data.best.score)}' if data.best else ''}"
        f"{f'; on the test: base {_parsed(data.baseline_test)}, best {_parsed(data.best_test)}' if data.best_test else ''}.",
        *_scorer(data),
        *_cut(data.baseline_validation),
        *_judge(data),
        _contamination(data),
        *_held_back(data),
        *_left_out(data),
        _seeds(data),
        "Intervals are 95 % intervals over items, of clusters where items share a context: Wilson's, for finer values than "
        "right and wrong with the effective number of items. They do not cover what another training seed would change.",
    ]
    if data.benchmark.direction == "min":
        lines.append("For this metric, lower is better.")
    return lines


def _scorer(data: ReportData) -> list[str]:
    return [f"{who}: {tables.plain(failed)}." for who, failed in data.scorer_failed.items()]


def _judge(data: ReportData) -> list[str]:
    if not data.benchmark.judge:
        return []
    scores = {"base": data.baseline_test or data.baseline_validation, "best": data.best_test}
    said = [
        f"{who} {s.judged.asked} replies, {s.judged.correct} right, {s.judged.unknown} without a verdict"
        for who, s in scores.items()
        if s and s.judged
    ]
    if not said:
        return ["No language model judged (FT_JUDGE_MODEL): the rule decided alone, and may be too strict."]
    where = "on the test" if data.baseline_test else "on validation"
    return [f"What the rule did not call right, a language model judged, {where}: {'; '.join(said)}. He can be wrong."]


def _reads(count: int) -> str:
    if count == 0:
        return "This test split has never been read before on this machine."
    return f"Runs on this machine have read this test split {count} times before: the more, the less it proves."


def _forked(data: ReportData) -> list[str]:
    if data.fork is None:
        return []
    line = (
        f"Forked from run {data.fork.run} after experiment {data.fork.at}: the experiments until then are that run's."
    )
    seen = " It had read this test split when this was written: who forked it may have known its result."
    return [line + (seen if data.fork_read_test else "")]


def _sealed(data: ReportData) -> list[str]:
    c = data.comparison_test
    if c is None:
        return ["The sealed test was not compared: there is no accepted experiment."]
    return [
        f"Sealed test: n = {_counted(c)}, gain {c.gain:+.1f} points{_between(c)}, p {_equals(p(c.p_value))}; the best is "
        f"better on {c.wins} items, the base on {c.losses}.",
        f"The smallest gain this test split could show (four times in five) is {c.smallest_gain:.1f} points.",
    ]


def _counted(c: Comparison) -> str:
    return f"{c.n} in {c.units} clusters" if c.units and c.units != c.n else str(c.n)


def _between(c: Comparison) -> str:
    return "" if c.low is None or c.high is None else f" (95 %: {c.low:+.1f} to {c.high:+.1f})"


def _seeds(data: ReportData) -> str:
    decoding = (
        "Greedy decoding" if data.benchmark.samples == 1 else f"{data.benchmark.samples} drawn replies to each item"
    )
    best = data.best.score if data.best else None
    if best is not None and best.by_seed:
        each = ", ".join(f"{value:.1f}" for value in best.by_seed)
        return (
            f"{decoding}. The best recipe was trained with {len(best.by_seed)} seeds: {each} on validation; their mean was "
            "compared. The delivered model is that of the first seed."
        )
    if data.spec.seeds > 1 and best is not None:
        return f"{decoding}. {data.spec.seeds} seeds were asked for; there was time for one, which proves less."
    return f"{decoding}; every candidate was trained and measured once."


def _equals(number: str) -> str:
    return number if number.startswith("<") else f"= {number}"


def _parsed(score: Score | None) -> str:
    return f"{score.parsed:.0f} %" if score else "-"


def _cut(score: Score | None) -> list[str]:
    if score is None or not score.truncated:
        return []
    return [
        f"{score.truncated} of {score.n} validation prompts are longer than the model's context; they were asked without their "
        "beginning, and count."
    ]


def _contamination(data: ReportData) -> str:
    counts = [(number, overlaps(report)) for number, report in sorted(data.data.items())]
    found = [f"experiment {n}: {c['validation']} validation, {c['test']} test" for n, c in counts if any(c.values())]
    text = "; ".join(found) or "none"
    shown = "; ".join(f'"{clean(row, 100)}"' for row in data.leaked[:SHOWN])
    examples = f" For the test, among others: {shown}." if shown else ""
    return f"Training rows dropped because they overlap with a benchmark item: {text}.{examples}"


def _held_back(data: ReportData) -> list[str]:
    """Validation items in the raw data, which no gate lets into a training."""
    lines = []
    if data.raw_overlaps:
        found = ", ".join(f"{clean(name, 60)} {count}" for name, count in data.raw_overlaps.items())
        lines.append(
            f"Raw records that hold validation items, which data scripts leave out or the gate refuses: {found}."
        )
    if data.refused:
        found = ", ".join(f"experiment {number}: {rows}" for number, rows in data.refused.items())
        lines.append(f"Rows with validation items that the gate refused before a script left them out: {found}.")
    return lines


def _left_out(data: ReportData) -> list[str]:
    found = [(e.number, e.training.left_out) for e in data.journal.experiments if e.training and e.training.left_out]
    told = "; ".join(f"experiment {n}: {tables.plain(', '.join(names))}" for n, names in found)
    return [f"Foreign files that trainings left beside their models, and nobody took: {told}."] if found else []
