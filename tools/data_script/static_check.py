"""Reads a `process_data.py` before it runs: does it parse, import only what the engine has, and keep its contract."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

from tuneloop.core.untrusted import parse_python

NAME = "process_data.py"
NETWORK = frozenset(
    {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "socketserver", "ssl", "urllib3"}
)
NETWORK_PARTS = frozenset({"urllib.request", "http.client", "huggingface_hub", "openai", "litellm", "xmlrpc.client"})
CLIENT = "tuneloop_models"  # what scripts ask models with
TO_MODELS = frozenset({CLIENT, "http", "http.client", "httpx", "litellm", "openai", "requests", "urllib.request"})
PROCESSES = frozenset({"subprocess", "pty", "ctypes", "_posixsubprocess"})
PROCESS_CALLS = frozenset({"system", "popen", "fork", "execv", "execve", "execvp", "spawnv", "posix_spawn"})
RUNS_TEXT = frozenset({"eval", "exec", "__import__", "compile"})

# What the training engine has and a data script has use for.
ENGINE_MODULES = frozenset(
    {"datasets", "dateutil", "jinja2", "numpy", "packaging", "pandas", "pyarrow", "pydantic", "regex", "tokenizers"}
    | {"tqdm", "transformers", "xxhash", "yaml"}
)

Allowed = frozenset[str] | Callable[[str], bool]


def check_script(code: str, allowed: Allowed = ENGINE_MODULES, *, models: bool = False) -> list[str]:
    """What is wrong, one sentence each; [] when nothing is.

    `allowed`: names of top-level modules beyond the standard library that the engine has, or a test for one.
    `models`: the script may ask models, and import the client for that and what speaks HTTP.
    """
    try:
        tree = parse_python(code, NAME)
    except SyntaxError as e:
        text = (e.text or "").strip()[:80]
        return [
            f"{NAME}:{e.lineno or 1}: {e.msg}{f' in {text!r}' if text else ''}; right is a script that Python can read"
        ]
    except (ValueError, RecursionError, MemoryError) as e:
        return [f"{NAME}:1: Python cannot read it: {e}"]
    return [*_imports(tree, allowed, TO_MODELS if models else frozenset()), *_calls(tree), *_contract(tree)]


def _imports(tree: ast.Module, allowed: Allowed, reach: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _import(alias.name, node.lineno, allowed, reach)
            case ast.ImportFrom(level=level) if level:
                yield f"{NAME}:{node.lineno}: a relative import finds nothing; the script is one file"
            case ast.ImportFrom(module=str(module), names=names):
                parts = [f"{module}.{a.name}" for a in names if f"{module}.{a.name}" in NETWORK_PARTS]
                yield from _import(parts[0] if parts else module, node.lineno, allowed, reach)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield from _import(module, node.lineno, allowed, reach)


def _import(module: str, line: int, allowed: Allowed, reach: frozenset[str]) -> Iterator[str]:
    top = module.partition(".")[0]
    banned = top in NETWORK or module in NETWORK_PARTS or top in NETWORK_PARTS
    if banned and module not in reach and top not in reach:
        way = f"; models are asked with {CLIENT}" if reach else ""
        yield f"{NAME}:{line}: imports {module}, and the script has no network; read the files below DATASETS_DIR{way}"
    elif top == CLIENT and top not in reach:
        yield f"{NAME}:{line}: imports {CLIENT}, and this run names no models; right is a script that asks none"
    elif top in PROCESSES:
        yield f"{NAME}:{line}: imports {module}, and the script may not start processes; do the work in Python"
    elif top not in sys.stdlib_module_names | {CLIENT} and not (allowed(top) if callable(allowed) else top in allowed):
        have = (
            f"; of others there are {', '.join(sorted(allowed))}" if isinstance(allowed, frozenset) and allowed else ""
        )
        yield f"{NAME}:{line}: imports {module}, which the engine does not have; right is the standard library{have}"


def _calls(tree: ast.Module) -> Iterator[str]:
    known = _known_as(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func, known)
        module, _, part = name.rpartition(".")
        if name in RUNS_TEXT or (module == "builtins" and part in RUNS_TEXT):
            yield f"{NAME}:{node.lineno}: calls {part}(); write what it shall do as code, e.g. json.loads for data"
        elif module in ("os", "posix") and (part in PROCESS_CALLS or part.startswith(("exec", "spawn"))):
            yield f"{NAME}:{node.lineno}: calls os.{part}(), and the script may not start processes"
        elif name == "input":
            yield f"{NAME}:{node.lineno}: calls input(), and nobody answers; read the files below DATASETS_DIR"
        elif name == "open" and (path := _written_path(node)):
            yield (
                f"{NAME}:{node.lineno}: writes {path}, and only the working folder can be written; "
                'right is "data.json" in it'
            )


def text_constants(code: str) -> list[tuple[int, str]]:
    """Line and text of each constant; parts that are joined with `+` or in an f-string together as well."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(parse_python(code, NAME)):
        match node:
            case ast.Constant(value=str(text)):
                found.append((node.lineno, text))
            case ast.BinOp(op=ast.Add()) | ast.JoinedStr():
                parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                found.append((node.lineno, " ".join(parts)))
    return found


