"""Parameters as rows for people and as plain values for scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from tuneloop.core.errors import SetupError
from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.formatting import plain_default, usual
from tuneloop.tools.params.names import closest, parameter_named


def named(name: str, catalog: Catalog) -> Parameter:
    """The parameter of that name or alias. Raises SetupError with the closest one."""
    if known := parameter_named(name, catalog):
        return catalog.parameters[known]
    close = closest(name, catalog)
    hint = f"did you mean {close}?" if close else f"search with: tuneloop params ask {name}"
    raise SetupError(f"no parameter {name!r}: {hint}")


def shown_all(p: Parameter) -> dict[str, Any]:
    """Everything of one parameter."""
    plain = {"name": p.name, "class": p.owner, "type": p.type, "default": p.default, "choices": list(p.choices)}
    return {**plain, "usual": usual(p), "settable": p.settable, "help": p.help, "source": p.source}


def table_of(parameters: Iterable[Parameter]) -> Table:
    """Name, type, default, class."""
    table = Table("parameter", "type", "default", "class", box=None, padding=(0, 2, 0, 0))
    for p in parameters:
        table.add_row(p.name, p.type.replace("[", r"\["), plain_default(p), p.owner)
    return table
