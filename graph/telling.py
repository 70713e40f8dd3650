"""Answers of a run to people: what a directive will do, and what is so."""

from __future__ import annotations

from tuneloop.core.directive import (
    Avoid,
    Bound,
    Directive,
    Focus,
    Keep,
    Question,
    Sources,
    Unclear,
    Use,
    Wish,
    dangerous,
)
from tuneloop.core.directive_log import read_directives
from tuneloop.core.directive_words import described
from tuneloop.core.experiment import Experiment, Hypothesis
from tuneloop.core.files import read_json
from tuneloop.core.ledger import amount, lines
from tuneloop.core.wording import duration, points
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.ledger.spent import spent
from tuneloop.tools.runs.journal import baseline, load_journal

EXAMPLES = (
    '"stop after this one", "try LoRA rank 32", "never raise the learning rate above 1e-4", "why did the last fail?", '
    '"use only the textbook source", "give it two more hours"'
)


def acknowledged(directive: Directive) -> str:
    """What becomes of it."""
    text = f"{directive.id}: {described(directive.wish)}"
    if directive.state == "pending" and not dangerous(directive.wish):
        return f"{text}. Is that what you want? Say yes to do it, no to leave it."
    if directive.state == "pending":
        return f"{text}. This cannot be taken back or costs money: say yes to do it, no to leave it."
    return f"{text}. Understood."


# Stages at which the open experiment's config is still to be checked.
BEFORE_RUNG_ONE = ("research", "engineer_data", "write_config")


def scope(ctx: Context, wish: Wish) -> str:
    """From when on it holds, and who cannot follow it."""
    if isinstance(wish, Focus) and ctx.planner.name == "offline":
        return " But the offline policy cannot follow ideas in words: it is kept for a chat model."
    late = ctx.folder.config.is_file() and not ctx.folder.result.is_file() and ctx.state.stage not in BEFORE_RUNG_ONE
    if late and isinstance(wish, Use | Bound | Keep | Avoid):
        return f" The recipe of experiment {ctx.state.experiment} is written already: it holds from the next one on."
    late = (ctx.folder.data / "report.json").is_file() and not ctx.folder.result.is_file()
    return (
        f" The data of experiment {ctx.state.experiment} are made already: it holds from the next one on."
        if late and isinstance(wish, Sources)
        else ""
    )


def publish(ctx: Context) -> str:
    """A run shows nothing to others: what would."""
    return f"A run publishes nothing: its best model lies in {ctx.run.best}, from where you can upload it."


def unclear(meaning: Unclear) -> str:
    """Nothing was changed, and what would be understood."""
    return f"I did not understand {meaning.text!r}, and changed nothing. What I understand: {EXAMPLES}."


def answered(ctx: Context, question: Question) -> str:  # noqa: PLR0911 - one line a question
    """The answer from the run's own files."""
    match question.about:
        case "directives":
            return directives(ctx)
        case "failure":
            return failure(ctx, question.experiment)
        case "help":
            return f"I understand, e.g., {EXAMPLES}."
        case "best":
            return best(ctx)
        case "budget":
            return left(ctx)
        case "plan":
            return plan(ctx)
        case _:
            return standing(ctx)


def directives(ctx: Context) -> str:
    """All of them as a table."""
    rows = [
        f"| {d.id} | {d.state} | {cell(described(d.wish))} | {cell(d.said)} |"
        for d in read_directives(ctx.run.directives)
    ]
    return "\n".join(("| # | state | wish | said |", "|---|---|---|---|", *rows)) if rows else "No directives."


def cell(text: str) -> str:
    """Text that breaks no table."""
    return " ".join(text.split()).replace("|", "/")[:120]


