"""Tests of code as public sets have them: asserts that are plain values become calls, the others a program that decides.

What is expected of a call stays out of every sandbox. A program has to be run to know what it expects; it gets a process of
its own, and the reply's code another.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tuneloop.core.catalog import Calls, Program
from tuneloop.tools.scoring import typed_json

Judged = tuple[Calls | Program, str]  # how a reply is run, and what it has to give
PASSED = "[true]"
NOT_PLAIN = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


def calls_from_asserts(asserts: str, known: str, before: str = "") -> Judged:
    """How a list of asserts decides about a reply; `known` is a solution, which tells what names a reply brings along.

    Raises ValueError when the asserts are no Python.
    """
    tests = parse_code(asserts)
    names, imports = borrowed_names(tests, parse_code(known))
    if len(names) == 1 and (found := asserts_to_calls(tests.body, names[0], before)):
        return found
    return Program(program=asserts, names=tuple(names), setup=imports, before=before), PASSED


def calls_from_check(test: str, entry: str, before: str) -> Judged:
    """How `check(candidate)` decides about the function `entry`, of which `before` has the head. Raises ValueError."""
    functions = [node for node in parse_code(test).body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if len(functions) == 1 and (
        found := asserts_to_calls(functions[0].body, functions[0].args.args[0].arg, before, entry)
    ):
        return found
    program = f"{test}\n\ncheck({entry})\n"
    return Program(program=program, names=(entry,), setup=before.rstrip() + "\n    pass\n", before=before), PASSED


def parse_code(code: str) -> ast.Module:
    """The code's tree. Raises ValueError when it is no Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, RecursionError, MemoryError) as e:
        raise ValueError(f"no Python: {code[:60]!r}: {e}") from e


def asserts_to_calls(statements: Sequence[ast.stmt], name: str, before: str, entry: str = "") -> Judged | None:
    """The asserts as calls of `name`, and what each has to give; None when one of them is anything else."""
    try:
        pairs = [assert_to_call(one, name) for one in statements if not is_no_op(one)]
        inputs = [typed_json.encoded(arguments) for arguments, _ in pairs]
        values = [typed_json.encoded(value) for _, value in pairs]
    except NOT_PLAIN:
        return None
    if not pairs:
        return None
    calls = Calls(entry=entry or name, inputs=inputs, typed=True, before=before)
    return calls, json.dumps({"typed": values}, sort_keys=True)


def assert_to_call(statement: ast.stmt, name: str) -> tuple[list[Any], Any]:
    """Arguments and value in `assert name(..) == value`, all of them written out. Raises ValueError for anything else."""
    match statement:
        case ast.Assert(
            test=ast.Compare(
                left=ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]),
                ops=[ast.Eq()],
                comparators=[value],
            )
        ) if called == name:
            return [ast.literal_eval(one) for one in arguments], ast.literal_eval(value)
    raise ValueError("no call with a value")


def is_no_op(statement: ast.stmt) -> bool:
    """Whether it says nothing about a reply: a text, `pass`, `assert True`."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Assert(test=ast.Constant(value=True)):
            return True
    return False


def borrowed_names(tests: ast.Module, known: ast.Module) -> tuple[list[str], str]:
    """Names that the tests take from a reply, and the imports that they take from it and that anybody can do."""
    used = {node.id for node in ast.walk(tests) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    free = used - bound_names(ast.walk(tests))
    made = bound_names(node for node in known.body if not isinstance(node, ast.Import | ast.ImportFrom))
    imports = [
        node for node in known.body if isinstance(node, ast.Import | ast.ImportFrom) and bound_names([node]) & free
    ]
    foreign = free - bound_names(imports)
    return sorted(n for n in foreign if n in made or not hasattr(builtins, n)), "\n".join(map(ast.unparse, imports))


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that these statements or expressions give something to."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {(one.asname or one.name).partition(".")[0] for one in names}
            case ast.Assign(targets=targets):
                found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found
