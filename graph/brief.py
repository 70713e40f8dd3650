"""What agents are told, gathered from the run's folder: validation only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tuneloop.core.brief import Brief, Budget, Failures, JournalRow, Task
from tuneloop.core.constraints import is_allowed
from tuneloop.core.directive_log import open_directives
from tuneloop.core.experiment import Diagnosis, Experiment, Hypothesis, Training
from tuneloop.core.files import read_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.ledger import Amounts
from tuneloop.core.score import Decision, Score
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.steering.compliance import kept_values
from tuneloop.graph.warned import warnings
from tuneloop.mcp_servers.marking import plain
from tuneloop.tools.benchmarks.scorer import reads
from tuneloop.tools.data_view import source_commands
from tuneloop.tools.ledger.devices import count
from tuneloop.tools.ledger.spent import of_experiments
from tuneloop.tools.llm_proxy.access import data_access
from tuneloop.tools.runs.journal import baseline, load_journal, other_scores


def brief(
    ctx: Context,
    *,
    failure: str = "",
    blamed: str = "",
    score: Score | None = None,
    also: Mapping[str, Score] | None = None,
    decision: Decision | None = None,
    training: Training | None = None,
    failures: tuple[Failures, ...] = (),
) -> Brief:
    """The brief for the agent that answers next."""
    base = baseline(ctx.run)
    folder = ctx.folder
    idea = Hypothesis.model_validate(read_json(folder.hypothesis)) if folder.hypothesis.is_file() else None
    parent = parent_of(ctx, idea)
    return Brief(
        task=task(ctx),
        experiment=ctx.state.experiment,
        baseline=base and base.bare,
        journal=tuple(row(ctx.run, e) for e in load_journal(ctx.run).experiments),
        budget=budget(ctx),
        hypothesis=idea,
        attempt=ctx.state.attempt,
        diagnosis=last_diagnosis(ctx),
        failure="\n".join(map(plain, failure.splitlines())),
        blamed=blamed,
        warnings=tuple(map(plain, warnings(ctx.run, ctx.state.experiment))) if idea else (),
        script=tried(ctx, folder.script, failure),
        config=tried(ctx, folder.config, failure),
        parent_script=text(parent.script) if parent else "",
        parent_config=text(parent.config) if parent else "",
        failures=failures,
        score=score and score.bare,
        also=dict(also or {}),
        also_baseline=other_scores(ctx.run.baseline / "scores.json", [b.benchmark.name for b in ctx.bench.setup.also])
        if base
        else {},
        comparison=decision and decision.comparison,
        reasons=decision.reasons if decision else (),
        training=training,
        directives=tuple(d.command for d in open_directives(ctx.run.directives)),
        kept=kept_values(ctx),
    )


def parent_of(ctx: Context, idea: Hypothesis | None) -> ExperimentFolder | None:
    """The experiment that the idea builds on, where there is such a one."""
    number = (idea and idea.parent) or 0
    return ctx.run.experiment(number) if 0 < number < ctx.state.experiment else None


def task(ctx: Context) -> Task:
    """The task card."""
    setup, spec = ctx.bench.setup, ctx.bench.spec
    b, access = setup.benchmark, data_access(ctx.bench.settings)
    return Task(
        benchmark=b.name,
        domain=b.domain,
        description=b.description,
        answer=b.answer,
        final=b.final,
        reads=reads(b),
        prompt=b.prompt,
        metric=b.metric,
        direction=b.direction,
        max_new_tokens=b.max_new_tokens,
        base_model=setup.model_name,
        datasets=tuple(name for name in setup.datasets if is_allowed(source_commands(ctx.run), name))
        or tuple(setup.datasets),
        row_limit=spec.upper_data_size_limit,
        seed=spec.seed,
        device=setup.device,
        strong_models=access.strong if access else (),
        weak_models=access.weak if access else (),
        model_workers=access.workers if access else 0,
    )


def row(run: RunFolder, e: Experiment) -> JournalRow:
    """One earlier experiment as agents see it."""
    report = run.experiment(e.number).data / "report.json"
    comparison = e.feedback.comparison
    return JournalRow(
        number=e.number,
        outcome=e.outcome,
        hypothesis=e.hypothesis,
        rows=int(read_json(report)["rows"]) if report.is_file() else None,
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


def budget(ctx: Context) -> Budget:
    """What is left, the open experiment included."""
    journal = load_journal(ctx.run)
    loops = experiments_limit(ctx.run, ctx.bench.spec)
    done = [e for e in journal.experiments if e.score is not None]
    return Budget(
        experiments_left=None if loops is None else loops - len(journal.experiments),
        seconds_left=ctx.seconds_left(),
        seconds_per_experiment=max((e.seconds for e in done), default=None),
        training_seconds=max((e.training.seconds for e in done if e.training), default=None),
        **spending(ctx),
    )


def spending(ctx: Context) -> dict[str, Any]:
    """What is left of the other limits that the run has, and what an experiment takes; {} without one."""
    lines = {line.kind: line for line in ctx.limited() if line.kind != "time"}
    if not lines:
        return {}
    left = {kind: line.left for kind, line in lines.items()}
    took = list(of_experiments(ctx.run).values())
    tokens = left.get("tokens")
    return {
        "gpu_hours_left": left.get("GPU-hours") if ctx.bench.device != "cpu" else None,
        "gpus": count(),
        "tokens_left": None if tokens is None else int(tokens),
        "money_left": left.get("money"),
        "usual": usual(took) if took else None,
    }


def usual(took: Sequence[Amounts]) -> Amounts:
    """The median of each."""
    return Amounts(
        seconds=round(median(one.seconds for one in took), 1),
        gpu_hours=median(one.gpu_hours for one in took),
        tokens=round(median(one.tokens for one in took)),
        money=median(one.money for one in took),
    )


def tried(ctx: Context, file: Path, failure: str) -> str:
    """A file of the recipe that failed; "" while nothing has failed."""
    return text(file) if failure or ctx.state.attempt else ""


def text(file: Path) -> str:
    """Its content; "" where there is none."""
    return file.read_text() if file.is_file() else ""


def last_diagnosis(ctx: Context) -> Diagnosis | None:
    """What the validator said of the attempt before this one."""
    file = ctx.folder.answers / f"validator.{ctx.state.attempt - 1}.json"
    return Diagnosis.model_validate(read_json(file)) if file.is_file() else None
