"""`tuneloop data`: look at raw data before anything is trained on it."""

from __future__ import annotations

import click

from tuneloop.cli.data_check import check
from tuneloop.cli.data_inspect import inspect
from tuneloop.cli.data_overlap import overlap
from tuneloop.cli.main import ExampleGroup

EXAMPLES = """\b
Examples:
  tuneloop data inspect wordproblems
  tuneloop data inspect ./my_data --tokenizer ./my_model
  tuneloop data inspect rows.jsonl.gz --json
  tuneloop data overlap ./my_data --benchmark gsm8k,math
  tuneloop data overlap ./my_data --benchmark gsm8k --drop-overlaps --out clean.jsonl
  tuneloop data check data.json
  tuneloop data check data.json --benchmark gsm8k --model ./my_model
"""


@click.group(cls=ExampleGroup, epilog=EXAMPLES)
def command() -> None:
    """Look at raw data before anything is trained on it. Nothing is changed, run or sent anywhere."""


for part in (inspect, overlap, check):
    command.add_command(part)
