"""Differences between two releases, two configs, or a release and what its engine said when it was built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.config.catalog import SNAPSHOT, Catalog, Parameter, Snapshot, load_catalog
from tuneloop.tools.config.config_text import ConfigError, parse_config
from tuneloop.tools.config.installed import NAME, installed_catalog, site_packages
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.engines.engine import run_json_script

# Where a release's sources say something else than its classes did when the engine was built, or than another release.


@dataclass(frozen=True)
class Drift:
    """One difference; `name` is empty where versions differ."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


def find_drift(catalog: Catalog) -> list[Drift]:
    """Where the sources and the snapshot differ, by name; [] without a snapshot."""
    if catalog.snapshot is None:
        return []
    return list(_find_drift(catalog, catalog.snapshot))


def _find_drift(catalog: Catalog, snapshot: Snapshot) -> Iterator[Drift]:
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
            yield from _default_drift(parameter, then)


def _default_drift(parameter: Parameter, then: Mapping[str, Any]) -> Iterator[Drift]:
    if parameter.default != then["default"]:
        yield Drift(parameter.name, f"default {parameter.default!r} in the source, {then['default']!r} in the snapshot")
    if list(parameter.choices) != list(then["choices"]):
        gone = [c for c in then["choices"] if c not in parameter.choices]
        new = [c for c in parameter.choices if c not in then["choices"]]
        yield Drift(parameter.name, f"choices: new {new}, gone {gone}")
    if parameter.settable != then["settable"]:
        yield Drift(parameter.name, "settable changed")


def compare_releases(one: Catalog, other: Catalog) -> list[Drift]:
    """What the second release has otherwise than the first, by name."""
    return list(_releases(one, other))


def _releases(one: Catalog, other: Catalog) -> Iterator[Drift]:
    for package, version in one.versions.items():
        if other.versions.get(package) != version:
            yield Drift("", f"{package} {version} → {other.versions.get(package)}")
    for name in sorted(one.parameters.keys() | other.parameters.keys()):
        old, new = one.parameters.get(name), other.parameters.get(name)
        if new is None and old is not None:
            yield Drift(name, f"gone ({old.owner})")
        elif old is None and new is not None:
            yield Drift(name, f"new ({new.owner}), default {new.default!r}")
        elif old is not None and new is not None and (text := _parameter_changes(old, new)):
            yield Drift(name, text)


def _parameter_changes(old: Parameter, new: Parameter) -> str:
    parts = [f"default {old.default!r} → {new.default!r}"] if old.default != new.default else []
    if old.kinds != new.kinds:
        parts.append(f"type {old.type} → {new.type}")
    if set(old.choices) != set(new.choices):
        gained = [str(c) for c in new.choices if c not in old.choices]
        lost = [str(c) for c in old.choices if c not in new.choices]
        parts.append("choices " + " ".join([*(f"+{c}" for c in gained), *(f"-{c}" for c in lost)]))
    return "; ".join(parts)


def compare_configs(catalog: Catalog, one: Path, other: Path) -> list[Drift]:
    """Keys with different values in two configs, defaults filled in. Raises InvalidRequestError for a text that is no config."""
    first, second = _values(one), _values(other)
    found = []
    for name in sorted(first.keys() | second.keys()):
        default = catalog.parameters[name].default if name in catalog.parameters else None
        left, right = first.get(name, default), second.get(name, default)
        if left != right:
            found.append(Drift(name, f"{left!r} → {right!r}"))
    return found


def _values(path: Path) -> dict[str, object]:
    try:
        return dict(parse_config(path.read_text(encoding="utf-8")).values)
    except ConfigError as e:
        raise InvalidRequestError(str(e).replace("train.yaml", str(path), 1)) from e
    except UnicodeDecodeError as e:
        raise InvalidRequestError(f"{path}: no text ({e.reason} at byte {e.start}); right is YAML in UTF-8") from e


def engine_drift(settings: Settings) -> list[Drift]:
    """Where the engine's sources differ from its snapshot; one that was built without is asked for it now."""
    engine = ensure_engine(NAME, settings)
    catalog = installed_catalog(engine)
    if catalog.snapshot is None:
        source = engine.env.get("PYTHONPATH")
        snapshot = take_snapshot(engine, settings)
        catalog = load_catalog(site_packages(engine), Path(source) if source else None, snapshot)
    return find_drift(catalog)


def take_snapshot(engine: Engine, settings: Settings) -> Path:
    """What the engine's classes say, kept beside the engines under the engine's identity; takes some seconds."""
    path = settings.home.engine_links / f".{NAME}-{digest(engine.identity)}-{SNAPSHOT}"
    if not path.is_file():
        write_json(path, run_json_script(engine.python, ENGINE_BLUEPRINTS[NAME].folder / "snapshot.py", env=engine.env))
    return path
