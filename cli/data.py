"""`tuneloop data`: look at raw data before anything is trained on it."""

from __future__ import annotations

import click

from tuneloop.cli.data_inspect import inspect

EXAMPLES = """\b
Examples:
  tuneloop data inspect wordproblems
  tuneloop data inspect ./my_data --tokenizer ./my_model
  tuneloop data inspect rows.jsonl.gz --json
"""


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Look at raw data before anything is trained on it. Nothing is changed, run or sent anywhere."""


command.add_command(inspect)
