"""`tuneloop push`: copy a run to object storage, verified; what is there is not sent again."""

from __future__ import annotations

import click

from tuneloop.cli.select_run import select_run
from tuneloop.cli.terminal import progress_bar
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.mirror import push_run, storage_of

EXAMPLES = """\b
Examples:
  tuneloop push                                     the newest run, to TUNELOOP_STORAGE
  tuneloop push my-run --storage s3://lab/tuneloop
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--storage", metavar="URL", help="s3://bucket/path, gs:// or file://.  [default: TUNELOOP_STORAGE]")
def command(run_id: str | None, storage: str | None) -> None:
    """Copy RUN (the newest) to object storage; of a run at work the experiments that are over.

    Not copied: items of the sealed test, scratch, checkpoints, the data sets and models that the run stands on.
    """
    settings = load_settings(storage=storage)
    run = select_run(settings.home, run_id)
    with progress_bar("push") as say:
        copy = push_run(run, settings.storage, say)
    click.echo(f"run {run.id} is in {storage_of(settings.storage, run.id).url}: {len(copy.files)} files")
