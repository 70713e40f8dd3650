"""Tables of a prompt: earlier experiments, failures, further benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tuneloop.core.brief import Brief, FailureSummary, JournalRow
from tuneloop.core.experiment import Hypothesis, Training
from tuneloop.core.prompt_escaping import quote_line, table_cell
from tuneloop.core.score import Score

# Letters: of a cell of the journal, of a text of a failure.
CELL, TEXT = 300, 500
CHANGED, CHANGES = 2, 3000  # the cell that tells what changed, which is shown whole
StepKey = tuple[str, Mapping[str, object]]  # a step and its options


def format_score(value: Score | None) -> str:
    """A score with its interval."""
    if value is None:
        return "not measured"
    return (
        f"{value.value:.1f} [{value.low:.1f}, {value.high:.1f}], n = {value.n}, answers found in {value.parsed:.0f} %"
    )


def journal_table(rows: tuple[JournalRow, ...]) -> str:
    """Earlier experiments as a table that only grows at its end: what was sent before stays the beginning of what is sent."""
    head = "| # | hypothesis | what changed | rows | steps | score | gain | verdict | blame | lesson |"
    line = "|---|---|---|---|---|---|---|---|---|---|"
    ideas = {r.number: r.hypothesis for r in rows}
    return "\n".join((head, line, *(_row(r, {n: h for n, h in ideas.items() if n < r.number}) for r in rows)))


def _row(r: JournalRow, earlier: Mapping[int, Hypothesis]) -> str:
    value = "-" if r.value is None else f"{r.value:.1f} [{r.low:.1f}, {r.high:.1f}]"
    value += "".join(f"; {name} {v:.1f}" for name, v in r.also.items())
    gain = "-" if r.gain is None else f"{r.gain:+.1f} [{r.gain_low:.1f}, {r.gain_high:.1f}]"
    steps = format_steps(r.training) if r.training else "-"
    said = r.failure or r.lesson
    cells = (
        r.number,
        r.hypothesis.statement,
        plan_changes(r.hypothesis, earlier.get(r.hypothesis.parent or 0)),
        r.rows or "-",
        steps,
        value,
        gain,
        r.outcome,
        r.blame,
        said,
    )
    return (
        "| "
        + " | ".join(table_cell(one, CHANGES if place == CHANGED else CELL) for place, one in enumerate(cells))
        + " |"
    )


def plan_changes(h: Hypothesis, parent: Hypothesis | None) -> str:
    """The plans in short; beside the experiment that it builds on, what is not as in that one."""
    start = "" if h.parent is None else f"from {h.parent}: "
    if parent is None:
        steps = [step.do for step in h.data_plan]
        values = [f"{key}={value}" for key, value in h.training_plan.items()]
        return start + ("; ".join(", ".join(part) for part in (steps, values) if part) or "nothing")
    old, new = parent.training_plan, h.training_plan
    values = [f"{key}={value}" for key, value in new.items() if key not in old or old[key] != value]
    come, gone = changed_steps(h, parent)
    missing = [*gone, *(key for key in old if key not in new)]  # a plan may name only what it changes
    parts = (", ".join(come), ", ".join(values), f"not named again: {', '.join(missing)}" if missing else "")
    return start + ("; ".join(filter(None, parts)) or "nothing")


def changed_steps(h: Hypothesis, parent: Hypothesis) -> tuple[list[str], list[str]]:
    """Steps that are new or got other options, or that they stand in another order; and those that are not named again."""
    old, new = ([(step.do, step.options) for step in one.data_plan] for one in (parent, h))
    gone, come = multiset_difference(old, new), multiset_difference(new, old)
    if old != new and not gone and not come:
        return ["the same steps in another order"], []
    before = dict(gone)
    told = [
        f"{name} {_options(changed_options(before[name], new))}" if name in before else f"with {name} {_options(new)}"
        for name, new in come
    ]
    return [text.strip() for text in told], [name for name, _ in gone if name not in {name for name, _ in come}]


def changed_options(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Options that have another value; one that is not named again is `unset`."""
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return changed | {name: "unset" for name in old if name not in new}


def _options(given: Mapping[str, object]) -> str:
    return f"({', '.join(f'{name}={value}' for name, value in given.items())})" if given else ""


def multiset_difference(some: Sequence[StepKey], others: Sequence[StepKey]) -> list[StepKey]:
    """What is left of some when each of the others took one like it away."""
    left = list(some)
    for one in others:
        if one in left:
            left.remove(one)
    return left


def failures_section(found: tuple[FailureSummary, ...]) -> str:
    """Counts of failures by kind, and a few items of each; further ones are to be had from a tool."""
    return "\n\n".join(map(_failures, found)) or "nothing was measured yet"


def _failures(f: FailureSummary) -> str:
    who = f"Experiment {f.experiment}" if f.experiment else "The untouched model"
    kinds = "; ".join(f"{count} {kind} ({meaning})" for kind, (count, meaning) in f.kinds.items())
    lines = [f"{who}: {sum(count for count, _ in f.kinds.values())} of {f.n} items. {kinds}"]
    for i in f.items:
        found = "nothing" if i.found is None else quote_line(i.found, TEXT)
        asked, right, said = (quote_line(text, TEXT) for text in (i.asked, i.right, i.said))
        lines.append(f"- {i.kind}: asked {asked}; right {right}; said {said}; the scorer found {found}")
    return "\n".join(lines)


def format_steps(t: Training) -> str:
    """Steps of the model, and of how many where the training was stopped."""
    return str(t.steps) if t.stopped is None else f"{t.steps} of {t.stopped.of}, {t.stopped.kind}"


def further_benchmarks_table(brief: Brief) -> list[str]:
    """Further benchmarks, as a table with the average; they decide nothing."""
    if not (brief.also and brief.score and brief.baseline):
        return []
    pairs = {brief.score.benchmark: (brief.baseline, brief.score)}
    pairs |= {name: (brief.also_baseline[name], found) for name, found in brief.also.items()}
    rows = [f"| {name} | {base.value:.1f} | {found.value:.1f} |" for name, (base, found) in pairs.items()]
    means = [fmean(scores[i].value for scores in pairs.values()) for i in (0, 1)]
    head = ["| benchmark (the first decides) | untouched | this |", "|---|---|---|"]
    return [*head, *rows, f"| average | {means[0]:.1f} | {means[1]:.1f} |"]
