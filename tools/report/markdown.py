"""`report_markdown.md`: the result first, then how far it can be trusted, then how it came about."""

from __future__ import annotations

from tuneloop.core.experiment import Experiment
from tuneloop.core.formatting import format_comparison, format_duration, format_equals, format_p_value, printable
from tuneloop.core.score import Claim
from tuneloop.tools.report import tables
from tuneloop.tools.report.caveats import caveat_lines
from tuneloop.tools.report.data import ReportData, RunFacts
from tuneloop.tools.report.timing import total_time
from tuneloop.tools.statistics.power import ALPHA

WARNING = 400  # letters of one


def report_markdown(run_id: str, data: ReportData) -> str:
    """The whole page."""
    parts = [
        f"# {run_id}: {data.base_model} on {data.benchmark.name}",
        verdict_line(data),
        tables.result_table(data),
        *(["## All benchmarks", tables.benchmarks_table(data)] if data.also else []),
        *_model_choice(data),
        "## How far to trust this",
        "\n".join(f"- {line}" for line in caveat_lines(data)),
        *(["## Not to be forgotten", tables.guards_table(data)] if data.spec.guards else []),
        "## Experiments",
        "![validation score per experiment](report/scores.png)",
        tables.experiments_table(data) if data.journal.experiments else "No experiment was finished.",
        *([found] if (found := tables.trainings_table(data)) else []),
        *course_parts(data),
    ]
    return "\n\n".join(parts) + "\n"


def course_parts(data: RunFacts) -> list[str]:
    """How it came about: trainings, lessons, data, warnings, and what it took."""
    return [
        *_losses(data),
        *(_lesson(e) for e in data.journal.experiments),
        *_data(data),
        *_warnings(data),
        "## Budget",
        tables.spending_table(data),
        *(_times(data) if data.times else []),
        *_calls(data),
        "## Made with",
        tables.markdown_table(("what", "version"), sorted(data.versions.items())),
        provenance(data),
    ]


def _model_choice(data: ReportData) -> list[str]:
    """Why this base model, where the user named none."""
    choice = data.model_choice
    if choice is None:
        return []
    asked = f"No base model was named; {choice.base_model} was chosen by {choice.chosen_by}: {printable(choice.reason, 2000)}."
    others = "\n".join(f"- {printable(one.line, WARNING)}" for one in choice.judged)
    return ["## Why this base model", asked, others]


def verdict_line(data: ReportData) -> str:
    """The result in one line of Markdown."""
    said, where = _claim_sentence(data)
    return f"**{said}**{where}"


def plain_verdict(data: ReportData) -> str:
    """The same without marks."""
    said, where = _claim_sentence(data)
    return f"{said}{where.replace('`', '')}"


def _claim_sentence(data: ReportData) -> tuple[str, str]:
    """What is claimed or not, and where the model is."""
    claim, test = data.claim, data.best_test
    if claim is None or test is None or data.candidates.chosen is None:
        said = "No experiment was promoted; the base model stays."
        return said, " No `best/` is made."
    who = tables.candidate_name(data.candidates.chosen)
    numbers = f"{data.baseline_test.value:.1f} → {test.value:.1f}, {format_comparison(claim)}."
    broken = "".join(
        f" {check.benchmark} lost {check.loss:.1f} points on its sealed test, allowed are {check.allowed:g}."
        for check in data.guards_test
        if check.loss > check.allowed
    )
    if claim.worse:
        said = f"No model is delivered: the sealed test measures {who} below the base model: {numbers}{broken}"
        return said, f" The candidate stays in `{tables.candidate_folder(data.candidates.chosen)}`."
    return f"{_rank_sentence(data, claim, who.capitalize(), numbers)}{broken}", " The model: `best/`."


def _rank_sentence(data: ReportData, claim: Claim, who: str, numbers: str) -> str:
    """What a delivered model is beside the base model."""
    if data.lineage_opened:
        return (
            f"{who} on the sealed test: {numbers} This was opening {data.opening} of this test. The run, or one that it stands "
            "on, had opened it before: nothing is claimed."
        )
    if claim.claimed:
        return f"{who} is better than the base model on the sealed test: {numbers}"
    return f"{who} on the sealed test: {numbers} {_no_claim_reason(claim)}"


