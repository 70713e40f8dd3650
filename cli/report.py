"""`tuneloop report`: the result of a finished run."""

from __future__ import annotations

import sys

import click
from rich.markdown import Markdown

from tuneloop.cli.select_run import is_finished, select_run
from tuneloop.cli.terminal import PlainConsole
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_text
from tuneloop.core.formatting import plain_lines
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.manifest import all_runs, read_spec

EXAMPLES = """\b
Examples:
  tuneloop report
  tuneloop report --json | jq .best.test.value
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print report.json.")
@click.option("--open", "in_viewer", is_flag=True, help="Open report.md with the program this desktop uses for it.")
def command(run_id: str | None, as_json: bool, in_viewer: bool) -> None:
    """Print the report of RUN (the newest that is finished), with the sealed test's verdict. Keys: docs/report.md."""
    run = select_reported(load_settings().home, run_id)
    if not is_finished(run):
        raise InvalidRequestError(f"run {run.id} has no report yet; see: tuneloop status {run.id}")
    if in_viewer and click.launch(str(run.report)) != 0:
        raise InvalidRequestError(f"no viewer opened {run.report}; it is plain Markdown")
    if in_viewer:
        return
    text = plain_lines(read_text(run.report_json if as_json else run.report))
    if sys.stdout.isatty() and not as_json:
        PlainConsole().print(Markdown(text))
    click.echo(f"({run.report})" if sys.stdout.isatty() and not as_json else text)


def select_reported(home: Home, name: str | None) -> RunFolder:
    """The run that is named, else the newest that is finished, said when a newer one is not; else the newest."""
    newest = select_run(home, name)
    if name is not None or is_finished(newest):
        return newest
    found = next((run for run in all_runs(home) if is_finished(run)), None)
    if found is None:
        return newest
    read_spec(found)
    click.echo(f"note: run {newest.id} has no report yet; this is the report of {found.id}", err=True)
    return found
