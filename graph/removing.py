"""Delete what a user asked for and said yes to: weights of experiments that are over, never what the run stands on."""

from __future__ import annotations

import re

from tuneloop.core.wording import size
from tuneloop.graph.context import Context
from tuneloop.tools.pruning import WISHED, prune_experiment, read_note
from tuneloop.tools.runs.journal import load_journal

# The whole of what is named: "all but experiment 2" names another thing than "experiment 2".
NAMED = re.compile(
    r"(?:the )?(?:(?:model |trained )?(?:weights|models?|adapters?|checkpoints?)(?: (?:of|from) )?)?(?:the )?"
    r"experiments? (?:\d+(?:,? and |, ?| ))*\d+(?:'s)?(?: (?:weights|models?|adapters?|checkpoints?))?(?: from (?:the )?disk)?",
    re.IGNORECASE,
)


def numbers(what: str) -> tuple[int, ...]:
    """The experiments that are named; () where anything else is said besides."""
    return tuple(map(int, re.findall(r"\d+", what))) if NAMED.fullmatch(what.strip()) else ()


def needed(ctx: Context, what: str) -> str:
    """Why it may not go, in one sentence; "" where nothing speaks against it."""
    journal = load_journal(ctx.run)
    over = [e.number for e in journal.experiments]
    for number in numbers(what):
        if number not in over:
            return f"experiment {number} is not over" if number == ctx.state.experiment else f"no experiment {number}"
        if journal.best is not None and journal.best.number == number:
            return f"experiment {number} is the best so far, and its model is what the run will leave"
    return ""


def removed(ctx: Context, what: str) -> str:
    """Remove the weights, and say so; doing it again changes nothing. What only `tuneloop clean` removes is told how."""
    named = numbers(what)
    if not named:
        return (
            f"A run removes weights of its own experiments only: `tuneloop clean {ctx.run.id}` shows what else may go."
        )
    if why := needed(ctx, what):
        return f"Nothing was removed: {why}."
    return " ".join(_one(ctx, number) for number in named)


def _one(ctx: Context, number: int) -> str:
    folder = ctx.run.experiment(number)
    before = read_note(folder).bytes
    prune_experiment(folder, weights=True, raw=False, rule=WISHED)
    note = read_note(folder)
    if not (note.weights and note.done):
        return f"A job of experiment {number} still works: nothing was removed, ask again when it is over."
    return (
        f"Experiment {number}'s weights are removed ({size(note.bytes - before)}). Its recipe, scores and logs stay: "
        "what came later was judged by them."
    )
