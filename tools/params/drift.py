"""Where a release's sources say something else than its classes did when the engine was built, or than another release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.snapshot import Snapshot


@dataclass(frozen=True)
class Drift:
    """One difference; `name` is empty where versions differ."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


def drift(catalog: Catalog) -> list[Drift]:
    """Where the sources and the snapshot differ, by name; [] without a snapshot."""
    if catalog.snapshot is None:
        return []
    return list(_drift(catalog, catalog.snapshot))


def _drift(catalog: Catalog, snapshot: Snapshot) -> Iterator[Drift]:
    for package, version in snapshot.versions.items():
        now = catalog.versions.get(package, "unknown")
        if now != version:
            yield Drift("", f"{package} is {now}; it was {version} when the engine was built")
    for name in sorted(catalog.parameters.keys() | snapshot.parameters.keys()):
        parameter, then = catalog.parameters.get(name), snapshot.parameters.get(name)
        if parameter is None:
            yield Drift(name, "is in the snapshot and no longer in the source")
        elif then is None:
            yield Drift(name, f"is in the source ({parameter.source}) and not in the snapshot")
        else:
            yield from _changed(parameter, then)


def _changed(parameter: Parameter, then: Mapping[str, Any]) -> Iterator[Drift]:
    if parameter.default != then["default"]:
        yield Drift(parameter.name, f"default {parameter.default!r} in the source, {then['default']!r} in the snapshot")
    if list(parameter.choices) != list(then["choices"]):
        gone = [c for c in then["choices"] if c not in parameter.choices]
        new = [c for c in parameter.choices if c not in then["choices"]]
        yield Drift(parameter.name, f"choices: new {new}, gone {gone}")
    if parameter.settable != then["settable"]:
        yield Drift(parameter.name, "settable changed")
