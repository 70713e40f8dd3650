"""`tuneloop fork`: branch off from any experiment of a run, with a first command for the new one."""

from __future__ import annotations

import math

import click
from pydantic import TypeAdapter, ValidationError

from tuneloop.cli.select_run import select_run
from tuneloop.core.commands import parse
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import Seconds
from tuneloop.core.settings import allow_unsandboxed as allow
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.fork import fork_run, send_first_message

EXAMPLES = """\b
Examples:
  tuneloop fork my-run --at 3 "use lora_rank=32"
  tuneloop fork my-run --at 1 --loop-n 2 --timeout 4h
  tuneloop fork my-finished-run --at 6 --after-test --loop-n 4
"""
SECONDS: TypeAdapter[float | None] = TypeAdapter(Seconds)


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="RUN")
@click.argument("text", metavar="[COMMAND]", required=False)
@click.option(
    "--at", type=click.IntRange(min=0), required=True, help="The last experiment it stands on; 0: the base model."
)
@click.option("--loop-n", type=click.IntRange(min=1), help="Experiments from there on.  [default: as RUN was given]")
@click.option(
    "--timeout", metavar="TIME", help="Time from there on: seconds, 90m, 12h or unlimited.  [default: as RUN was given]"
)
@click.option(
    "--after-test",
    is_flag=True,
    help="Go on with a run that has opened its sealed test; the new run's report claims nothing.",
)
@click.option("--run-id", "name", help="Name of the new run.  [default: RUN-at-N]")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--allow-unsandboxed", is_flag=True, help="Run generated code unprotected where no sandbox works.")
@click.pass_context
def command(
    ctx: click.Context,
    run_id: str,
    text: str | None,
    at: int,
    loop_n: int | None,
    timeout: str | None,
    name: str | None,
    after_test: bool,
    as_json: bool,
    allow_unsandboxed: bool,
) -> None:
    """Start a new run from experiment N of RUN; COMMAND is the first message to it.

    It has RUN's setup, baseline and experiments 1 to N; large files are shared, removing either run hurts the other not.
    The report says what it was forked from. A finished RUN has opened its sealed test: that needs --after-test.
    """
    if allow_unsandboxed:
        allow(always=False)
    settings = load_settings()
    if text and not settings.chat_model:
        parse(text)  # a wrong command is refused before anything is copied
    parent = select_run(settings.home, run_id)
    run = fork_run(settings.home, parent, at, name, loop_n=loop_n, timeout=parse_time(timeout), after_test=after_test)
    if text:
        send_first_message(run, text)
    click.echo(f"run {run.id} in {run.root}, forked from {parent.id} after experiment {at}", err=True)
    from tuneloop.cli.drive import drive_in_terminal  # brings the graph: a refusal does not wait for it

    ctx.exit(drive_in_terminal(run, settings, step_n=None, as_json=as_json))


def parse_time(text: str | None) -> float | None:
    """Seconds, `inf` for no limit, None where nothing is given. Raises InvalidRequestError."""
    if text is None:
        return None
    try:
        return SECONDS.validate_python(text) or math.inf
    except ValidationError as e:
        raise InvalidRequestError(f"--timeout {text!r}: {e.errors()[0]['msg'].removeprefix('Value error, ')}") from e
