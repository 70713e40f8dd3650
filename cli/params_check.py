"""What `tuneloop params check` and `memory` give to the checker: the text with its overrides, the model, the device."""

from __future__ import annotations

import os
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.tools.device import find_device
from tuneloop.tools.memory import MemoryEstimate
from tuneloop.tools.params.accelerators import is_known
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.check import check_config
from tuneloop.tools.params.config_text import ConfigError, Form, parse_config
from tuneloop.tools.params.finding import Finding
from tuneloop.tools.params.memory import estimate_memory
from tuneloop.tools.params.model_card import read_model_card
from tuneloop.tools.params.overrides import with_overrides
from tuneloop.tools.params.situation import Profile, Situation


def checked(
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
    if not is_known(where):
        raise SetupError(f"{device!r} is no device; right is cpu, cuda, or a card such as cuda:V100, T4, cuda:8.0")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if where == "cpu" else None
    card = read_model_card(model) if model else None
    text, form = text_of(file)
    return check_config(
        text, catalog, card, where, memory, profile=profile, overrides=overrides, form=form, data=data_dir
    )


def text_of(file: Path) -> tuple[str, Form]:
    """The config's text and how it is written. Raises SetupError."""
    try:
        return file.read_text(encoding="utf-8"), "json" if file.suffix == ".json" else "yaml"
    except UnicodeDecodeError as e:
        raise SetupError(f"{file}: no text ({e.reason} at byte {e.start}); right is YAML or JSON in UTF-8") from e


def memory_of(
    catalog: Catalog, file: Path, overrides: tuple[str, ...], model: Path, device: str, longest: int | None
) -> MemoryEstimate:
    """The estimate for a config and a model folder. Raises SetupError for a text that is no config."""
    text, form = text_of(file)
    try:
        config = with_overrides(parse_config(text, form), overrides)
    except ConfigError as e:
        raise SetupError(str(e).replace("train.yaml", file.name, 1)) from e
    where = find_device() if device == "auto" else device
    return estimate_memory(Situation(config, catalog, read_model_card(model), where, "engine"), tokens=longest)
