"""`.env.example` from the settings' own declarations: `python -m tuneloop.cli.env_example > .env.example`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from tuneloop.core.settings import PROCESS_ONLY, Settings

HEAD = """\
# Copy to .env in the folder where you call tuneloop and uncomment what you need.
# Options of the command line win over the environment, the environment wins over this file.
"""


def env_example() -> str:
    """Every setting on one line: commented out, with its default."""
    lines = []
    for field in Settings.model_fields.values():
        if field.alias in PROCESS_ONLY:
            continue
        assignment = f"# {field.alias}={default_text(field.default)}"
        lines.append(f"{assignment:<52} # {field.description}")
    return HEAD + "\n".join(lines) + "\n"


def default_text(value: Any) -> str:
    """A default as one writes it in the file."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, Path | str):
        return str(value)
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


if __name__ == "__main__":
    click.echo(env_example(), nl=False)
