"""Reads dataclass fields, enums and constants from Python source by AST; nothing is imported or run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneloop.core.untrusted import parse_expression, parse_python

SCALARS = {"bool", "int", "float", "str"}
ARITHMETIC = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub}


@dataclass(frozen=True)
class SourceModule:
    """One parsed file: its classes by name, and `Name = OtherName` aliases (the last one wins)."""

    path: Path
    tree: ast.Module
    classes: Mapping[str, ast.ClassDef]
    aliases: Mapping[str, str]


@dataclass(frozen=True)
class ValueShape:
    """What values a field takes: kinds among bool int float str list dict none other, and choices ("" kinds apart)."""

    kinds: frozenset[str] = frozenset()
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class SourceField:
    """One dataclass field as it is written in the source."""

    name: str
    owner: str
    file: Path
    node: ast.AnnAssign
    constants: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_module(path: Path) -> SourceModule:
    """Parse one file. Raises OSError or SyntaxError."""
    tree = parse_python(path.read_text(encoding="utf-8"), str(path))
    aliases: dict[str, str] = {}
    for node in _top(tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=value)):
                aliases[name] = value
    return SourceModule(path, tree, {n.name: n for n in _top(tree.body) if isinstance(n, ast.ClassDef)}, aliases)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module or class, those in `if` branches too, in order."""
    waiting = list(body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If):
            waiting[:0] = [*node.body, *node.orelse]
        else:
            yield node


def read_enums(modules: list[SourceModule]) -> dict[str, dict[str, str]]:
    """Enum class → member → value, for members with literal text values."""
    found: dict[str, dict[str, str]] = {}
    for module in modules:
        for name, node in module.classes.items():
            if any(ast.unparse(base).endswith("Enum") for base in node.bases):
                found[name] = {k: v for k, v in _constants(node).items() if isinstance(v, str)}
    return found


def _constants(node: ast.ClassDef) -> dict[str, Any]:
    """`NAME = literal` of a class body; the last one wins, as for a torch that has everything asked for."""
    found: dict[str, Any] = {}
    for item in _top(node.body):
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                found[name] = value
    return found


def read_fields(module: SourceModule, name: str, others: list[SourceModule]) -> dict[str, SourceField]:
    """Fields of a dataclass with those of its bases, read in reverse base order; unknown bases add nothing."""
    found = _find(module, name, others)
    if found is None:
        return {}
    module, node = found
    constants = _constants(node)
    fields: dict[str, SourceField] = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name):
            fields |= read_fields(_without(module, node.name), base.id, others)
    for item in node.body:
        match item:
            case ast.AnnAssign(target=ast.Name(id=key)) if not key.startswith("_"):
                if "ClassVar" not in ast.unparse(item.annotation):
                    fields[key] = SourceField(key, node.name, module.path, item, constants)
    return fields


def _without(module: SourceModule, name: str) -> SourceModule:
    """The module as seen by the bases of its class `name`: a base of the same name lives elsewhere."""
    return SourceModule(
        module.path, module.tree, {k: v for k, v in module.classes.items() if k != name}, module.aliases
    )


def _find(module: SourceModule, name: str, others: list[SourceModule]) -> tuple[SourceModule, ast.ClassDef] | None:
    for place in (module, *others):
        if name in place.classes:
            return place, place.classes[name]
    alias = module.aliases.get(name)
    return _find(module, alias, others) if alias and alias != name else None


def value_shape(annotation: ast.expr, enums: Mapping[str, Mapping[str, str]]) -> ValueShape:
    """Kinds and choices of an annotation such as `Literal["a"] | None`."""
    kinds: set[str] = set()
    choices: list[Any] = []
    for part in _members(annotation):
        match part:
            case ast.Constant(value=None):
                kinds.add("none")
            case ast.Name(id=name) if name in SCALARS | {"list", "dict"}:
                kinds.add(name)
            case ast.Name(id=name) if name in enums:
                choices += enums[name].values()
            case ast.Subscript(value=ast.Name(id="Literal")):
                choices += _literals(part.slice)
            case ast.Subscript(value=ast.Name(id=name)) if name.lower() in {"list", "dict"}:
                kinds.add(name.lower())
            case _:
                kinds.add("other")
    return ValueShape(frozenset(kinds - {"str"} if any(isinstance(c, str) for c in choices) else kinds), tuple(choices))


def _literals(node: ast.expr) -> list[Any]:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return [item.value for item in items if isinstance(item, ast.Constant)]


def _members(annotation: ast.expr) -> Iterator[ast.expr]:
    """Parts of a union, written as `A | B`, `Optional[A]`, `Union[A, B]` or as text."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _members(left)
            yield from _members(right)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            yield from _members(inner)
            yield ast.Constant(None)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
            for part in parts:
                yield from _members(part)
        case ast.Constant(value=str(text)):
            yield from _members(parse_expression(text))
        case _:
            yield annotation


def evaluate_default(node: ast.expr, names: Mapping[str, Any], enums: Mapping[str, Mapping[str, str]]) -> Any:
    """The value of a default: literals, enum members, named constants, products; otherwise its source text."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=member) if member in enums.get(owner, {}):
            return enums[owner][member]
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](evaluate_default(left, names, enums), evaluate_default(right, names, enums))
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def is_literal(node: ast.expr, enums: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the source alone gives the value: nothing in it is named elsewhere but enum members, `list` and `dict`."""
    named = {sub.id for sub in ast.walk(node) if isinstance(sub, ast.Name)}
    return not isinstance(node, ast.Call | ast.Lambda) and named <= {*enums, "list", "dict"}
