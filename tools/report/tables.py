"""Tables of the report, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from tuneloop.core.budget import format_amount, spending_lines
from tuneloop.core.experiment import Candidate, Experiment, forecast_error_percent
from tuneloop.core.formatting import format_duration, format_gain_cell, format_interval, format_size, printable
from tuneloop.core.prices import load_price_list
from tuneloop.core.score import GuardCheck, Score
from tuneloop.tools.report.data import ReportData, RunFacts
from tuneloop.tools.report.report_json import benchmark_averages
from tuneloop.tools.report.timing import longest_experiments, times_by_experiment, total_time
from tuneloop.tools.report.turns import NodeTime

CELL = 400
SHOWN = 20


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; text of agents cannot break out of its cell."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: object) -> str:
    return escape_markdown(printable(str(value), CELL).replace("\\", "\\\\").replace("|", "\\|"))


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is: no tags, links or code."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("[", "\\[").replace("`", "\\`")


def score_cell(s: Score | None) -> str:
    """Value and 95 % interval."""
    return format_interval(s.value, s.low, s.high) if s else "-"


def result_table(data: ReportData) -> str:
    """Base and best on both splits."""
    rows = [
        ("base model", score_cell(data.baseline_validation), score_cell(data.baseline_test)),
        (
            f"best: {candidate_name(data.candidates.chosen)}" if data.candidates.chosen else "best: none",
            score_cell(data.best_validation),
            score_cell(data.best_test),
        ),
    ]
    sizes = (f"validation (n = {data.baseline_validation.n})", f"sealed test (n = {data.baseline_test.n})")
    return markdown_table((f"{data.benchmark.metric}, 0-100", *sizes), rows)


def candidate_name(one: Candidate) -> str:
    """`experiment 3`, or `experiment 3, training 2`."""
    return f"experiment {one.experiment}" + (f", training {one.training}" if one.training > 1 else "")


def candidate_folder(one: Candidate) -> str:
    """Where a candidate lies in the run's folder."""
    return f"experiments/{one.experiment:03d}/" + (f"seeds/{one.training}/" if one.training > 1 else "")


def benchmarks_table(data: ReportData) -> str:
    """All benchmarks with the average; the first decides."""
    decisive = (data.baseline_validation, data.best_validation, data.baseline_test, data.best_test)
    columns = [(f"{data.benchmark.name} (decides)", *decisive)]
    columns += [
        (one.benchmark, one.baseline_validation, one.best_validation, one.baseline_test, one.best_test)
        for one in data.also
    ]
    means = benchmark_averages(data) or {}
    order = ("baseline_validation", "best_validation", "baseline_test", "best_test")
    last = ("average", *(f"{means[name]:.1f}" if name in means else "-" for name in order))
    rows = [(name, *map(score_cell, scores)) for name, *scores in columns]
    return markdown_table(("benchmark", "validation: base", "best", "sealed test: base", "best"), [*rows, last])


def guards_table(data: ReportData) -> str:
    """What the best model lost against the base model on every guard: measured, and at most with 95 % confidence."""
    found = data.best.feedback.guards if data.best else ()
    sealed = {check.benchmark: check for check in data.guards_test}
    header = ("guard", "may lose", "validation: lost", "at most", "n", "sealed test: lost", "at most", "n", "how")
    rows = [
        (c.benchmark, f"{c.allowed:g}", *_loss_cell(c), *_loss_cell(sealed.get(c.benchmark)), _guard_cell(c))
        for c in found
    ]
    none = [(str(guard), *("-" for _ in header[1:])) for guard in data.spec.guards]
    return markdown_table(header, rows or none)


def _loss_cell(check: GuardCheck | None) -> tuple[str, ...]:
    return (f"{check.loss:.1f}", f"{check.worst:.1f}", str(check.n)) if check else ("-", "-", "-")


def _guard_cell(check: GuardCheck) -> str:
    if check.able:
        return "shown to stay within"
    return f"by the measured loss: so few items can show {check.smallest:.1f} at best"


