"""A config's text, read and written as the engine reads it: OmegaConf's dialect of YAML, with the line of every key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

LARGEST = 64 << 10
DEEPEST = 8
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


class ConfigError(Exception):
    """The text is no flat YAML mapping; `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        """`text` says what is wrong and what would be right."""
        super().__init__(f"train.yaml:{line}: {text}")
        self.line = line
        self.text = text


@dataclass(frozen=True)
class Config:
    """Values by key, and the line (from 1) where each key stands."""

    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """SafeLoader with OmegaConf's resolvers; whole numbers have at most 64 bits."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number. Raises ConstructorError above 64 bits."""
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > 64:
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes what OmegaConf would take for a number."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks by this name
        """Aliases are never written: the reader refuses them."""
        return True


for _kind in (_Loader, _Dumper):
    _kind.yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if tag not in {FLOAT, TIMESTAMP}]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _kind.add_implicit_resolver(FLOAT, NUMBER, list("-+0123456789."))


def parse_config(text: str) -> Config:
    """Read a config. Raises ConfigError for broken YAML, a repeated key, an alias, or anything but a mapping."""
    if len(text) > LARGEST:
        raise ConfigError(1, f"is {len(text)} characters long; right is a config below {LARGEST}")
    try:
        root = _compose(text)
        values = _Loader("").construct_document(root)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise ConfigError(mark.line + 1 if mark else 1, f"is not YAML: {e.problem or e.context}") from e
    except (yaml.YAMLError, ValueError) as e:
        raise ConfigError(1, f"is not YAML: {e}") from e
    return Config(values, {key.value: _line(key) for key, _ in root.value})


def _line(item: yaml.Node | yaml.Event) -> int:
    return item.start_mark.line + 1 if item.start_mark else 1


def _compose(text: str) -> yaml.MappingNode:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConfigError(_line(event), f"is nested more than {DEEPEST} deep; right is one `key: value` a line")
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(_line(event), "has an alias (*name); write the value itself")
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
            raise ConfigError(line, f"{key.value} stands here and on line {seen[key.value]}; keep one of them")
        seen[key.value] = line
    return root


def dump_config(values: Mapping[str, Any]) -> str:
    """Sorted YAML that `parse_config` and the engine read back as the same values."""
    return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=120)
