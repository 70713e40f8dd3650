"""The LLaMA-Factory of this machine, the built engine's or that of LLAMA_FACTORY_PATH: its parameters and packages."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.settings import Settings
from tuneloop.tools.config.catalog import Catalog, load_catalog
from tuneloop.tools.engines import Engine
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.engines.find import checkout_path, find_built_engine, find_python

NAME = "llamafactory"
BUILD = "`tuneloop engines build llamafactory` makes an engine, LLAMA_FACTORY_PATH names one of yours"


def installed_catalog(engine: Engine) -> Catalog:
    """Read from the engine's own sources. Raises InfrastructureError when it has none."""
    source = engine.env.get("PYTHONPATH")
    return load_catalog(site_packages(engine), Path(source) if source else None)


def site_packages(engine: Engine) -> Path:
    """Where the engine's packages lie."""
    found = packages_of(engine.folder)
    if found is None:
        raise InfrastructureError(f"engine {engine.name} in {engine.folder} has no site-packages; rebuild it")
    return found


def packages_of(environment: Path) -> Path | None:
    """The site-packages folder of an environment."""
    return next(iter(sorted(environment.glob("lib/python3.*/site-packages"))), None)


def find_catalog(settings: Settings) -> Catalog:
    """The catalog of this machine's LLaMA-Factory; nothing is built or run. Raises InvalidRequestError that says how to get one."""
    if settings.llama_factory_path:
        return catalog_at(Path(settings.llama_factory_path), settings, "LLAMA_FACTORY_PATH=")
    folder = settings.home.engines
    return installed_catalog(_built(settings, folder.stat().st_mtime_ns if folder.is_dir() else 0))


@lru_cache(maxsize=4)
def _built(settings: Settings, stamp: int) -> Engine:  # noqa: ARG001 - the stamp is part of the key
    """The built engine; kept until one comes or goes. Raises InvalidRequestError, which is not kept."""
    engine = find_built_engine(NAME, settings)
    if engine is None:
        raise InvalidRequestError(f"no LLaMA-Factory in {settings.home.engines}: {BUILD}")
    return engine


def catalog_at(given: Path, settings: Settings, named: str = "") -> Catalog:
    """The catalog of a checkout, an environment, its interpreter, or a folder of unpacked packages.

    A checkout without an environment takes transformers from the built engine. Raises InvalidRequestError beginning with
    `named` and the path.
    """
    path = absolute_path(given)
    if (path / "transformers/__init__.py").is_file():
        return load_catalog(path)
    source, python = checkout_path(ENGINE_BLUEPRINTS[NAME], path), find_python(path)
    if source is None and python is None:
        raise InvalidRequestError(
            f"{named}{given}: no LLaMA-Factory here; right is a checkout, an environment or its python"
        )
    engine = None if python else find_built_engine(NAME, settings)
    packages = packages_of(python.parent.parent) if python else packages_of(engine.folder) if engine else None
    if packages is None:
        raise InvalidRequestError(f"{named}{given}: transformers is missing beside this checkout; {BUILD}")
    return load_catalog(packages, source)


@lru_cache(maxsize=64)
def package_version(site_packages: Path, package: str) -> tuple[int, ...]:
    """The installed version, (0, 24, 0); empty where the package is not there."""
    for folder in site_packages.glob(f"{package}-*.dist-info"):
        if match := re.match(r"(\d+(?:\.\d+)*)", folder.name[len(package) + 1 :]):
            return tuple(int(part) for part in match[1].split("."))
    return ()


@lru_cache(maxsize=32)
def source_has(site_packages: Path, file: str, text: str) -> bool:
    """Whether a file of a package holds the text; a file that is missing holds everything."""
    path = site_packages / file
    return not path.is_file() or text in path.read_text(encoding="utf-8", errors="replace")