def _known_as(tree: ast.Module) -> dict[str, str]:
    """What imported names mean: `from os import system as s` is s → os.system."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return known


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """`a.b` with imported names spelt out; "" for anything but names."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, known)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _written_path(call: ast.Call) -> str:
    """The fixed path outside the working folder that an `open` writes; "" when it does not."""
    keywords = {k.arg: k.value for k in call.keywords}
    path, mode = [*call.args[:1], keywords.get("file")][0], [*call.args[1:2], keywords.get("mode")][0]
    match path, mode:
        case ast.Constant(value=str(where)), ast.Constant(value=str(how)) if set(how) & set("wax+"):
            return where if where.startswith(("/", "~", "../")) and not where.startswith("/tmp/") else ""  # noqa: S108
    return ""


def _contract(tree: ast.Module) -> Iterator[str]:
    """Writes `data.json`, takes `--debug` and respects it, needs no other argument; sought in code, not in docstrings."""
    texts = list(_string_constants(tree))
    if not any(text.endswith("data.json") for text in texts):
        yield f'{NAME}: never names data.json; right is json.dump(rows, ...) into "data.json" in the working folder'
    if not any(text == "--debug" for text in texts):
        yield f'{NAME}: does not take --debug; right is add_argument("--debug", action="store_true"), a try on few rows'
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield from _argument(node, tree)


def _argument(call: ast.Call, tree: ast.Module) -> Iterator[str]:
    """The script is called with `--debug` or nothing, and `--debug` must change what it does."""
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    options = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    where = f"{NAME}:{call.lineno}"
    if "--debug" in names:
        if options.get("action") != "store_true":
            yield f'{where}: --debug must be a switch; right is add_argument("--debug", action="store_true")'
        read = options.get("dest", "debug")
        if not _reads_attribute(tree, str(read)):
            yield f"{where}: --debug changes nothing; right is that the script looks at it and works on few rows only"
    elif names and not names[0].startswith("-") and options.get("nargs") not in ("?", "*"):
        yield f"{where}: needs the argument {names[0]}, and the script is called with --debug or nothing; give it a default"
    elif names and options.get("required") is True:
        yield f"{where}: requires {names[0]}, and the script is called with --debug or nothing; give it a default"


def _reads_attribute(tree: ast.Module, name: str) -> bool:
    """Whether an attribute of that name is read, by name or out of `vars`, or arguments are passed on whole."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=attr, ctx=ast.Load()) if attr == name:
                return True
            case ast.Constant(value=value) if value == name:
                return True
            case ast.Call(func=ast.Name(id="vars")):
                return True
    return False


def _string_constants(tree: ast.Module) -> Iterator[str]:
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value
