"""What a careful reader asks of a result: how it was tested, how often, on what, and what the numbers do not cover."""

from __future__ import annotations

from tuneloop.core.formatting import format_comparison, format_equals, format_gain, format_p_value, printable
from tuneloop.core.score import Score
from tuneloop.tools.report import tables
from tuneloop.tools.report.data import ReportData, RunFacts, overlap_counts

SHOWN = 5


def caveat_lines(data: ReportData) -> list[str]:
    """The answers, a line each."""
    lines = [
        f"{data.measured} models were measured on validation. The score of the best of them flatters: only the sealed test "
        "supports a claim.",
        *([f"The run ended before its limits: {printable(data.stopped, 600)}"] if data.stopped else []),
        _items(data),
        *_sealed(data),
        f"This was opening {data.opening} of this sealed test on this machine.",
        *_forked(data),
        f"An answer that cannot be parsed counts as wrong. Parsed on validation: base {_parsed(data.baseline_validation)}"
        f"{f', best {_parsed(data.best_validation)}' if data.best_validation else ''}"
        f"{f'; on the test: base {_parsed(data.baseline_test)}, best {_parsed(data.best_test)}' if data.best_test else ''}.",
        *_scorer(data),
        *_truncated_line(data.baseline_validation),
        *_judge(data),
        _contamination(data),
        *_validation_overlap_line(data),
        *left_out_line(data),
        _seeds(data),
        "Intervals are 95 % intervals over items, of clusters where items share a context: Wilson's, for finer values than "
        "right and wrong with the effective number of items. They do not cover what another training seed would change.",
    ]
    if data.benchmark.direction == "min":
        lines.append("For this metric, lower is better.")
    return lines


def _scorer(data: ReportData) -> list[str]:
    return [f"{who}: {tables.escape_markdown(failed)}." for who, failed in data.scorer_failed.items()]


def _judge(data: ReportData) -> list[str]:
    if not data.benchmark.judge:
        return []
    scores = {"base": data.baseline_test, "best": data.best_test}
    said = [
        f"{who} {s.judged.asked} replies, {s.judged.correct} right, {s.judged.unknown} without a verdict"
        for who, s in scores.items()
        if s and s.judged
    ]
    if not said:
        return ["No language model judged (FT_JUDGE_MODEL): the rule decided alone, and may be too strict."]
    return [
        f"A language model judged what the rule did not call right on the test: {'; '.join(said)}. It can be wrong."
    ]


def _items(data: ReportData) -> str:
    """How many validation items decided, and what agents saw of them."""
    n, shown, h = data.baseline_validation.n, data.validation_shown, data.halves
    compared = f"Experiments were compared on {n:,} validation items."
    if h is None:
        return f"{compared} Agents saw {'all' if shown == n else f'{shown:,}'} of them."
    learned = " The shown items may have been learned." if h.learned else ""
    return (
        f"{compared} Agents saw {shown:,} of them, on which the best gained {h.shown.gain:+.1f} points over the base model, and "
        f"{h.unseen.gain:+.1f} on the {h.unseen.n:,} others: a difference of {format_gain(h.difference, h.low, h.high)}.{learned}"
    )


def _forked(data: ReportData) -> list[str]:
    if data.fork is None:
        return []
    line = (
        f"Forked from run {data.fork.run} after experiment {data.fork.at}: the experiments until then are that run's."
    )
    return [line + (" Its lineage had opened its sealed test before." if data.lineage_opened else "")]


def _sealed(data: ReportData) -> list[str]:
    c = data.claim
    told = f"The sealed test of {data.baseline_test.n:,} items finds a gain of {data.smallest_gain:.1f} points four times in five."
    if c is None:
        return [f"Only the base model was measured on the sealed test: no experiment was promoted. {told}"]
    rule = "A better model is claimed where a two-sided paired test (p at most 0.05) and the 95 % interval both say so."
    if data.lineage_opened:
        rule = "Nothing is claimed, because this test had been opened before."
    return [
        f"Sealed test: {format_comparison(c)}, p {format_equals(format_p_value(c.p_value))}; the candidate is better on "
        f"{c.wins:,} items, the base model on {c.losses:,}. {rule} {told}"
    ]


def _seeds(data: ReportData) -> str:
    decoding = (
        "Greedy decoding" if data.benchmark.samples == 1 else f"{data.benchmark.samples} drawn replies to each item"
    )
    if data.spec.seeds == 1:
        return f"{decoding}; every candidate was trained and measured once."
    made = max((len(values) for values in data.candidates.values.values()), default=1)
    if made == 1:
        return f"{decoding}. {data.spec.seeds} seeds were asked for; no further training was made."
    return (
        f"{decoding}. {data.spec.seeds} seeds were asked for, time and budget reached for {made}: the last promoted recipes were "
        "trained again, and the model that measured best was taken."
    )


def _parsed(score: Score | None) -> str:
    return f"{score.parsed:.0f} %" if score else "-"


def _truncated_line(score: Score | None) -> list[str]:
    if score is None or not score.truncated:
        return []
    return [
        f"{score.truncated} of {score.n} validation prompts are longer than the model's context; they were asked without their "
        "beginning, and count."
    ]


def _contamination(data: ReportData) -> str:
    counts = [(number, overlap_counts(report)) for number, report in sorted(data.data.items())]
    found = [
        f"experiment {n}: {', '.join(f'{count} {split}' for split, count in c.items())}"
        for n, c in counts
        if any(c.values())
    ]
    text = "; ".join(found) or "none"
    removed = ", ".join(f"{printable(name, 60)} {count}" for name, count in data.removed.items())
    raw = f" Raw rows with sealed items, removed before the run read its data: {removed}." if removed else ""
    return f"Training rows dropped because they overlap with a benchmark item: {text}.{raw}"


def _validation_overlap_line(data: ReportData) -> list[str]:
    """Validation items in the raw data, which no gate lets into a training."""
    lines = []
    if data.raw_overlaps:
        found = ", ".join(f"{printable(name, 60)} {count}" for name, count in data.raw_overlaps.items())
        lines.append(
            f"Raw records that hold validation items, which data scripts leave out or the gate refuses: {found}."
        )
    if data.refused:
        found = ", ".join(f"experiment {number}: {rows}" for number, rows in data.refused.items())
        lines.append(f"Rows with validation items that the gate refused before a script left them out: {found}.")
    return lines


def left_out_line(data: RunFacts) -> list[str]:
    """What trainings left beside their models, where they left something."""
    found = [(e.number, e.training.left_out) for e in data.journal.experiments if e.training and e.training.left_out]
    told = "; ".join(f"experiment {n}: {tables.escape_markdown(', '.join(names))}" for n, names in found)
    return [f"Foreign files that trainings left beside their models, and nobody took: {told}."] if found else []
