"""What `tuneloop params` shows: parameters as rows and plain values, findings of a config file, an estimate of memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table

from tuneloop.cli.terminal import progress_bar
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import load_settings
from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.config_text import ConfigError, Form, apply_overrides, parse_config
from tuneloop.tools.config.context import ConfigContext, Profile, is_known_device
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.memory import estimate_memory
from tuneloop.tools.config.memory_estimate import MemoryEstimate
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.names import closest_name, parameter_named
from tuneloop.tools.config.parameter_text import plain_default, usual
from tuneloop.tools.hub.models import resolve_model
from tuneloop.tools.jobs.machine import find_device


def model_folder(name: str | None) -> Path | None:
    """The folder of a model as every command names it; one of the hub is fetched. Raises InvalidRequestError."""
    if name is None or Path(name).expanduser().is_dir():
        return Path(name).expanduser() if name else None
    with progress_bar(name) as say:
        return resolve_model(name, load_settings(), say, unpickle=False).root


def find_parameter(name: str, catalog: Catalog) -> Parameter:
    """The parameter of that name or alias. Raises InvalidRequestError with the closest one."""
    if known := parameter_named(name, catalog):
        return catalog.parameters[known]
    close = closest_name(name, catalog)
    hint = f"did you mean {close}?" if close else f"search with: tuneloop params ask {name}"
    raise InvalidRequestError(f"no parameter {name!r}: {hint}")


def parameter_facts(p: Parameter) -> dict[str, Any]:
    """Everything of one parameter."""
    plain = {"name": p.name, "class": p.owner, "type": p.type, "default": p.default, "choices": list(p.choices)}
    return {**plain, "usual": usual(p), "settable": p.settable, "help": p.help, "source": p.source}


def parameters_table(parameters: Iterable[Parameter]) -> Table:
    """Name, type, default, class."""
    table = Table("parameter", "type", "default", "class", box=None, padding=(0, 2, 0, 0))
    for p in parameters:
        table.add_row(p.name, p.type.replace("[", r"\["), plain_default(p), p.owner)
    return table


def check_file(
    catalog: Catalog,
    file: Path,
    overrides: tuple[str, ...],
    model: Path | None,
    data_dir: Path | None,
    device: str,
    profile: Profile,
) -> list[Finding]:
    """Findings by line. Profile `engine` holds nothing against a config that only the loop would refuse.

    Without `model` the config is held against the one that it names, where that is a folder.
    """
    where = find_device() if device == "auto" else device
    if not is_known_device(where):
        raise InvalidRequestError(
            f"{device!r} is no device; right is cpu, cuda, or a card such as cuda:V100, T4, cuda:8.0"
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if where == "cpu" else None
    card = read_model_card(model) if model else None
    text, form = read_config_file(file)
    return check_config(
        text, catalog, card, where, memory, profile=profile, overrides=overrides, form=form, data=data_dir
    )


def read_config_file(file: Path) -> tuple[str, Form]:
    """The config's text and how it is written. Raises InvalidRequestError."""
    try:
        return file.read_text(encoding="utf-8"), "json" if file.suffix == ".json" else "yaml"
    except UnicodeDecodeError as e:
        raise InvalidRequestError(
            f"{file}: no text ({e.reason} at byte {e.start}); right is YAML or JSON in UTF-8"
        ) from e


def estimate_file(
    catalog: Catalog, file: Path, overrides: tuple[str, ...], model: Path, device: str, longest: int | None
) -> MemoryEstimate:
    """The estimate for a config and a model folder. Raises InvalidRequestError for a text that is no config."""
    text, form = read_config_file(file)
    try:
        config = apply_overrides(parse_config(text, form), overrides)
    except ConfigError as e:
        raise InvalidRequestError(str(e).replace("train.yaml", file.name, 1)) from e
    found = check_file(catalog, file, overrides, model, None, device, "engine")
    wrong = [f for f in found if f.level == "error" and f.key in config.values]
    where = find_device() if device == "auto" else device
    try:
        estimate = estimate_memory(
            ConfigContext(config, catalog, read_model_card(model), where, "engine"), tokens=longest
        )
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise InvalidRequestError(f"{file.name}: {wrong[0] if wrong else e}") from e
    if numbers := [f for f in wrong if isinstance(config.values[f.key], int | float)]:
        raise InvalidRequestError(f"{file.name}: {numbers[0]}")
    return estimate
