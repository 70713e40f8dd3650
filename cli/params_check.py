"""What `tuneloop params check` and `memory` give to the checker: the text with its overrides, the model, the device."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.tools.device import find_device
from tuneloop.tools.memory import MemoryEstimate, Shape
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.check import check_config
from tuneloop.tools.params.config_text import ConfigError, dump_config, parse_config
from tuneloop.tools.params.finding import Finding
from tuneloop.tools.params.memory import estimate_memory
from tuneloop.tools.params.model_card import ModelCard, read_model_card
from tuneloop.tools.params.profile import overwritten, refusal
from tuneloop.tools.params.situation import Situation


def text_of(file: Path, overrides: tuple[str, ...]) -> str:
    """The config's text; JSON becomes YAML, overrides are lines at its end. Raises SetupError."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        try:
            text = dump_config(json.loads(text))
        except ValueError as e:
            raise SetupError(f"{file}: no JSON object: {e}") from e
    wrong = [item for item in overrides if "=" not in item]
    if wrong:
        raise SetupError(f"{wrong[0]!r}: an override is key=value, e.g. learning_rate=1e-4")
    keys = {item.partition("=")[0] for item in overrides}
    kept = [line for line in text.splitlines() if line.partition(":")[0].strip() not in keys or line[:1] in " #"]
    return "\n".join([*kept, *(item.replace("=", ": ", 1) for item in overrides)]) + "\n"


# Stands for a model that was not named: it has no limits, so nothing is held against the config.
ENDLESS = Shape(layers=10**6, hidden=0, vocab=0, heads=1, wide=0, attended=0, embedding=0, head=0, rest=0)
NO_MODEL = ModelCard(Path(), "unknown", "unknown", 0, "unknown", 10**6, 0, 0, None, "", None, frozenset(), ENDLESS)


def checked(
    catalog: Catalog,
    file: Path,
    overrides: tuple[str, ...],
    model: Path | None,
    data_dir: Path | None,
    device: str,
    profile: str,
) -> list[Finding]:
    """Findings by line. Profile `engine` holds nothing against a config that only the loop would refuse."""
    text, where = text_of(file, overrides), find_device() if device == "auto" else device
    card = read_model_card(model) if model else NO_MODEL
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if model and where == "cpu" else None
    found = check_config(text, catalog, card, where, memory)
    values = _values(text)
    if model is None:
        found = [f for f in found if (f.key, f.level) != ("template", "warning")]
    if profile == "engine":
        loops = {key for key in values if refusal(key, values[key])} | set(overwritten(values))
        found = [f for f in found if f.key not in loops or f.text not in _said_by_loop(f.key, values)]
    return found + (registered(values, data_dir, text) if data_dir else [])


def _values(text: str) -> dict[str, Any]:
    """The config's values; none where it cannot be read, which the checker says itself."""
    try:
        return dict(parse_config(text).values)
    except ConfigError:
        return {}


def _said_by_loop(key: str, values: dict[str, Any]) -> tuple[str | None, str]:
    return refusal(key, values[key]), "is set by the run; this value is not used"


def registered(values: dict[str, Any], data_dir: Path, text: str) -> list[Finding]:
    """An error for every data set of the config that `dataset_info.json` does not name or whose file is missing."""
    path = data_dir / "dataset_info.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise SetupError(f"{path}: cannot be read ({e}); right is LLaMA-Factory's register of data sets") from e
    lines, found = parse_config(text).lines, []
    for key in ("dataset", "eval_dataset"):
        for name in str(values.get(key) or "").split(","):
            if name.strip() and name.strip() not in known:
                close = difflib.get_close_matches(name.strip(), known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"right is one of {', '.join(list(known)[:8])}"
                found.append(Finding("error", lines[key], key, f"{name.strip()!r} is not in dataset_info.json; {hint}"))
    return found


def memory_of(catalog: Catalog, file: Path, overrides: tuple[str, ...], model: Path, device: str) -> MemoryEstimate:
    """The estimate for a config and a model folder. Raises SetupError for a text that is no config."""
    try:
        config = parse_config(text_of(file, overrides))
    except ConfigError as e:
        raise SetupError(str(e).replace("train.yaml", file.name, 1)) from e
    where = find_device() if device == "auto" else device
    return estimate_memory(Situation(config, catalog, read_model_card(model), where))
