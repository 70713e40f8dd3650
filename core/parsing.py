"""Python source as a syntax tree, one thread at a time."""

from __future__ import annotations

import ast
import threading

_one = threading.Lock()


def parse_python(source: str, name: str = "<unknown>") -> ast.Module:
    """The tree of a module. Raises SyntaxError.

    CPython counts the depth of all trees under construction in one place: two threads at once end in a SystemError.
    """
    with _one:
        return ast.parse(source, name)


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression. Raises SyntaxError."""
    with _one:
        return ast.parse(source, mode="eval").body
