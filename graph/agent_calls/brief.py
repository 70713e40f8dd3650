"""Failures of single validation items for who explains and plans: a few of each kind, short, quoted where they give orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from tuneloop.core.brief import (
    Brief,
    BudgetLeft,
    ExpectedMove,
    FailedItem,
    FailureSummary,
    IdeaUnderWay,
    JournalRow,
    TaskCard,
)
from tuneloop.core.budget import Amounts
from tuneloop.core.constraints import is_allowed
from tuneloop.core.directive_log import open_directives
from tuneloop.core.experiment import Diagnosis, Experiment, Hypothesis, Throughput, Training
from tuneloop.core.files import read_field, read_model, read_text
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.prompt_escaping import shorten_middle
from tuneloop.core.score import Decision, ItemResult, Score
from tuneloop.graph.budget.limits import devices, experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.warnings import collect_warnings
from tuneloop.graph.steering.compliance import kept_values
from tuneloop.mcp_servers.injection_marking import quote_suspicious
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.budget.spending import experiment_spending
from tuneloop.tools.data_script.data_view import dataset_files, source_commands
from tuneloop.tools.jobs.run_tools import split_sizes
from tuneloop.tools.llm_proxy.access import data_access
from tuneloop.tools.runs.journal import baseline_score, load_journal, other_scores, score_file, shown_score
from tuneloop.tools.scoring.failures import KINDS, MEANING, Kind, failure_kind
from tuneloop.tools.scoring.scorer import scorer_reads

FILES = 8  # of a data set that are named

# What agents are told, gathered from the run's folder: validation only.


def build_brief(
    ctx: Context,
    *,
    failure: str = "",
    blamed: str = "",
    score: Score | None = None,
    also: Mapping[str, Score] | None = None,
    decision: Decision | None = None,
    training: Training | None = None,
    failures: tuple[FailureSummary, ...] = (),
    ranked: tuple[ExpectedMove, ...] = (),
    stop_refused: str = "",
) -> Brief:
    """The brief for the agent that answers next."""
    base = baseline_score(ctx.run)
    folder = ctx.folder
    idea = read_model(folder.hypothesis, Hypothesis) if folder.hypothesis.is_file() else None
    parent = parent_experiment(ctx, idea)
    return Brief(
        task=task_card(ctx),
        experiment=ctx.state.experiment,
        baseline=base and base.bare,
        journal=tuple(journal_row(ctx.run, e) for e in ctx.journal.experiments),
        under_way=under_way(ctx),
        budget=budget_left(ctx),
        throughput=read_model(ctx.run.throughput, Throughput) if ctx.run.throughput.is_file() else None,
        hypothesis=idea,
        attempt=ctx.state.attempt,
        diagnosis=last_diagnosis(ctx),
        failure="\n".join(map(quote_suspicious, failure.splitlines())),
        blamed=blamed,
        warnings=tuple(map(quote_suspicious, collect_warnings(ctx.run, ctx.state.experiment))) if idea else (),
        script=failed_file(ctx, folder.script, failure),
        config=failed_file(ctx, folder.config, failure),
        parent_script=stored_text(parent.script) if parent else "",
        parent_config=stored_text(parent.config) if parent else "",
        failures=failures,
        ranked=ranked,
        score=score and score.bare,
        also=dict(also or {}),
        also_baseline=other_scores(
            ctx.run.baseline / "scores.json", [b.benchmark.name for b in ctx.run_tools.setup.also]
        )
        if base
        else {},
        comparison=decision and decision.comparison,
        reasons=decision.reasons if decision else (),
        training=training,
        directives=tuple(d.command for d in open_directives(ctx.run.directives)),
        stop_refused=stop_refused,
        kept=kept_values(ctx),
    )


def under_way(ctx: Context) -> tuple[IdeaUnderWay, ...]:
    """Ideas of experiments that began before this one and whose results do not count for it."""
    known = len(ctx.journal.experiments)
    earlier = (ctx.run.experiment(number) for number in range(known + 1, ctx.state.experiment))
    return tuple(
        IdeaUnderWay(number=known + place, hypothesis=read_model(folder.hypothesis, Hypothesis))
        for place, folder in enumerate(earlier, 1)
        if folder.hypothesis.is_file()
    )


def parent_experiment(ctx: Context, idea: Hypothesis | None) -> ExperimentFolder | None:
    """The experiment that the idea builds on, where there is such a one."""
    number = (idea and idea.parent) or 0
    return ctx.run.experiment(number) if 0 < number < ctx.state.experiment else None


def task_card(ctx: Context) -> TaskCard:
    """The task card."""
    setup, spec = ctx.run_tools.setup, ctx.run_tools.spec
    b, access = setup.benchmark, data_access(ctx.run_tools.settings)
    return TaskCard(
        benchmark=b.name,
        domain=b.domain,
        description=b.description,
        answer=b.answer,
        final=b.final,
        reads=scorer_reads(b),
        prompt=b.prompt,
        metric=b.metric,
        direction=b.direction,
        max_new_tokens=b.max_new_tokens,
        base_model=setup.model_name,
        datasets=tuple(name for name in setup.datasets if is_allowed(source_commands(ctx.run), name))
        or tuple(setup.datasets),
        sizes=split_sizes(ctx.run_tools),
        row_limit=spec.upper_data_size_limit,
        seed=spec.seed,
        device=setup.device,
        strong_models=access.strong if access else (),
        weak_models=access.weak if access else (),
        model_workers=access.workers if access else 0,
        on_stop=spec.on_stop,
        files=tuple(raw_files(ctx)),
        refuse_overlaps=spec.refuse_overlaps,
        evaluated=spec.evaluated,
    )


def raw_files(ctx: Context) -> Iterator[str]:
    """What a data script finds below DATASETS_DIR, the first files of each data set; a `…` says that there are more."""
    for place in sorted(ctx.run_tools.view.root.iterdir()):
        if place.is_file():
            yield place.name
            continue
        found = [name for name in dataset_files(place) if not name.startswith(".")]
        yield from (f"{place.name}/{name}" for name in found[:FILES])
        if len(found) > FILES:
            yield f"{place.name}/… ({len(found)} files)"


def journal_row(run: RunFolder, e: Experiment) -> JournalRow:
    """One earlier experiment as agents see it."""
    report = run.experiment(e.number).data / "report.json"
    comparison = e.feedback.comparison
    return JournalRow(
        number=e.number,
        outcome=e.outcome,
        hypothesis=e.hypothesis,
        rows=built_rows(report, report.stat().st_mtime_ns) if report.is_file() else None,
        training=e.training,
        value=e.score and e.score.value,
        low=e.score and e.score.low,
        high=e.score and e.score.high,
        parsed=e.score and e.score.parsed,
        also={name: score.value for name, score in e.also.items()},
        gain=comparison and comparison.gain,
        gain_low=comparison and comparison.low,
        gain_high=comparison and comparison.high,
        blame=e.feedback.critique.blame,
        lesson=e.feedback.critique.lesson,
        failure=e.failure and e.failure.text[:300],
    )


@lru_cache(maxsize=10_000)  # each agent of each experiment is told of all that are over
def built_rows(report: Path, written: int) -> int:  # noqa: ARG001 - another report is another file
    """How many rows the data gate left."""
    found: int = read_field(report, "rows", int)
    return found


def budget_left(ctx: Context) -> BudgetLeft:
    """What is left, the open experiment included."""
    journal, begun = ctx.journal, max(len(load_journal(ctx.run).experiments), ctx.state.experiment - 1)
    loops = experiments_limit(ctx.run, ctx.run_tools.spec)
    trained = [e.training.seconds for e in journal.experiments if e.score is not None and e.training]
    return BudgetLeft(
        experiments_left=None if loops is None else loops - begun,
        seconds_left=ctx.seconds_left(),
        seconds_per_experiment=journal.usual_seconds,
        training_seconds=median(trained) if trained else None,
        **spending_left(ctx),
    )


def spending_left(ctx: Context) -> dict[str, Any]:
    """What is left of the other limits that the run has, and what an experiment takes; {} without one."""
    lines = {line.kind: line for line in ctx.spent_of_limits() if line.kind != "time"}
    if not lines:
        return {}
    left = {kind: line.left for kind, line in lines.items()}
    took = list(experiment_spending(ctx.run).values())
    tokens = left.get("tokens")
    return {
        "gpu_hours_left": left.get("GPU-hours") if ctx.run_tools.device != "cpu" else None,
        "gpus": devices(ctx.run, ctx.run_tools.spec, ctx.run_tools.spec.parallel),
        "tokens_left": None if tokens is None else int(tokens),
        "money_left": left.get("money"),
        "usual": median_amounts(took) if took else None,
    }


def median_amounts(took: Sequence[Amounts]) -> Amounts:
    """The median of each."""
    return Amounts(
        seconds=round(median(one.seconds for one in took), 1),
        gpu_hours=median(one.gpu_hours for one in took),
        tokens=round(median(one.tokens for one in took)),
        money=median(one.money for one in took),
    )


def failed_file(ctx: Context, file: Path, failure: str) -> str:
    """A file of the recipe that failed; "" while nothing has failed."""
    return stored_text(file) if failure or ctx.state.attempt else ""


def stored_text(file: Path) -> str:
    """Its content; "" where there is none."""
    return read_text(file) if file.is_file() else ""


def last_diagnosis(ctx: Context) -> Diagnosis | None:
    """What the validator said of the attempt before this one."""
    file = ctx.folder.answers / f"validator.{ctx.state.attempt - 1}.json"
    return read_model(file, Diagnosis) if file.is_file() else None


ITEMS = 4
ASKED, RIGHT, SAID = 240, 80, 300  # letters


def journal_failures(ctx: Context) -> tuple[FailureSummary, ...]:
    """Of the best and of the last experiment that was measured; before any, of the untouched model."""
    journal = ctx.journal
    measured = [e.number for e in journal.experiments if e.score is not None]
    numbers = dict.fromkeys([*([journal.best.number] if journal.best else []), *measured[-1:]])
    if numbers:
        return tuple(score_failures(ctx, number, shown_score(score_file(ctx.run, number))) for number in numbers)
    base = baseline_score(ctx.run)
    return (score_failures(ctx, 0, base),) if base and base.items else ()


def score_failures(ctx: Context, experiment: int, score: Score) -> FailureSummary:
    """Counts of all failures on items that agents see, and the first of each kind, the commonest kinds first."""
    longest = ctx.run_tools.setup.benchmark.max_new_tokens
    failed = [(kind, item) for item in score.items if (kind := failure_kind(item, longest))]
    counts = Counter(kind for kind, _ in failed)
    some = [
        pair for kind, _ in counts.most_common() for pair in [p for p in failed if p[0] == kind][: _share(len(counts))]
    ]
    asked = _prompts_by_item(ctx)
    return FailureSummary(
        experiment=experiment,
        n=len(score.items),
        kinds={kind: (counts[kind], MEANING[kind]) for kind in KINDS if counts[kind]},
        items=tuple(_failed_item(kind, item, asked) for kind, item in some[:ITEMS]),
    )


def _share(kinds: int) -> int:
    return -(-ITEMS // max(1, kinds))


def _prompts_by_item(ctx: Context) -> dict[str, str]:
    """Item → what was asked."""
    first = ctx.run_tools.benchmark
    return {item.id: render_prompt(first.benchmark, item) for item in ctx.run_tools.validation(first).shown}


def _failed_item(kind: Kind, item: ItemResult, asked: dict[str, str]) -> FailedItem:
    """Whole texts are looked at for orders, then shortened."""
    question = asked.get(item.id) or asked.get(item.id.rpartition("~")[0], "")
    said = quote_suspicious({"asked": question, "right": item.answer, "said": item.prediction, "found": item.parsed})
    most = {"asked": ASKED, "right": RIGHT, "said": SAID, "found": RIGHT}
    return FailedItem(kind=kind, **{name: text and shorten_middle(text, most[name]) for name, text in said.items()})
