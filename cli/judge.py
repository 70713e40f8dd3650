"""`tuneloop judge`: how far the language model that judges answers agrees with people."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import click

from tuneloop.cli.main import ExampleGroup
from tuneloop.cli.terminal import progress_bar
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.spec import sandbox

EXAMPLES = """\b
Example:
  FT_JUDGE_MODEL=gpt-5-mini FT_JUDGE_API_KEY=sk-... tuneloop judge check labelled.jsonl

\b
Each line of the file: question, answer (the reference), reply, correct (true or false: what a person says).
"""


@click.group(cls=ExampleGroup, epilog=EXAMPLES)
def command() -> None:
    """Look at the judge that FT_JUDGE_MODEL names."""


@command.command(epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path, as_json: bool) -> None:
    """Ask the judge about labelled replies and print how far it agrees: share and Cohen's kappa, 95 % intervals."""
    from tuneloop.tools.evaluation.standalone.judge_agreement import (
        judge_labelled,  # engines are heavy, and help needs none
    )

    settings = load_settings()
    with progress_bar(file.name) as say:
        found, model = judge_labelled(file, settings, say, cast(SandboxKind, sandbox(settings.env_type)))
    facts: dict[str, Any] = {"judge": model, **asdict(found)}
    if as_json:
        click.echo(json.dumps({name: None if value != value else value for name, value in facts.items()}, indent=1))  # noqa: PLR0124 - nan
        return
    click.echo(f"{model} on {found.n} labelled replies")
    click.echo(f"agrees on {found.share:.1f} % ({found.low:.0f}-{found.high:.0f})")
    click.echo(f"kappa {found.kappa:.2f} ({found.kappa_low:.2f} to {found.kappa_high:.2f})")
    click.echo(f"called right what is wrong: {found.false_correct}; wrong what is right: {found.false_incorrect}")
    click.echo(f"gave no verdict that can be read: {found.unknown} (counted as wrong)")
