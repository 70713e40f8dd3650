"""Wishes in words: for those who gave them and for agents."""

from __future__ import annotations

from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Delete,
    Extend,
    Finish,
    Focus,
    Keep,
    Pause,
    Publish,
    Sources,
    Use,
    Wish,
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
        (wish.gpu_hours, "GPU-hours"),
        (wish.experiments, "experiments"),
        (wish.tokens, "tokens"),
        (wish.money, "USD"),
    )
    return ", ".join(f"{amount:+g} {unit}" for amount, unit in parts if amount)