def _no_claim_reason(claim: Claim) -> str:
    """Why a gain is not claimed."""
    if (claim.p_value <= ALPHA) != (claim.low > 0):
        return f"Test (p {format_equals(format_p_value(claim.p_value))}) and interval disagree: nothing is claimed."
    return f"With p {format_equals(format_p_value(claim.p_value))} this does not show that it is better than the base model."


def _losses(data: RunFacts) -> list[str]:
    plot = ["![training loss](report/losses.png)"] if any(data.losses.values()) else []
    trainings = [e.training for e in data.journal.experiments if e.training]
    smoke_steps = any(t.forecast and t.spent and not t.stopped for t in trainings)
    return [
        *plot,
        *([tables.training_table(data)] if trainings else []),
        *([tables.forecasts_table(data)] if smoke_steps else []),
    ]


def _lesson(e: Experiment) -> str:
    failure = (
        f" It failed in {e.failure.node} ({e.failure.culprit}): {printable(e.failure.text, 600)}" if e.failure else ""
    )
    critique, reasons = e.feedback.critique, e.feedback.reasons
    why = f" Not promoted: {'; '.join(reasons)}." if reasons else ""
    told = printable(f"{critique.explanation.rstrip('. ')}.{why} Lesson: {critique.lesson or 'none'}", 2000)
    return f"**Experiment {e.number}, {e.hypothesis.aspect}.** {tables.escape_markdown(told)}{tables.escape_markdown(failure)}"


def _data(data: RunFacts) -> list[str]:
    return ["## Data", tables.data_table(data)] if data.data else []


def _warnings(data: RunFacts) -> list[str]:
    """What stopped nothing, and is worth knowing."""
    lines = [f"- [{number}] {printable(text, WARNING)}" for number, found in data.warnings.items() for text in found]
    return ["## Warnings", "\n".join(lines)] if lines else []


def _times(data: RunFacts) -> list[str]:
    whole = total_time(data.times)
    cut = (
        f" {whole.cut} turns of nodes were cut short by a pause or a crash; the {format_duration(whole.lost)} they took are not "
        "in the time above, and what their jobs did was taken over, not done again."
    )
    by_experiment = [tables.time_by_experiment(data)] if len({part.experiment for part in data.times}) > 1 else []
    return [
        "![time of each node in each experiment](report/times.png)",
        tables.time_by_node(data),
        *by_experiment,
        "Jobs are trainings, evaluations and scripts, in processes of their own: they go on while nobody watches, so their "
        f"time can exceed the node's. The orchestrator itself used {whole.cpu:.1f} CPU-s.{cut if whole.cut else ''}"
        f"{f' Answers taken from the cache of evaluations, not generated again: {whole.cached}.' if whole.cached else ''}",
    ]


def _calls(data: RunFacts) -> list[str]:
    """What jobs and agents asked of models, which costs money."""
    if not data.calls:
        return []
    text = (
        "`ledger.jsonl` has a line for each request. Those of jobs went through the proxy, which holds the key; agents "
        "(`agent:…`) ask by themselves, and their calls stand in `experiments/*/answers/*.calls.jsonl`. Requests under way "
        "when somebody was killed are counted with the tokens that were set aside for them."
    )
    return ["## Models asked", *([tables.models_table(data)] if data.models else []), tables.calls_table(data), text]


def provenance(data: RunFacts) -> str:
    """Seeds, sandbox, planner, and how to do it again."""
    seeds = ", ".join(f"{name} {value}" for name, value in sorted(data.seeds.items())) or "none"
    return (
        f"Seeds: {seeds}. Sandbox: {data.sandbox}. Planner: {data.planner}{_answers(data)}. "
        "Again: `tuneloop run --repeat <run>`."
    )


def _answers(data: RunFacts) -> str:
    """Who decided, when more than one did or could have."""
    names = {"offline": "the offline policy, as no model answered", "": "nobody, as there was none that could be used"}
    said = (f"{count} of the answers by {names.get(by, by)}" for by, count in data.answers.items())
    return f" ({'; '.join(said)})" if data.answers else ""
