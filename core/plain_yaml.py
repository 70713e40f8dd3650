"""Untrusted YAML: the safe loader, with integers of at most 64 bits."""

from __future__ import annotations

import yaml

INT = "tag:yaml.org,2002:int"


class PlainLoader(yaml.SafeLoader):
    """SafeLoader with bounded numbers; reading and printing longer ones takes quadratic time."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number. Raises ConstructorError above 64 bits."""
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > 64:
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
        return value


PlainLoader.add_constructor(INT, PlainLoader.construct_yaml_int)