def spending_table(data: RunFacts) -> str:
    """Spent, limit and left; what is neither limited nor used is left out."""
    loops, done = data.loop_n, len(data.journal.experiments)
    rows: list[Sequence[object]] = [
        ("experiments", done, *((loops, max(0, loops - done)) if loops is not None else ("-", "-")))
    ]
    for line in spending_lines(data.spent, data.limits):
        if line.spent or line.limit is not None:
            amounts = (line.spent, line.limit, line.left)
            rows.append((line.kind, *("-" if n is None else format_amount(line.kind, n) for n in amounts)))
    rows.append(("disk", format_size(data.spent.disk), "-", "-"))
    return markdown_table(("", "spent", "limit", "left"), rows)


def models_table(data: RunFacts) -> str:
    """Who asked which model: requests, tokens, money, and whose price it is."""
    header = ("who", "model", "requests", "tokens in", "of them cached", "tokens out", "USD", "price")
    known = {"own": "TUNELOOP_API_PRICES", "list": f"list of {load_price_list().date}", "": "unknown"}
    rows = [
        (
            use.who, use.model, use.sums.requests, use.sums.tokens_in, use.sums.tokens_cached, use.sums.tokens_out,
            "unknown" if use.sums.cost is None else f"{use.sums.cost:.4f}", known[use.price],
        )
        for use in data.models
    ]  # fmt: skip
    return markdown_table(header, rows)


def calls_table(data: RunFacts) -> str:
    """Requests, tokens and cost of each job's requests to models, and of all."""
    rows = []
    for job, c in data.calls.items():
        cost = "unknown" if c.cost is None else f"{c.cost:.4f}"
        rows.append((job, c.requests, c.tokens_in, c.tokens_out, cost, c.cached, c.failed, c.refused))
    header = ("job", "requests", "tokens in", "tokens out", "cost", "from the cache", "failed", "refused")
    if len(rows) > 1:
        whole = [sum(getattr(c, name) for c in data.calls.values()) for name in ("requests", "tokens_in", "tokens_out")]
        costs = [c.cost for c in data.calls.values() if c.cost is not None]
        cost = f"{sum(costs):.4f}" if len(costs) == len(rows) else "unknown"
        rest = [sum(getattr(c, name) for c in data.calls.values()) for name in ("cached", "failed", "refused")]
        rows.append(("all", whole[0], whole[1], whole[2], cost, rest[0], rest[1], rest[2]))
    return markdown_table(header, rows)


def experiments_table(data: RunFacts) -> str:
    """Hypothesis, verdict, numbers."""
    best = data.best if data.spec.evaluated else None
    header = (
        "#",
        "outcome",
        "validation (95 %)",
        "gain, points (95 %)",
        "answers parsed",
        "rows",
        "time",
        "hypothesis",
    )
    return markdown_table(
        header, (_experiment(e, best is not None and best.number == e.number) for e in data.journal.experiments)
    )


def _experiment(e: Experiment, is_best: bool) -> tuple[object, ...]:
    comparison = e.feedback.comparison
    return (
        f"{e.number}{' ★' if is_best else ''}",
        e.outcome,
        score_cell(e.score),
        format_gain_cell(comparison.gain, comparison.low, comparison.high) if comparison else "-",
        f"{e.score.parsed:.0f} %" if e.score else "-",
        e.training.rows if e.training else "-",
        format_duration(e.seconds),
        e.hypothesis.statement,
    )


def trainings_table(data: ReportData) -> str:
    """Validation scores of the recipes that were trained with further seeds: each, mean and standard deviation."""
    rows = [
        (number, ", ".join(f"{value:.1f}" for value in values), f"{fmean(values):.1f}", f"{stdev(values):.1f}")
        for number, values in sorted(data.candidates.values.items())
        if len(values) > 1
    ]
    return markdown_table(("#", "validation, a seed each", "mean", "standard deviation"), rows) if rows else ""


def training_table(data: RunFacts) -> str:
    """What each training did."""
    header = ("#", "method", "rows", "steps", "loss, first to last", "time", "repairs")
    runs = [(e, e.training) for e in data.journal.experiments if e.training]
    return markdown_table(
        header,
        [
            (
                e.number,
                t.method if t.reward is None else f"{t.method}, GRPO",
                t.rows,
                t.steps if t.stopped is None else f"{t.steps} of {t.stopped.of}: {t.stopped.text}",
                t.course,
                format_duration(t.seconds),
                e.repairs,
            )
            for e, t in runs
        ],
    )


