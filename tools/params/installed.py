"""The parameters of the engine that this machine has."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.errors import WorldError
from tuneloop.tools.engines import Engine
from tuneloop.tools.params.catalog import Catalog, load_catalog


def installed_catalog(engine: Engine) -> Catalog:
    """Read from the engine's own sources. Raises WorldError when it has none."""
    return load_catalog(site_packages(engine))


def site_packages(engine: Engine) -> Path:
    """Where the engine's packages lie."""
    found = sorted(engine.folder.glob("lib/python3.*/site-packages"))
    if not found:
        raise WorldError(f"engine {engine.name} in {engine.folder} has no site-packages; rebuild it")
    return found[0]
