"""`tuneloop chat`: send commands to a run and follow it, also while another process works on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from tuneloop.cli.main import print_error
from tuneloop.cli.select_run import select_run
from tuneloop.core.commands import find_command
from tuneloop.core.directive import Line
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import printable
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.steering.exchange import tell
from tuneloop.tools.runs.manifest import all_runs

EXAMPLES = """\b
Examples:
  tuneloop chat                                    the newest run; help lists the commands
  tuneloop chat my-run "why 3"
  tuneloop chat "limit num_train_epochs<=3"
  echo "more 2h" | tuneloop chat my-run --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("text", metavar="[COMMAND]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a JSON line: id, text, answer, refused.")
@click.pass_context
def command(ctx: click.Context, run_id: str | None, text: str | None, as_json: bool) -> None:
    """Steer RUN (the newest). With COMMAND, or lines on standard input, send that, print the answers and end.

    The process that works on the run answers within seconds; where none does, this command answers. Exit code 2: a
    command was refused and changed nothing.
    """
    from tuneloop.cli.chat_repl import Conversation  # brings catalogs and the graph: help needs neither

    settings = load_settings()
    interactive = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if interactive and run_id is None and not all_runs(settings.home):
        Conversation(None, settings).hold()
        return
    run, text = meant(settings.home, run_id, text)
    if text is not None or not interactive:
        ctx.exit(say_all(run, settings, [text] if text is not None else sys.stdin, as_json))
    Conversation(run, settings).hold()


def meant(home: Home, first: str | None, text: str | None) -> tuple[RunFolder, str | None]:
    """The run and the message; one argument that is no run's name is sent to the newest run. Raises InvalidRequestError."""
    if first is not None and text is None and (" " in first.strip() or first.startswith("/")):
        return select_run(home, None), first
    try:
        return select_run(home, first), text
    except InvalidRequestError as e:
        if first is None or text is not None:
            raise
        if find_command(first) is not None:
            return select_run(home, None), first
        raise InvalidRequestError(
            f"{e}; to send it to the newest run: tuneloop chat {select_run(home, None).id} {first}"
        ) from e


def say_all(run: RunFolder, settings: Settings, lines: Iterable[str], as_json: bool) -> int:
    """Send each line and print its answer; 2 when one was refused, 1 when one was not answered in time."""
    code = 0
    for text in filter(None, map(str.strip, lines)):
        answer = tell(run, settings, text, show_acknowledgement)
        if as_json:
            click.echo(json.dumps(exchange(text, answer)))
        elif answer is not None:
            click.echo("\n".join(printable(line, 2000) for line in answer.text.splitlines()), err=answer.refused)
        if answer is None:
            return print_error(f"run {run.id} has not answered yet; {text!r} is in its inbox and is read next", 1)
        code = 2 if answer.refused else code
    return code


def show_acknowledgement(line: Line) -> None:
    """Beside the answer, which follows."""
    click.echo(printable(line.text, 2000), err=True)


def exchange(text: str, answer: Line | None) -> dict[str, str | bool | None]:
    """One message and its answer as plain values."""
    return {
        "id": answer.answers if answer else None,
        "text": text,
        "answer": answer.text if answer else None,
        "refused": answer.refused if answer else None,
    }
