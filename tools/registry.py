"""Find catalog entries by module name: one file in a package is one entry."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tuneloop.core.errors import InvalidRequestError

MOST = 50  # names in a line


def registry_entries(package: ModuleType, marker: str) -> dict[str, ModuleType]:
    """Modules of `package` that define `marker`, by the name their declaration carries."""
    return {name: module for name, (_, module) in declared_entries(package, marker).items()}


def declared_entries(package: ModuleType, marker: str) -> dict[str, tuple[Any, ModuleType]]:
    """Declarations of `package` with their modules, by name: `MARKER`, or several of one family in `MARKERS`."""
    found: dict[str, tuple[Any, ModuleType]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        cards = [getattr(module, marker)] if hasattr(module, marker) else getattr(module, f"{marker}S", ())
        found |= {card.name: (card, module) for card in cards}
    return dict(sorted(found.items()))


def unknown_entry(kind: str, name: str, known: list[str], also: str) -> InvalidRequestError:
    """The one line that says what would be right."""
    return InvalidRequestError(f"{kind} {name!r} is unknown: {did_you_mean(name, known)} ({also})")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The nearest of the known names, or those there are; of very many the first, and a less similar name counts."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6 if len(known) <= MOST else 0.4)
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known[:MOST]) or 'none'}{more}"
