"""A config's text, read and written as the engine reads it, and the JSON files that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from tuneloop.core.files import parse_json, read_text
from tuneloop.core.layout import ExperimentFolder, job_input_file
from tuneloop.core.plain_yaml import PlainLoader

# A config's text, read and written as the engine reads it: OmegaConf's dialect of YAML, with the line of every key.

LARGEST = 64 << 10
LARGEST_FILE = 64 << 20  # bytes of a file that a config names
DEEPEST = 8
SEPARATORS = frozenset("\x85\u2028\u2029")
FLOAT = "tag:yaml.org,2002:float"
TIMESTAMP = "tag:yaml.org,2002:timestamp"
# OmegaConf's rule: `1e-4` is a number, dates stay text.
NUMBER = re.compile(
    r"""^(?:[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
    |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)

GLUED = re.compile(r"\s*\w+(:\S|\s*=)")  # a key without a colon and a space behind it
# What YAML's reader was reading, where the mistake is at its beginning, and what would be right.
BEGINNINGS = {
    "while scanning a simple key": "; right is `key: value`, a colon and a space behind the key",
    "while scanning a quoted scalar": "; the quote is never closed",
    "while parsing a flow sequence": "; the list that begins here lacks a comma or its ]",
    "while parsing a flow mapping": "; the mapping that begins here lacks a comma or its }",
}

Form = Literal["yaml", "json"]


class ConfigError(Exception):
    """The text is no flat YAML mapping; `line` counts from 1; `key` and `override` as in a finding."""

    def __init__(self, line: int, text: str, key: str = "", override: int = 0) -> None:
        """`text` says what is wrong and what would be right."""
        super().__init__(f"train.yaml:{line}{' ' if key else ''}{key}: {text}")
        self.line = line
        self.text = text
        self.key = key
        self.override = override


@dataclass(frozen=True)
class Config:
    """Values by key, the line (from 1) where each stands, and the number of the override that set it."""

    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)
    overrides: Mapping[str, int] = field(default_factory=dict)


