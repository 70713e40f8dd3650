"""`tuneloop pull`: bring a run from object storage, to look at it or to go on with it here."""

from __future__ import annotations

import os

import click

from tuneloop.cli.resume import places_of, say_trusted
from tuneloop.cli.terminal import progress_bar
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.runs.mirror import pull_run
from tuneloop.tools.runs.signature import is_signed

EXAMPLES = """\b
Examples:
  tuneloop pull my-run                  to look at it: report, status, watch
  tuneloop pull my-run --trust-folder   to go on with it: resume, chat, fork
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="RUN")
@click.option("--storage", metavar="URL", help="s3://bucket/path, gs:// or file://.  [default: TUNELOOP_STORAGE]")
@click.option(
    "--trust-folder",
    is_flag=True,
    help="Fetch the model, data and benchmark that it stands on, and sign it: it can be resumed and forked here.",
)
def command(run_id: str, storage: str | None, trust_folder: bool) -> None:
    """Bring RUN back, verified by SHA-256, whole or not at all; what was cut off is continued."""
    settings = load_settings(storage=storage)
    run = settings.home.run(run_id)
    with progress_bar("pull") as say:
        if not (trust_folder and waits_for_trust(run)):
            run = pull_run(settings.home, run_id, settings.storage, say)
    if trust_folder:
        from tuneloop.graph.lifecycle.adopt import adopt_run  # brings the graph: a refusal does not wait for it

        with hold_lock(run.lock):
            adopt_run(run, settings)
        say_trusted(run)
        click.echo(f"run {run.id} is in {run.root}; to go on: tuneloop resume {run.id}")
    else:
        click.echo(
            f"run {run.id} is in {run.root}, to be looked at; to go on with it: tuneloop pull {run.id} --trust-folder"
        )


def waits_for_trust(run: RunFolder) -> bool:
    """Whether it was brought to be looked at, or a kill ended the signing before what it stands on was fetched."""
    return run.spec.is_file() and not (is_signed(run) and all(map(os.path.exists, places_of(run))))
