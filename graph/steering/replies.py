"""Answers to questions about a run, from its files, and confirmations of directives."""

from __future__ import annotations

from collections.abc import Callable

from tuneloop.core.budget import format_amount, spending_lines
from tuneloop.core.commands import table
from tuneloop.core.constraints import Constraint
from tuneloop.core.directive import Directive, Focus, Lasting, Question, Sources, Topic, Use, describe
from tuneloop.core.directive_log import open_directives, read_directives
from tuneloop.core.experiment import NOT_EVALUATED, Experiment, Forecast, Hypothesis, Journal
from tuneloop.core.files import read_field, read_model, read_text
from tuneloop.core.formatting import format_comparison, format_duration
from tuneloop.core.prompt_escaping import fence
from tuneloop.graph.budget.limits import experiments_limit, is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.budget.spending import run_spending
from tuneloop.tools.data_script.data_view import source_commands, source_names
from tuneloop.tools.runs.journal import baseline_score, load_journal, open_hypotheses
from tuneloop.tools.training.result import log_points

# Stages at which the open experiment's config is still to be checked.
BEFORE_CONFIG_CHECK = ("research", "engineer_data", "write_config")
SHOWN, CONFIG = 20, 6000  # sources in an answer; characters of a config


def accepted(ctx: Context, directive: Directive) -> str:
    """What the directive will do, and from when."""
    return f"Directive {directive.id}: {describe(directive.command)}.{scope(ctx, directive.command)}"


def scope(ctx: Context, command: Lasting) -> str:
    """When the command takes effect, and which planner cannot follow it."""
    text = ""
    if isinstance(command, Focus) and ctx.planner.name == "offline":
        text = " The offline policy cannot follow ideas in words: it is kept for a chat model."
    began = not ctx.folder.result.is_file()
    recipe = began and ctx.folder.config.is_file() and ctx.state.stage not in BEFORE_CONFIG_CHECK
    data = began and (ctx.folder.data / "report.json").is_file()
    late = (recipe and isinstance(command, Constraint)) or (data and isinstance(command, Sources))
    what = "recipe is" if isinstance(command, Constraint) else "data are"
    if late:
        text += f" The {what} made for experiment {ctx.state.experiment} already: it holds from the next one on."
    if isinstance(command, Constraint | Sources | Focus) and not _experiment_left(ctx, late):
        text += " No experiment is left for it: `more 1 experiments` adds one."
    return text


def _experiment_left(ctx: Context, late: bool) -> bool:
    """Whether an experiment can still follow the command; `late`: the open one cannot."""
    done, limit = len(load_journal(ctx.run).experiments), experiments_limit(ctx.run, ctx.run_tools.spec)
    if is_finish_requested(ctx.run):
        return not late and ctx.state.experiment > done and not ctx.folder.result.is_file()
    return limit is None or limit - done - late > 0


def answer(ctx: Context, question: Question) -> str:
    """The answer to a question."""
    if question.topic == "why":
        return why(ctx, question.experiment)
    return ANSWERS[question.topic](ctx)


def directives(ctx: Context) -> str:
    """All of them as a table."""
    rows = [
        f"| {d.id} | {d.state} | {cell(describe(d.command))} | {cell(d.text)} |"
        for d in read_directives(ctx.run.directives)
    ]
    return "\n".join(("| # | state | directive | message |", "|---|---|---|---|", *rows)) if rows else "No directives."


def cell(text: str) -> str:
    """Text that breaks no table."""
    return " ".join(text.split()).replace("|", "/")[:120]


def why(ctx: Context, number: int | None) -> str:
    """Why an experiment that is over brought nothing: the newest that failed or was not promoted, when none is named."""
    done = load_journal(ctx.run).experiments
    found = [e for e in done if e.outcome not in ("promoted", NOT_EVALUATED) and number in (None, e.number)]
    if not found:
        said = f"Experiment {number} was promoted." if ctx.run_tools.spec.evaluated else best(ctx)
        return "No experiment has failed." if number is None else said
    last = found[-1]
    lesson = f" Lesson: {last.feedback.critique.lesson}" if last.feedback.critique.lesson else ""
    if last.failure is not None:
        text = " ".join(last.failure.text.split())[:400]
        return f"Experiment {last.number} failed in {last.failure.node} ({last.failure.culprit}): {text}.{lesson}"
    score = f"{last.score.value:.1f} [{last.score.low:.1f}, {last.score.high:.1f}]" if last.score else "no score"
    reasons = "; ".join(last.feedback.reasons)
    return f"Experiment {last.number} was measured and not promoted: {score}; {reasons}.{_losses(last)}{lesson}"


def _losses(e: Experiment) -> str:
    t = e.training
    return f" Training: {t.steps} steps, {'' if t.reward else 'loss '}{t.course.replace(' →', ' to')}." if t else ""


def best(ctx: Context) -> str:
    """The incumbent compared with the base model."""
    if not ctx.run_tools.spec.evaluated:
        return "This run has no benchmark: nothing is evaluated, so that no model is better than another."
    found, base = load_journal(ctx.run).best, baseline_score(ctx.run)
    untouched = (
        f"the base model has {base.value:.1f} [{base.low:.1f}, {base.high:.1f}]"
        if base
        else "the base model is not measured yet"
    )
    if found is None or found.score is None:
        return f"No experiment was promoted so far; {untouched}."
    s, c = found.score, found.feedback.comparison
    gain = f", {format_comparison(c)} against the one before" if c else ""
    return (
        f"The best is experiment {found.number} with {s.value:.1f} [{s.low:.1f}, {s.high:.1f}] {s.metric}{gain}; "
        f"{untouched}. {found.hypothesis.statement}"
    )


