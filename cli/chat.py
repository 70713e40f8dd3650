"""`tuneloop chat`: talk with a run: ask, steer, approve; also while another process works on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from tuneloop.cli.conversing import Conversation
from tuneloop.cli.exchange import tell
from tuneloop.cli.main import fail
from tuneloop.cli.pick import pick
from tuneloop.core.directive import Line
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.core.wording import clean

EXAMPLES = """\b
Examples:
  tuneloop chat                                   the newest run; /help shows what can be said
  tuneloop chat my-run "why did the last fail?"
  tuneloop chat "stop after this one"
  echo "give it two more hours" | tuneloop chat my-run --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a JSON line: id, said, answer.")
@click.pass_context
def command(ctx: click.Context, run_id: str | None, text: str | None, as_json: bool) -> None:
    """Talk with RUN (the newest). With TEXT, or lines on standard input, say that, print the answers and end.

    Who works on the run answers within seconds; where nobody does, this command answers.
    """
    settings = load_settings()
    run, text = meant(settings.home, run_id, text)
    if text is not None or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        ctx.exit(say_all(run, settings, [text] if text is not None else sys.stdin, as_json))
    Conversation(run, settings).hold()


def meant(home: Home, first: str | None, text: str | None) -> tuple[RunFolder, str | None]:
    """The run and what to say to it; one argument that is no name is said to the newest run. Raises SetupError."""
    if first is not None and text is None and (" " in first.strip() or first.startswith("/")):
        return pick(home, None), first
    try:
        return pick(home, first), text
    except SetupError as e:
        if first is None or text is not None:
            raise
        raise SetupError(f"{e}; to say it to the newest run: tuneloop chat {pick(home, None).id} {first}") from e


def say_all(run: RunFolder, settings: Settings, lines: Iterable[str], as_json: bool) -> int:
    """Say each line and print its answer; 1 when somebody works on the run and did not answer one in time."""
    for said in filter(None, map(str.strip, lines)):
        answer = tell(run, settings, said, heard)
        if as_json:
            click.echo(json.dumps(spoken(said, answer)))
        elif answer is not None:
            click.echo("\n".join(clean(line, 2000) for line in answer.text.splitlines()))
        if answer is None:
            return fail(
                f"who works on run {run.id} has not answered yet; {said!r} lies in its inbox and is read next", 1
            )
    return 0


def heard(line: Line) -> None:
    """Said beside the answer, which follows."""
    click.echo(clean(line.text, 2000), err=True)


def spoken(said: str, answer: Line | None) -> dict[str, str | None]:
    """One exchange as plain values."""
    return {"id": answer.answers if answer else None, "said": said, "answer": answer.text if answer else None}
