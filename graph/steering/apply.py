"""Carry out a command: answer it, record a directive, take one back, decide what waits, remove weights."""

from __future__ import annotations

from dataclasses import dataclass

from tuneloop.core.commands import parse
from tuneloop.core.directive import (
    Command,
    Delete,
    Directive,
    Edit,
    Extend,
    Lasting,
    NewRun,
    Pause,
    Publish,
    Question,
    Reply,
    Resume,
    Revoke,
    describe,
)
from tuneloop.core.directive_log import append_row, read_conversation, read_directives
from tuneloop.core.experiment import NOT_EVALUATED, ApprovalDecision
from tuneloop.core.formatting import format_size
from tuneloop.core.run_lease import is_worked_on
from tuneloop.graph.approval.proposal import answered as answer_approval
from tuneloop.graph.context import Context
from tuneloop.graph.steering.replies import accepted, answer
from tuneloop.graph.steering.validation import canonical, objection, replaced
from tuneloop.tools.housekeeping.pruning import BY_USER, prune_experiment, read_note
from tuneloop.tools.runs.approvals import asked_at, open_question
from tuneloop.tools.runs.journal import load_journal, open_hypotheses, planned_from

NOTHING_WAITS = "Nothing waits for a yes or a no."


@dataclass(frozen=True)
class Outcome:
    """`refused`: nothing was changed. `offers`: texts of commands that a yes carries out. `pause`: the run must pause."""

    text: str
    refused: bool = False
    offers: tuple[str, ...] = ()
    pause: bool = False


def join(outcomes: list[Outcome]) -> Outcome:
    """Several outcomes of one message as one."""
    return Outcome(
        "\n".join(o.text for o in outcomes),
        bool(outcomes) and all(o.refused for o in outcomes),
        tuple(offer for o in outcomes for offer in o.offers),
        any(o.pause for o in outcomes),
    )


def carry_out(ctx: Context, message: str, text: str, command: Command, *, confirmed: bool = False) -> Outcome:  # noqa: PLR0911
    """Carry out one command. Done again for the same `message`, it changes nothing more."""
    match command:
        case Question():
            return _answer(ctx, command)
        case Revoke():
            return _revoke(ctx, message, command)
        case Reply():
            return _decide(ctx, message, command)
        case Delete():
            return _delete(ctx, command, confirmed)
        case Publish():
            return Outcome(
                f"A run publishes nothing. Its best model is in {ctx.run.best} when the run is over: upload it from there."
            )
        case NewRun():
            return Outcome(
                "A run cannot start another run; right is `tuneloop run`, or `run` in `tuneloop chat`.", refused=True
            )
        case Edit():
            return Outcome(
                f"`tuneloop chat {ctx.run.id}` opens an editor for `edit`; in Studio, edit the question itself.",
                refused=True,
            )
        case Pause() | Resume():
            return _pause_or_resume(ctx, command)
    return _add(ctx, message, text, command)


def _answer(ctx: Context, question: Question) -> Outcome:
    """The answer to a question; one about an experiment that is not over is refused."""
    if question.experiment is not None and question.experiment not in {
        e.number for e in load_journal(ctx.run).experiments
    }:
        return Outcome(f"Experiment {question.experiment} is not over, or there is none.", refused=True)
    return Outcome(answer(ctx, question))


def _pause_or_resume(ctx: Context, command: Pause | Resume) -> Outcome:
    if ctx.run.report_json.is_file():
        goes_on = f"`tuneloop fork {ctx.run.id} --at N` goes on from it"
        return Outcome(
            f"The run is over; {goes_on if ctx.run_tools.spec.evaluated else 'right is another run'}.", refused=True
        )
    if isinstance(command, Pause):
        return Outcome(f"The run pauses and keeps everything; `tuneloop resume {ctx.run.id}` goes on.", pause=True)
    working = is_worked_on(ctx.run.root)
    return Outcome("The run is at work." if working else f"`tuneloop resume {ctx.run.id}` goes on with it.")


def _add(ctx: Context, message: str, text: str, command: Lasting) -> Outcome:
    """Record a directive, once for each message; a newer one on the same parameter replaces the older."""
    command = canonical(ctx, command)
    given = read_directives(ctx.run.directives)
    found = next((d for d in given if d.message == message), None)
    if found is None:
        if reason := objection(ctx, command, given):
            return Outcome(f"Refused: {reason}. Nothing was changed.", refused=True)
        same = [d for d in given if d.state == "open" and d.command == command and not isinstance(command, Extend)]
        if same:
            return Outcome(f"Directive {same[0].id} says so already: {describe(command)}.")
        found = Directive(id=str(len(given) + 1), message=message, text=text, command=command)
        append_row(ctx.run.directives, found)
    over = replaced(found.command, [d for d in given if d.id != found.id])
    for directive in given:
        if directive.id in over:
            append_row(ctx.run.directives, directive.model_copy(update={"state": "revoked", "revoked_by": message}))
    replaces = f" It replaces directive {', '.join(over)}." if over else ""
    return Outcome(f"{accepted(ctx, found)}{replaces}")