def budget(ctx: Context) -> str:
    """Time, experiments, and what else is limited or was spent."""
    journal = load_journal(ctx.run)
    seconds, limit = ctx.seconds_left(), experiments_limit(ctx.run, ctx.run_tools.spec)
    used = run_spending(ctx.run, ctx.state.spent)
    others = [line for line in spending_lines(used, current_limits(ctx.run, ctx.run_tools.spec)) if line.kind != "time"]
    parts = ["no limit of time" if seconds is None else f"{format_duration(max(0.0, seconds))} of time"]
    parts += [
        "no limit of experiments"
        if limit is None
        else f"{max(0, limit - len(journal.experiments))} of {limit} experiments, the open one included"
    ]
    parts += [format_amount(line.kind, line.left) for line in others if line.left is not None]
    used_up = [str(line) for line in others if line.spent]
    unknown = f", without {', '.join(used.unpriced)}, whose price is unknown" if used.unpriced else ""
    so_far = f" Spent: {', '.join(used_up)}{unknown}." if used_up else ""
    return f"Left: {', '.join(parts)}.{so_far}{usual_time(journal)}"


def plan(ctx: Context) -> str:
    """The open idea, and what was asked for next."""
    file = ctx.folder.hypothesis
    uses = [describe(d.command) for d in open_directives(ctx.run.directives) if isinstance(d.command, Use)]
    asked = f" Asked for next: {'; '.join(uses)}." if uses else ""
    if not file.is_file() or ctx.folder.result.is_file():
        return f"The next idea is not chosen yet.{asked}"
    idea = read_model(file, Hypothesis)
    return f"Experiment {ctx.state.experiment}: {idea.statement} Because: {idea.reason[:300]}.{asked}"


def config(ctx: Context) -> str:
    """`train.yaml` of the open experiment, else of the best one."""
    incumbent = load_journal(ctx.run).best
    numbers = [ctx.state.experiment, *([incumbent.number] if incumbent else [])]
    for number in numbers:
        file = ctx.run.experiment(number).config
        if file.is_file():
            return f"train.yaml of experiment {number}:\n{fence('yaml', read_text(file)[:CONFIG])}"
    return "No train.yaml is written yet."


def loss(ctx: Context) -> str:
    """Losses of the training at work, else of the last one."""
    points_ = [p for p in log_points(ctx.folder.model) if "loss" in p]
    if points_ and not ctx.folder.result.is_file():
        first, last = points_[0], points_[-1]
        total = f" of {last['total_steps']}" if "total_steps" in last else ""
        return (
            f"Experiment {ctx.state.experiment} is at step {last['current_steps']}{total}: loss {first['loss']:.3f} to "
            f"{last['loss']:.3f}."
        )
    trained = [e for e in load_journal(ctx.run).experiments if e.training]
    return f"Experiment {trained[-1].number}:{_losses(trained[-1])}" if trained else "Nothing was trained yet."


def data(ctx: Context) -> str:
    """Raw data that may be read, and the rows of the newest experiment."""
    if not ctx.run.setup.is_file():
        return "The data are not fetched yet."
    names = source_names(ctx.run_tools.setup.datasets)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    ruled = "".join(f" Directive: {describe(command)}." for command in source_commands(ctx.run))
    rows = ""
    for number in (ctx.state.experiment, ctx.state.experiment - 1):
        file = ctx.run.experiment(number).data / "report.json" if number > 0 else None
        if file and file.is_file():
            rows = f" Experiment {number} has {read_field(file, 'rows', int)} training rows."
            break
    return f"Sources: {', '.join(names[:SHOWN])}{more}.{ruled}{rows}"


def time(ctx: Context) -> str:
    """Time spent and left, and the forecast of the open training."""
    left = ctx.seconds_left()
    file = ctx.folder.forecast
    expected = ""
    if file.is_file() and not ctx.folder.result.is_file():
        forecast = read_model(file, Forecast)
        expected = (
            f" The training of experiment {ctx.state.experiment} takes about {format_duration(forecast.seconds)}."
        )
    limit = "no limit" if left is None else f"{format_duration(max(0.0, left))} left"
    return f"Work so far: {format_duration(max(0.0, ctx.state.spent))}; {limit}.{usual_time(load_journal(ctx.run))}{expected}"


def usual_time(journal: Journal) -> str:
    """What an experiment takes, as a sentence; "" before the first was measured."""
    usual = journal.usual_seconds
    return "" if usual is None else f" An experiment usually takes {format_duration(usual)}."


def report(ctx: Context) -> str:
    """Where the report lies, and its first line."""
    if not ctx.run.report_json.is_file():
        return "There is no report yet: it is written when the run is over."
    text = read_text(ctx.run.report).splitlines()
    first = next((line for line in text if line and not line.startswith("#")), "")
    return f"{first} Report: {ctx.run.report}"


def status(ctx: Context) -> str:
    """Where the run stands, in a few lines."""
    done = load_journal(ctx.run)
    is_open = ctx.state.experiment > len(done.experiments)
    now = f"experiment {ctx.state.experiment} is at {ctx.state.stage}" if is_open else f"it is at {ctx.state.stage}"
    beside = [str(number) for number in sorted(open_hypotheses(ctx.run)) if number != ctx.state.experiment]
    others = f" Open beside it: {', '.join(beside)}." if ctx.slot and beside else ""
    return "\n".join((f"{len(done.experiments)} experiments are over, {now}.{others}", best(ctx), budget(ctx)))


ANSWERS: dict[Topic, Callable[[Context], str]] = {
    "status": status,
    "best": best,
    "budget": budget,
    "directives": directives,
    "plan": plan,
    "config": config,
    "loss": loss,
    "data": data,
    "time": time,
    "report": report,
    "help": lambda _: table(),
}
