"""Differences between two releases, two configs, or a release and what its engine said when it was built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.core.files import digest, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.engines.blueprint import BLUEPRINTS
from tuneloop.tools.engines.verify import answer
from tuneloop.tools.params.catalog import SNAPSHOT, Catalog, Parameter, load_catalog
from tuneloop.tools.params.config_text import ConfigError, parse_config
from tuneloop.tools.params.drift import Drift, drift
from tuneloop.tools.params.installed import NAME, installed_catalog, site_packages


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
        elif old is not None and new is not None and (text := _changed(old, new)):
            yield Drift(name, text)


def _changed(old: Parameter, new: Parameter) -> str:
    parts = [f"default {old.default!r} → {new.default!r}"] if old.default != new.default else []
    if old.kinds != new.kinds:
        parts.append(f"type {old.type} → {new.type}")
    if set(old.choices) != set(new.choices):
        gained = [str(c) for c in new.choices if c not in old.choices]
        lost = [str(c) for c in old.choices if c not in new.choices]
        parts.append("choices " + " ".join([*(f"+{c}" for c in gained), *(f"-{c}" for c in lost)]))
    return "; ".join(parts)


def compare_configs(catalog: Catalog, one: Path, other: Path) -> list[Drift]:
    """Keys to which two configs give different values, defaults filled in. Raises SetupError for a text that is no config."""
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
        raise SetupError(str(e).replace("train.yaml", str(path), 1)) from e


def own_drift(settings: Settings) -> list[Drift]:
    """Where the engine's sources differ from its snapshot; one that was built without is asked for it now."""
    engine = ensure_engine(NAME, settings)
    catalog = installed_catalog(engine)
    if catalog.snapshot is None:
        source = engine.env.get("PYTHONPATH")
        snapshot = take_snapshot(engine, settings)
        catalog = load_catalog(site_packages(engine), Path(source) if source else None, snapshot)
    return drift(catalog)


def take_snapshot(engine: Engine, settings: Settings) -> Path:
    """What the engine's classes say, kept beside the engines under the engine's identity; takes some seconds."""
    path = settings.home.engines / f".{NAME}-{digest(engine.identity)}-{SNAPSHOT}"
    if not path.is_file():
        write_json(path, answer(engine.python, BLUEPRINTS[NAME].folder / "snapshot.py", env=engine.env))
    return path
