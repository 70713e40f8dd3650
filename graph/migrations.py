"""State that an older tuneloop stored: brought to this version, step by step, on plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuneloop.graph.state import VERSION, State

Values = dict[str, Any]

AUTHORS = {"script": "engineer_data", "data": "engineer_data", "config": "write_config"}


def migrate(values: Values) -> State:
    """The state of `values`, stored by this version or an older one. Raises ValueError when they make no sense."""
    version = int(values["version"])
    for step in range(version, VERSION):
        values = STEPS[step](values)
    known = {name: values[name] for name in State.model_fields if name in values}
    return State.model_validate({**State(version=VERSION).model_dump(), **known, "version": VERSION})


def lead_troubles(values: Values) -> Values:
    """1 → 2: a trouble says where it leads. It led to the author of what was to blame, unless it ended the experiment."""
    trouble = values.get("trouble")
    if trouble is None:
        return values
    ended = values["stage"] == "critique" or not values["attempt"]
    leads = "critique" if ended else AUTHORS.get(trouble["culprit"], "critique")
    return {**values, "trouble": {**trouble, "leads": leads}}


def no_messages(values: Values) -> Values:
    """2 → 3: nobody talked to runs through the graph."""
    return {**values, "messages": []}


STEPS: dict[int, Callable[[Values], Values]] = {1: lead_troubles, 2: no_messages}
