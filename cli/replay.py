"""`tuneloop replay`: make a run's decisions again from its transcripts, without a provider."""

from __future__ import annotations

import click

from tuneloop.cli.pick import pick
from tuneloop.cli.transcripts import markdown
from tuneloop.core.errors import SetupError
from tuneloop.core.model_call import ENDING, experiment_of, read_transcript, transcripts
from tuneloop.core.settings import load_settings
from tuneloop.core.wording import clean

EXAMPLES = """\b
Examples:
  tuneloop replay
  tuneloop replay --show --experiment 2 > talk.md
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--show", is_flag=True, help="Print what was said, as Markdown, and make nothing again.")
@click.option("--experiment", type=click.IntRange(1), help="Only this one.")
@click.pass_context
def command(ctx: click.Context, run_id: str | None, show: bool, experiment: int | None) -> None:
    """Repeat what the chat models of RUN (the newest) decided, from the recorded calls; exit code 1: an answer differs."""
    from tuneloop.graph.replay import replay

    settings = load_settings()
    run = pick(settings.home, run_id)
    files = [path for path in transcripts(run) if experiment in (None, experiment_of(path))]
    if not files:
        raise SetupError(f"run {run.id} has no transcript: the offline policy decides by itself, and asks nobody")
    if show:
        for path in files:
            click.echo(markdown(path.name.removesuffix(ENDING), experiment_of(path), read_transcript(path)))
        return
    differ = 0
    for found in replay(run, settings):
        if not experiment or found.experiment == experiment:
            differ += found.verdict == "differs"
            says = f": {clean(found.says, 400)}" if found.says else ""
            click.echo(f"experiment {found.experiment}, {found.agent}, attempt {found.attempt}: {found.verdict}{says}")
    ctx.exit(1 if differ else 0)