def forecasts_table(data: RunFacts) -> str:
    """What each smoke run said of its training, what the training took, and how far off that was."""
    header = ("#", "time: forecast, real", "CPU: forecast, real", "peak memory: forecast, real", "on the device")
    runs = [(e.number, t.forecast, t.spent) for e in data.journal.experiments if (t := e.training) and not t.stopped]
    return markdown_table(
        header,
        [
            (
                number,
                _forecast_cell(said.seconds, took.seconds, format_duration),
                _forecast_cell(said.cpu, took.cpu, format_duration),
                _forecast_cell(said.memory, took.memory, format_size),
                _forecast_cell(said.device_memory or 0, took.device_memory or 0, format_size)
                if took.device_memory
                else "-",
            )
            for number, said, took in runs
            if said and took
        ],
    )


def _forecast_cell(said: float, took: float, shown: Callable[[float], str]) -> str:
    error = forecast_error_percent(said, took)
    how = f"{abs(error):.0f} % too {'high' if error > 0 else 'low'}" if round(error) else "right"
    return f"{shown(said)}, was {shown(took)} ({how})"


def data_table(data: RunFacts) -> str:
    """What the data gate found on every record."""
    header = (
        *("#", "read", "kept", "dropped", "duplicates, exact / near", "format right"),
        *("tokens, median / 95 % / longest", "cut, of them in the answer", "scripts"),
    )
    return markdown_table(
        header,
        [
            (
                number,
                r.read,
                r.rows,
                ", ".join(f"{count} {why}" for why, count in r.dropped.items() if count) or "-",
                f"{r.exact_duplicates} / {r.near_duplicates}",
                f"{r.parsed:.0f} %" if data.spec.evaluated else "-",
                f"{r.lengths.p50} / {r.lengths.p95} / {r.lengths.longest}",
                f"{r.lengths.cut}, {r.lengths.unanswered}" if r.lengths.cut else "-",
                ", ".join(f"{name} {share:g} %" for name, share in r.scripts.items()) or "-",
            )
            for number, r in sorted(data.data.items())
        ],
    )


def time_by_node(data: RunFacts) -> str:
    """Where the time went: wall, jobs, the orchestrator's own CPU, turns cut short."""
    whole = total_time(data.times)
    rows = [_node(part, whole) for part in sorted(data.nodes, key=lambda part: -part.seconds)]
    return markdown_table(("node", "turns", "time", "share", "jobs", "CPU", "cut short"), [*rows, _node(whole, whole)])


def _node(part: NodeTime, whole: NodeTime) -> tuple[object, ...]:
    share = f"{100 * part.seconds / whole.seconds:.0f} %" if whole.seconds else "-"
    cut = f"{part.cut}, {format_duration(part.lost)}" if part.cut else "-"
    return (part.node, part.turns, format_duration(part.seconds), share, _jobs(part), f"{part.cpu:.1f} s", cut)


def _jobs(part: NodeTime) -> str:
    if not part.attempts:
        return "-"
    share = f" ({100 * part.jobs / part.seconds:.0f} %)" if part.seconds else ""
    return f"{format_duration(part.jobs)}{share}"


def time_by_experiment(data: RunFacts) -> str:
    """Time of each node in each experiment; of many experiments those that took longest."""
    nodes = [part.node for part in data.nodes]
    shown = longest_experiments(data.times, SHOWN)
    lines = [(n or "run", *_cells(parts, nodes)) for n, parts in shown.items()]
    left = times_by_experiment(part for part in data.times if part.experiment not in shown)
    rest = (
        [(f"{len(left)} others", *_cells([part for parts in left.values() for part in parts], nodes))] if left else []
    )
    return markdown_table(("#", *nodes, "all", "jobs", "CPU"), [*lines, *rest])


def _cells(parts: Sequence[NodeTime], nodes: Sequence[str]) -> list[str]:
    seconds = {name: total_time(part for part in parts if part.node == name).seconds for name in nodes}
    whole = total_time(parts)
    each = [format_duration(seconds[name]) if seconds[name] else "-" for name in nodes]
    return [*each, format_duration(whole.seconds), _jobs(whole), f"{whole.cpu:.1f} s"]