def failure(ctx: Context, number: int | None) -> str:
    """Why an experiment brought nothing: the newest that failed or was not promoted, when none is named."""
    done = load_journal(ctx.run).experiments
    found = [e for e in done if e.outcome != "promoted" and number in (None, e.number)]
    if not found:
        there = number is None or any(e.number == number for e in done)
        return (
            ("Nothing has failed." if number is None else f"Experiment {number} has not failed.")
            if there
            else f"There is no experiment {number} that is over."
        )
    last = found[-1]
    lesson = f" Lesson: {last.feedback.critique.lesson}" if last.feedback.critique.lesson else ""
    if last.failure is not None:
        why = " ".join(last.failure.text.split())[:400]
        return f"Experiment {last.number} failed in {last.failure.node} ({last.failure.culprit}): {why}.{lesson}"
    return f"Experiment {last.number} was measured and not promoted: {against(last)}.{trained(last)}{lesson}"


def against(e: Experiment) -> str:
    """What spoke against it, with its score."""
    score = f"{e.score.value:.1f} [{e.score.low:.1f}, {e.score.high:.1f}]" if e.score else "no score"
    return f"{score}; {'; '.join(e.feedback.reasons)}"


def trained(e: Experiment) -> str:
    """Its losses."""
    t = e.training
    return f" Training: {t.steps} steps, loss {t.first_loss:.3f} to {t.last_loss:.3f}." if t else ""


def best(ctx: Context) -> str:
    """The incumbent beside the base model."""
    found, base = load_journal(ctx.run).best, baseline(ctx.run)
    untouched = (
        f"the untouched model has {base.value:.1f} [{base.low:.1f}, {base.high:.1f}]"
        if base
        else "the untouched model is not measured yet"
    )
    if found is None or found.score is None:
        return f"No experiment was promoted so far; {untouched}."
    s, c = found.score, found.feedback.comparison
    gained = f", {points(c)} against the one before" if c else ""
    return (
        f"The best is experiment {found.number} with {s.value:.1f} [{s.low:.1f}, {s.high:.1f}] {s.metric}{gained}; "
        f"{untouched}. {found.hypothesis.statement}"
    )


def left(ctx: Context) -> str:
    """Time, experiments, and what else is limited or was spent."""
    done = load_journal(ctx.run).experiments
    seconds, limit = ctx.seconds_left(), experiments_limit(ctx.run, ctx.bench.spec)
    used = spent(ctx.run, ctx.state.spent)
    others = [line for line in lines(used, limits(ctx.run, ctx.bench.spec)) if line.kind != "time"]
    parts = ["no limit of time" if seconds is None else f"{duration(max(0.0, seconds))} of time"]
    parts += [
        "no limit of experiments"
        if limit is None
        else f"{max(0, limit - len(done))} of {limit} experiments, the open one included"
    ]
    parts += [amount(line.kind, line.left) for line in others if line.left is not None]
    used_up = [str(line) for line in others if line.spent]
    longest = max((e.seconds for e in done), default=0.0)
    last = f" The longest experiment took {duration(longest)}." if longest else ""
    unknown = f", without {', '.join(used.unpriced)}, whose price nobody knows" if used.unpriced else ""
    so_far = f" Spent: {', '.join(used_up)}{unknown}." if used_up else ""
    return f"Left: {', '.join(parts)}.{so_far}{last}"


def plan(ctx: Context) -> str:
    """The open idea, and what was asked for next."""
    file = ctx.folder.hypothesis
    asked = [
        described(d.wish) for d in read_directives(ctx.run.directives) if d.state == "open" and isinstance(d.wish, Use)
    ]
    wanted = f" Asked for next: {'; '.join(asked)}." if asked else ""
    if not file.is_file() or ctx.folder.result.is_file():
        return f"The next idea is not chosen yet.{wanted}"
    idea = Hypothesis.model_validate(read_json(file))
    return (
        f"Experiment {ctx.state.experiment}: {idea.statement} Because: {idea.reason[:300]}. What follows is "
        f"decided by its result.{wanted}"
    )


def standing(ctx: Context) -> str:
    """Where the run stands, in a few lines."""
    done = load_journal(ctx.run)
    open_ = ctx.state.experiment > len(done.experiments)
    now = f"experiment {ctx.state.experiment} is at {ctx.state.stage}" if open_ else f"it is at {ctx.state.stage}"
    lines = [f"Run {ctx.run.id}: {len(done.experiments)} experiments are over, {now}.", best(ctx), left(ctx)]
    return "\n".join(lines)
