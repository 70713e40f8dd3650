"""`key=value` behind a config's name, merged into it as the engine's command line does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuneloop.tools.params.config_text import Config, ConfigError, read_value


def with_overrides(config: Config, overrides: Sequence[str]) -> Config:
    """The config with every override; `a.b=1` sets b inside a. Raises ConfigError that names the override."""
    values: dict[str, Any] = dict(config.values)
    numbers = dict(config.overrides)
    for number, item in enumerate(overrides, 1):
        path, equals, text = item.partition("=")
        key, *inner = path.split(".")
        if not equals or not key or key.startswith("-"):
            raise ConfigError(0, f"{item!r} is no override; right is key=value, e.g. {_meant(item)}", "", number)
        try:
            value = read_value(text)
        except ConfigError as e:
            raise ConfigError(0, e.text, key, number) from e
        values[key] = _merged(values.get(key), inner, value)
        numbers[key] = number
    return replace(config, values=values, overrides=numbers)


def _meant(item: str) -> str:
    name = item.partition("=")[0].lstrip("-").replace("-", "_")
    return f"{name}=1" if name.isidentifier() else "learning_rate=1e-4"


def _merged(old: Any, inner: Sequence[str], value: Any) -> Any:
    """The value put at its place inside the old one; mappings are joined."""
    if inner:
        value = {inner[0]: _merged(old.get(inner[0]) if isinstance(old, Mapping) else None, inner[1:], value)}
    return {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