def _revoke(ctx: Context, message: str, command: Revoke) -> Outcome:
    """Take directives back, once for each message."""
    known = read_directives(ctx.run.directives)
    found = [d for d in known if d.revoked_by == message] or [
        d for d in known if d.state == "open" and d.id in command.ids
    ]
    if not found:
        open_ids = ", ".join(d.id for d in known if d.state == "open") or "none"
        return Outcome(
            f"No open directive has the number {' or '.join(command.ids)}; open are: {open_ids}.", refused=True
        )
    for directive in found:
        append_row(ctx.run.directives, directive.model_copy(update={"state": "revoked", "revoked_by": message}))
    return Outcome("Revoked: " + "; ".join(f"{d.id} ({describe(d.command)})" for d in found) + ".")


def _decide(ctx: Context, message: str, reply: Reply) -> Outcome:
    """Yes or no to what was offered last, else to the plan or the launch that waits."""
    offers = open_offers(ctx, message)
    if offers and not reply.yes:
        return Outcome("Nothing was changed.")
    if offers:
        return join(
            [
                carry_out(ctx, f"{message}.{place}", text, parse(text), confirmed=True)
                for place, text in enumerate(offers)
            ]
        )
    asked = open_question(ctx.run)
    if asked is None:
        return Outcome(NOTHING_WAITS, refused=True)
    answer_approval(ctx, asked, ApprovalDecision(decision="yes" if reply.yes else "no", reason=reply.reason))
    if asked.at == "stop":
        return Outcome("The run finishes." if reply.yes else "The run goes on.")
    return Outcome(f"The {asked.at} of experiment {asked.experiment} is {'approved' if reply.yes else 'turned down'}.")


def open_offers(ctx: Context, message: str) -> tuple[str, ...]:
    """What the last answer before this message offered; () where a question of the run is newer.

    Only the last one counts, so that no yes is taken for another question.
    """
    last = None
    for line in read_conversation(ctx.run.conversation):
        if line.id == message:
            break
        last = line if line.answers else last
    if last is None or not last.offers:
        return ()
    newer = open_question(ctx.run) is not None and asked_at(ctx.run) > last.at.timestamp()
    return () if newer else last.offers


def _delete(ctx: Context, command: Delete, confirmed: bool) -> Outcome:
    """Remove the weights of experiments that are over; never those that the run stands on."""
    for number in command.experiments:
        if why := needed(ctx, number):
            return Outcome(f"Refused: {why}. Nothing was removed.", refused=True)
    if not confirmed:
        text = f"{describe(command).capitalize()}: this cannot be undone. Say yes to do it, no to leave it."
        return Outcome(text, offers=(f"delete {','.join(map(str, command.experiments))}",))
    return Outcome(" ".join(_delete_one(ctx, number) for number in command.experiments))


def needed(ctx: Context, number: int) -> str:
    """Why the weights of an experiment must stay, "" where they may go."""
    journal = load_journal(ctx.run)
    found = next((e for e in journal.experiments if e.number == number), None)
    if found is None:
        return f"experiment {number} is not over, or there is none"
    if found.outcome == NOT_EVALUATED and not ctx.run.report_json.is_file():  # no score makes it the best
        return f"the run delivers experiment {number}'s model, and is not over"
    if journal.best is not None and journal.best.number == number:
        return f"experiment {number} is the best so far, the run delivers its model"
    for child, idea in open_hypotheses(ctx.run).items():  # a GRPO begins with those weights
        if idea.parent == number:
            return f"experiment {child}, which is open, builds on experiment {number}"
    if number in planned_from(ctx.run, journal, ctx.run_tools.spec.window):
        return f"an experiment that comes next may build on experiment {number}, the best of those that its idea knows"
    return ""


def _delete_one(ctx: Context, number: int) -> str:
    folder = ctx.run.experiment(number)
    before = read_note(folder).bytes
    prune_experiment(folder, weights=True, raw=False, rule=BY_USER)
    note = read_note(folder)
    if not (note.weights and note.done):
        return f"A job of experiment {number} still works: nothing was removed; try again when it is over."
    return (
        f"Experiment {number}'s weights are removed ({format_size(note.bytes - before)}). Its recipe, scores and logs stay: "
        "later decisions rest on them."
    )
