"""`report.md`: the result first, then how far it can be trusted, then how it came about."""

from __future__ import annotations

from tuneloop.core.experiment import Experiment
from tuneloop.core.score import Score
from tuneloop.core.wording import clean, duration, p
from tuneloop.tools.report import tables
from tuneloop.tools.report.data import ReportData, overlaps
from tuneloop.tools.report.timing import total

SHOWN = 5


def report(run_id: str, data: ReportData) -> str:
    """The whole page."""
    parts = [
        f"# {run_id}: {data.base_model} on {data.benchmark.name}",
        verdict(data),
        tables.result(data),
        *(["## All benchmarks", tables.benchmarks(data)] if data.also else []),
        "## How far to trust this",
        "\n".join(f"- {line}" for line in honesty(data)),
        "## Experiments",
        "![validation score per experiment](report/scores.png)",
        tables.experiments(data) if data.journal.experiments else "No experiment was finished.",
        *_losses(data),
        *(_lesson(e) for e in data.journal.experiments),
        *_data(data),
        "## Budget",
        _spent(data),
        *(_times(data) if data.times else []),
        *_calls(data),
        "## Made with",
        tables.table(("what", "version"), sorted(data.versions.items())),
        made_with(data),
    ]
    return "\n\n".join(parts) + "\n"


def verdict(data: ReportData) -> str:
    """The result in one sentence."""
    best, base, test = data.best, data.baseline_test, data.best_test
    if best is None:
        return "**No experiment was provably better than the base model; the base model stays.** `best/` is not made."
    if base is None or test is None:
        return (
            f"**Experiment {best.number} is better on validation; the sealed test was not read.** The model: `best/`."
        )
    proof = data.comparison_test
    proven = "better" if proof and proof.accepted else "not provably better"
    return (
        f"**Experiment {best.number} is {proven} than the base model on the sealed test: "
        f"{base.value:.1f} → {test.value:.1f} ({test.value - base.value:+.1f} points).** The model: `best/`."
    )


def honesty(data: ReportData) -> list[str]:
    """What a careful reader asks."""
    lines = [
        f"Code decides, by a paired test on the same items; p must be at most the candidate's share of 5 % (planned "
        f"experiments share alike; without a plan the n-th gets 1/(n(n+1)) of it). "
        f"Candidates measured on validation: {data.journal.scored}.",
        *_sealed(data),
        _reads(data.reads_of_test),
        f"An answer that cannot be parsed counts as wrong. Parsed on validation: base {_parsed(data.baseline_validation)}"
        f"{f', best {_parsed(data.best.score)}' if data.best else ''}"
        f"{f'; on the test: base {_parsed(data.baseline_test)}, best {_parsed(data.best_test)}' if data.best_test else ''}.",
        _contamination(data),
        *_left_out(data),
        "Greedy decoding; every candidate was trained and measured once. Intervals are 95 % Wilson intervals over items: "
        "they do not cover what another training seed would change.",
    ]
    if data.benchmark.direction == "min":
        lines.append("For this metric, lower is better.")
    return lines


def _reads(count: int) -> str:
    if count == 0:
        return "This test split has never been read before on this machine."
    return f"Runs on this machine have read this test split {count} times before: the more, the less it proves."


def _sealed(data: ReportData) -> list[str]:
    c = data.comparison_test
    if c is None:
        return ["The sealed test was not compared: there is no accepted experiment."]
    return [
        f"Sealed test: n = {c.n}, gain {c.gain:+.1f} points, p {_equals(p(c.p_value))}; only the best solves {c.wins} items, "
        f"only the base {c.losses}.",
        f"The smallest gain this test split could show is {c.smallest_gain:.1f} points.",
    ]


def _equals(number: str) -> str:
    return number if number.startswith("<") else f"= {number}"


def _parsed(score: Score | None) -> str:
    return f"{score.parsed:.0f} %" if score else "-"


def _contamination(data: ReportData) -> str:
    counts = [(number, overlaps(report)) for number, report in sorted(data.data.items())]
    found = [f"experiment {n}: {c['validation']} validation, {c['test']} test" for n, c in counts if any(c.values())]
    text = "; ".join(found) or "none"
    shown = "; ".join(f'"{clean(row, 100)}"' for row in data.leaked[:SHOWN])
    examples = f" For the test, among others: {shown}." if shown else ""
    return f"Training rows dropped because they overlap with a benchmark item: {text}.{examples}"


def _left_out(data: ReportData) -> list[str]:
    found = [(e.number, e.training.left_out) for e in data.journal.experiments if e.training and e.training.left_out]
    told = "; ".join(f"experiment {n}: {tables.plain(', '.join(names))}" for n, names in found)
    return [f"Foreign files that trainings left beside their models, and nobody took: {told}."] if found else []


def _losses(data: ReportData) -> list[str]:
    plot = ["![training loss](report/losses.png)"] if any(data.losses.values()) else []
    trainings = [e.training for e in data.journal.experiments if e.training]
    rehearsed = any(t.forecast and t.spent and not t.stopped for t in trainings)
    return [*plot, *([tables.training(data)] if trainings else []), *([tables.forecasts(data)] if rehearsed else [])]


def _lesson(e: Experiment) -> str:
    failure = f" It failed in {e.failure.node} ({e.failure.culprit}): {clean(e.failure.text, 600)}" if e.failure else ""
    critique = e.feedback.critique
    told = clean(f"{critique.explanation.rstrip('. ')}. Lesson: {critique.lesson or 'none'}", 2000)
    return f"**Experiment {e.number}, {e.hypothesis.aspect}.** {tables.plain(told)}{tables.plain(failure)}"


def _data(data: ReportData) -> list[str]:
    return ["## Data", tables.data_reports(data)] if data.data else []


def _spent(data: ReportData) -> str:
    loops = f" of {data.spec.loop_n}" if data.spec.loop_n else ""
    limit = f" of {duration(data.spec.timeout)}" if data.spec.timeout else ""
    return f"Experiments: {len(data.journal.experiments)}{loops}. Time: {duration(data.seconds)}{limit}."


def _times(data: ReportData) -> list[str]:
    whole = total(data.times)
    cut = (
        f" {whole.cut} turns of nodes were cut short by a pause or a crash; the {duration(whole.lost)} they took are not "
        "in the time above, and what their jobs did was taken over, not done again."
    )
    by_experiment = [tables.by_experiment(data)] if len({part.experiment for part in data.times}) > 1 else []
    return [
        "![time of each node in each experiment](report/times.png)",
        tables.by_node(data),
        *by_experiment,
        "Jobs are trainings, evaluations and scripts, in processes of their own: they go on while nobody watches, so their "
        f"time can exceed the node's. The orchestrator itself used {whole.cpu:.1f} CPU-s.{cut if whole.cut else ''}"
        f"{f' Answers taken from the cache of evaluations, not generated again: {whole.cached}.' if whole.cached else ''}",
    ]


def _calls(data: ReportData) -> list[str]:
    """What jobs asked of models, which costs money."""
    if not data.calls:
        return []
    text = (
        "Requests to models went through the proxy, which holds the key; `ledger.jsonl` has a line for each. Requests under "
        "way when the proxy was killed are counted with the tokens that were set aside for them."
    )
    return ["## Models asked by jobs", tables.calls(data), text]


def made_with(data: ReportData) -> str:
    """Seeds, sandbox, planner, and how to do it again."""
    seeds = ", ".join(f"{name} {value}" for name, value in sorted(data.seeds.items())) or "none"
    return f"Seeds: {seeds}. Sandbox: {data.sandbox}. Planner: {data.planner}. Again: `tuneloop run --again <run>`."
