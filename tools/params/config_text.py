"""A config's text, read and written as the engine reads it: OmegaConf's dialect of YAML, with the line of every key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from tuneloop.core.plain_yaml import PlainLoader

LARGEST = 64 << 10
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
        mark = e.problem_mark or e.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(line, f"is not YAML: {_plain(e)}", _key_at(text, line)) from e
    except (yaml.YAMLError, ValueError) as e:
        raise ConfigError(1, f"is not YAML: {e}") from e
    return Config(values, {key.value: _line(key) for key, _ in root.value})


def read_value(text: str) -> Any:
    """One value as YAML, as it stands behind `key=`. Raises ConfigError."""
    return parse_config(f"value: {text}").values["value"] if text.strip() else None


def _key_at(text: str, line: int) -> str:
    """The key that begins on a line; empty where none does."""
    found = re.match(r"([A-Za-z_]\w*)\s*:(?:\s|$)", "".join(text.splitlines()[line - 1 : line]))
    return found[1] if found else ""


def _plain(e: yaml.MarkedYAMLError) -> str:
    problem = str(e.problem or e.context)
    return "a tab; right are spaces" if r"'\t'" in problem else problem


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
    return Config(values, {name: _key_line(text, name) for name in values})


def _key_line(text: str, name: str) -> int:
    found = re.search(rf'"{re.escape(name)}"\s*:', text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _line(item: yaml.Node | yaml.Event) -> int:
    return item.start_mark.line + 1 if item.start_mark else 1


def _compose(text: str) -> yaml.MappingNode:
    _measure(text)
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


def _measure(text: str) -> None:
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
