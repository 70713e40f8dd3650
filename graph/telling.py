"""Answers of a run to people: what a directive will do, and what is so."""

from __future__ import annotations

from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Delete,
    Directive,
    Extend,
    Finish,
    Focus,
    Keep,
    Pause,
    Publish,
    Question,
    Sources,
    Unclear,
    Use,
    Wish,
)
from tuneloop.core.directive_log import read_directives
from tuneloop.graph.budget import seconds_limit
from tuneloop.graph.context import Context
from tuneloop.tools.runs.journal import load_journal

EXAMPLES = (
    '"stop after this one", "try LoRA rank 32", "never raise the learning rate above 1e-4", "why did the last fail?", '
    '"use only the textbook source", "give it two more hours"'
)


def described(wish: Wish) -> str:  # noqa: PLR0911 - one line a wish
    """A wish in one line."""
    match wish:
        case Use(parameter=p, value=v, always=always):
            return f"{p} = {v} in {'every experiment from now on' if always else 'the next experiment'}"
        case Bound(parameter=p, at_most=high, at_least=low):
            ends = [f"at most {high:g}" if high is not None else "", f"at least {low:g}" if low is not None else ""]
            return f"{p} {' and '.join(filter(None, ends))}"
        case Keep(parameter=p):
            return f"{p} stays as it is"
        case Avoid(parameter=p, value=v):
            return f"{p} is never {v}"
        case Sources(only=only, never=never):
            both = (f"only {', '.join(only)}" if only else "", f"never {', '.join(never)}" if never else "")
            return "data: " + " and ".join(filter(None, both))
        case Focus(text=text):
            return f"idea: {text}"
        case Extend():
            return extended(wish)
        case Finish():
            return "finish after the open experiment"
        case Pause():
            return "pause"
        case Approve(at=at):
            return "no approval is asked for" if at == "none" else f"ask before each {at}"
        case Delete(what=what):
            return f"delete {what}"
        case Publish(to=to):
            return f"publish to {to}"


def extended(wish: Extend) -> str:
    """How much more."""
    parts = (
        (wish.seconds / 3600, "hours"),
        (wish.experiments, "experiments"),
        (wish.tokens, "tokens"),
        (wish.money, "of money"),
    )
    return ", ".join(f"{amount:+g} {unit}" for amount, unit in parts if amount)


def acknowledged(directive: Directive) -> str:
    """What becomes of it."""
    text = f"{directive.id}: {described(directive.wish)}"
    if directive.state == "pending":
        return f"{text}. This cannot be taken back or costs money: say yes to do it, no to leave it."
    return f"{text}. Understood."


def unclear(meaning: Unclear) -> str:
    """Nothing was changed, and what would be understood."""
    return f"I did not understand {meaning.text!r}, and changed nothing. What I understand: {EXAMPLES}."


def answered(ctx: Context, question: Question) -> str:
    """The answer from the run's own files."""
    match question.about:
        case "directives":
            lines = [f"{d.id} {d.state}: {described(d.wish)}" for d in read_directives(ctx.run.directives)]
            return "\n".join(lines) or "No directives."
        case "failure":
            return failure(ctx, question.experiment)
        case "help":
            return f"I understand, e.g., {EXAMPLES}."
        case _:
            return standing(ctx)


def failure(ctx: Context, number: int | None) -> str:
    """Why an experiment failed: the newest that did, when none is named."""
    done = load_journal(ctx.run).experiments
    found = [e for e in done if e.failure and number in (None, e.number)]
    if not found:
        return "No experiment has failed." if number is None else f"Experiment {number} has not failed."
    last = found[-1]
    assert last.failure is not None
    return f"Experiment {last.number} failed in {last.failure.node}: {last.failure.text}"


def standing(ctx: Context) -> str:
    """Where the run stands, in a few lines."""
    done = load_journal(ctx.run)
    best, limit = done.best, seconds_limit(ctx.run, ctx.bench.spec)
    lines = [f"Run {ctx.run.id}: {len(done.experiments)} experiments are over."]
    if best is not None and best.score is not None:
        lines.append(f"The best is experiment {best.number} with {best.score.value:.1f}: {best.hypothesis.statement}")
    if limit is not None:
        lines.append(f"{max(0.0, limit - ctx.state.spent) / 60:.0f} minutes are left.")
    return "\n".join(lines)
