"""Functions of the project as source text, with everything they need: what a data script is put together from."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from tuneloop.agents.policy import operations, rows
from tuneloop.core import labels, raw, records, text
from tuneloop.core.parsing import parse_python

MODULES = (text, raw, records, labels, rows, operations)


@dataclass(frozen=True)
class Piece:
    """A function, class or constant: its text and the names it uses."""

    name: str
    text: str
    uses: frozenset[str]


@dataclass(frozen=True)
class Library:
    """Pieces in order of definition; import lines by the name they bind."""

    pieces: dict[str, Piece]
    imports: dict[str, ast.Import | ast.ImportFrom]

    def needed(self, names: Iterable[str]) -> list[Piece]:
        """The pieces named and all they use, in order of definition."""
        wanted: set[str] = set()
        queue = list(names)
        while queue:
            name = queue.pop()
            if name in self.pieces and name not in wanted:
                wanted.add(name)
                queue.extend(self.pieces[name].uses)
        return [piece for piece in self.pieces.values() if piece.name in wanted]

    def import_lines(self, used: Iterable[str]) -> list[str]:
        """Import lines that bind the names used, one a module, sorted."""
        whole: set[str] = set()
        parts: dict[str, set[str]] = {}
        for name in used:
            node = self.imports.get(name)
            if isinstance(node, ast.Import):
                whole.add(f"import {name}")
            elif node is not None:
                parts.setdefault(str(node.module), set()).add(name)
        return [*sorted(whole), *(f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(parts.items()))]


@cache
def library() -> Library:
    """Everything a script may carry."""
    pieces: dict[str, Piece] = {}
    imports: dict[str, ast.Import | ast.ImportFrom] = {}
    for module in MODULES:
        source = inspect.getsource(module)
        for node in parse_python(source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                own = str(getattr(node, "module", "")).startswith(("tuneloop", "__future__"))
                imports.update({alias.name: node for alias in node.names if not own})
            elif (name := bound(node)) is not None:
                pieces[name] = Piece(name, segment(source, node), names_in(node))
    return Library(pieces, imports)


def bound(node: ast.stmt) -> str | None:
    """The name a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def segment(source: str, node: ast.stmt) -> str:
    """The statement's text, decorators included."""
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def names_in(node: ast.AST) -> frozenset[str]:
    """Every name a statement mentions."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