class _Loader(PlainLoader):
    """PlainLoader with OmegaConf's resolvers."""


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes what OmegaConf would take for a number."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks by this name
        """Aliases are never written: the reader refuses them."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quoted where a line separator of Unicode would be folded into a space."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if set(text) & SEPARATORS else None)


_Dumper.add_representer(str, _text)

for _kind in (_Loader, _Dumper):
    _kind.yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if tag not in {FLOAT, TIMESTAMP}]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _kind.add_implicit_resolver(FLOAT, NUMBER, list("-+0123456789."))


def parse_config(text: str, form: Form = "yaml") -> Config:
    """Read a config. Raises ConfigError for broken YAML, a repeated key, an alias, or anything but a mapping."""
    if len(text) > LARGEST:
        raise ConfigError(1, f"is {len(text)} characters long; right is a config below {LARGEST}")
    if form == "json":
        return _parse_json(text)
    try:
        root = _compose(text)
        values = _Loader("").construct_document(root)
    except yaml.MarkedYAMLError as e:
        line = _broken_line(e, text)
        raise ConfigError(line, f"is not YAML: {_plain_message(e)}", _key_at(text, line)) from e
    except (yaml.YAMLError, ValueError) as e:
        raise ConfigError(1, f"is not YAML: {e}") from e
    return _checked(Config(values, {key.value: _line(key) for key, _ in root.value}))


def read_value(text: str) -> Any:
    """One value as YAML, as it stands behind `key=`. Raises ConfigError."""
    return parse_config(f"value: {text}").values["value"] if text.strip() else None


def _broken_line(e: yaml.MarkedYAMLError, text: str) -> int:
    """Where the part begins that could not be read to its end: a key, a quote or a bracket, not the whole mapping.

    A first line without a space behind its colon is read as text, and the reader complains of the next one.
    """
    began = e.context_mark if e.context in BEGINNINGS else None
    mark = began or e.problem_mark or e.context_mark
    line = mark.line if mark else 0
    above = text.splitlines()[line - 1 : line]
    return line if e.problem == "mapping values are not allowed here" and above and GLUED.match(above[0]) else line + 1


def _key_at(text: str, line: int) -> str:
    """The key that begins on a line, whatever stands behind it; empty where none does."""
    found = re.match(r"[\s-]*([A-Za-z_]\w*)(?=\s*[:=]|\s|$)", "".join(text.splitlines()[line - 1 : line]))
    return found[1] if found else ""


def _plain_message(e: yaml.MarkedYAMLError) -> str:
    problem = str(e.problem or e.context)
    if r"'\t'" in problem:
        return "a tab; right are spaces"
    return f"{problem}{BEGINNINGS.get(str(e.context), '')}"


def _parse_json(text: str) -> Config:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(_key_line(text, name), "stands here more than once; keep one of them", name)
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as e:
        raise ConfigError(e.lineno, f"is not JSON: {e.msg}") from e
    except (RecursionError, ValueError) as e:
        raise ConfigError(1, f"is not JSON: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(1, "is no mapping; right is one `key: value` a line")
    return _checked(Config(values, {name: _key_line(text, name) for name in values}))


def _checked(config: Config) -> Config:
    """Raises ConfigError for a NUL, which no path and no text of a config can have."""
    for name, value in config.values.items():
        if _holds_nul(value):
            raise ConfigError(config.lines.get(name, 1), "holds a NUL (\\0); right is text without it", name)
    return config


def _holds_nul(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_nul, (*value.keys(), *value.values())))
    return any(map(_holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _key_line(text: str, name: str) -> int:
    found = re.search(rf'"{re.escape(name)}"\s*:', text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _line(item: yaml.Node | yaml.Event) -> int:
    return item.start_mark.line + 1 if item.start_mark else 1


def _compose(text: str) -> yaml.MappingNode:
    _check_nesting(text)
    root = yaml.compose(text, Loader=_Loader)
    if root is None:
        raise ConfigError(1, "is empty; right is one `key: value` a line")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(_line(root), "is no mapping; right is one `key: value` a line")
    seen: dict[str, int] = {}
    for key, _ in root.value:
        line = _line(key)
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            raise ConfigError(line, "has a key that is no name; right is the name of a parameter")
        if key.value in seen:
            raise ConfigError(line, f"stands here and on line {seen[key.value]}; keep one of them", key.value)
        seen[key.value] = line
    return root


def _check_nesting(text: str) -> None:
    """Raises ConfigError for what is nested deep or repeats a list or mapping by an alias."""
    depth, large = 0, set()
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConfigError(_line(event), f"is nested more than {DEEPEST} deep; right is one `key: value` a line")
        if isinstance(event, yaml.CollectionStartEvent):
            large.add(event.anchor)
        if isinstance(event, yaml.AliasEvent) and event.anchor in large:
            raise ConfigError(_line(event), "has an alias (*name) of a list or mapping; write the values themselves")


def dump_config(values: Mapping[str, Any]) -> str:
    """Sorted YAML that `parse_config` and the engine read back as the same values."""
    return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=120)


# `key=value` behind a config's name, merged into it as the engine's command line does.


def apply_overrides(config: Config, overrides: Sequence[str]) -> Config:
    """The config with every override; `a.b=1` sets b inside a. Raises ConfigError that names the override."""
    values: dict[str, Any] = dict(config.values)
    numbers = dict(config.overrides)
    for number, item in enumerate(overrides, 1):
        path, equals, text = item.partition("=")
        key, *inner = path.split(".")
        if not equals or not key or key.startswith("-"):
            raise ConfigError(
                0, f"{item!r} is no override; right is key=value, e.g. {_parse_override(item)}", "", number
            )
        try:
            value = read_value(text)
        except ConfigError as e:
            raise ConfigError(0, e.text, key, number) from e
        values[key] = _merge_value(values.get(key), inner, value)
        numbers[key] = number
    return replace(config, values=values, overrides=numbers)


def _parse_override(item: str) -> str:
    name = item.partition("=")[0].lstrip("-").replace("-", "_")
    return f"{name}=1" if name.isidentifier() else "learning_rate=1e-4"


def _merge_value(old: Any, inner: Sequence[str], value: Any) -> Any:
    """The value put at its place inside the old one; mappings are joined."""
    if inner:
        value = {inner[0]: _merge_value(old.get(inner[0]) if isinstance(old, Mapping) else None, inner[1:], value)}
    return {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value


class UnreadableError(ValueError):
    """The text says why."""


def file_stamp(path: Path) -> tuple[int, int]:
    """Size and time of the last change; what was read of a file holds while they do. Raises OSError."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def read_object(path: Path) -> Any:
    """What a JSON file holds. Raises UnreadableError."""
    try:
        return _read(path, file_stamp(path))
    except OSError as e:
        raise UnreadableError(f"{path} cannot be read ({e.strerror})") from e


@lru_cache(maxsize=64)
def _read(path: Path, _stamp: tuple[int, int]) -> Any:
    try:
        return parse_json(read_text(path, LARGEST_FILE))
    except ValueError as e:
        raise UnreadableError(f"{path} is no JSON ({e})") from e


def json_value(value: Any, here: Path) -> Any:
    """A mapping, JSON text, or the path of a JSON file, as the engine takes them; None where it cannot be read."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return parse_json(value) if value.startswith("{") else read_object(here / Path(value).expanduser())
    except ValueError:
        return None


# Configs of an experiment, read from its folder: the author's `train.yaml`, and what a training's job was given.


def train_config(folder: ExperimentFolder) -> Config:
    """The attempt's `train.yaml`. Raises FileNotFoundError, ConfigError."""
    return _parsed(read_text(folder.config))


def readable_train_config(folder: ExperimentFolder) -> Config:
    """The attempt's `train.yaml`; an empty config where there is none, or none that can be read."""
    try:
        return train_config(folder)
    except (FileNotFoundError, ConfigError):
        return Config({})


def engine_config(folder: ExperimentFolder, job: str) -> Config:
    """What the engine was given for the job `train` or `smoke_run`. Raises FileNotFoundError."""
    return _parsed(read_text(job_input_file(folder.work, job) / "config.yaml"))


@lru_cache(maxsize=32)  # several steps of an attempt ask for the same file
def _parsed(text: str) -> Config:
    return parse_config(text)
