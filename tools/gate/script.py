"""Reads a `process_data.py` before it runs: does it parse, import only what the engine has, and keep its contract."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

NAME = "process_data.py"
NETWORK = frozenset(
    {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "socketserver", "ssl", "urllib3"}
)
NETWORK_PARTS = frozenset({"urllib.request", "http.client", "huggingface_hub", "openai", "litellm", "xmlrpc.client"})
PROCESSES = frozenset({"subprocess", "pty", "ctypes", "_posixsubprocess"})
PROCESS_CALLS = frozenset({"system", "popen", "fork", "execv", "execve", "execvp", "spawnv", "posix_spawn"})
RUNS_TEXT = frozenset({"eval", "exec", "__import__", "compile"})

# What the training engine has and a data script has use for.
ENGINE_MODULES = frozenset(
    {"datasets", "dateutil", "jinja2", "numpy", "packaging", "pandas", "pyarrow", "pydantic", "regex", "tokenizers"}
    | {"tqdm", "transformers", "xxhash", "yaml"}
)

Allowed = frozenset[str] | Callable[[str], bool]


def check_script(code: str, allowed: Allowed = ENGINE_MODULES) -> list[str]:
    """What is wrong, one sentence each; [] when nothing is.

    `allowed`: names of top-level modules beyond the standard library that the engine has, or a test for one.
    """
    try:
        tree = ast.parse(code, NAME)
    except SyntaxError as e:
        text = (e.text or "").strip()[:80]
        return [
            f"{NAME}:{e.lineno or 1}: {e.msg}{f' in {text!r}' if text else ''}; right is a script that Python can read"
        ]
    except (ValueError, RecursionError, MemoryError) as e:
        return [f"{NAME}:1: Python cannot read it: {e}"]
    return [*_imports(tree, allowed), *_calls(tree), *_contract(tree)]


def _imports(tree: ast.Module, allowed: Allowed) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _import(alias.name, node.lineno, allowed)
            case ast.ImportFrom(level=level) if level:
                yield f"{NAME}:{node.lineno}: a relative import finds nothing; the script is one file"
            case ast.ImportFrom(module=str(module), names=names):
                parts = [f"{module}.{a.name}" for a in names if f"{module}.{a.name}" in NETWORK_PARTS]
                yield from _import(parts[0] if parts else module, node.lineno, allowed)


def _import(module: str, line: int, allowed: Allowed) -> Iterator[str]:
    top = module.partition(".")[0]
    if top in NETWORK or module in NETWORK_PARTS or top in NETWORK_PARTS:
        yield f"{NAME}:{line}: imports {module}, and the script has no network; read the files below DATASETS_DIR"
    elif top in PROCESSES:
        yield f"{NAME}:{line}: imports {module}, and the script may not start processes; do the work in Python"
    elif top not in sys.stdlib_module_names and not (allowed(top) if callable(allowed) else top in allowed):
        have = (
            f"; of others there are {', '.join(sorted(allowed))}" if isinstance(allowed, frozenset) and allowed else ""
        )
        yield f"{NAME}:{line}: imports {module}, which the engine does not have; right is the standard library{have}"


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in RUNS_TEXT:
                yield f"{NAME}:{node.lineno}: calls {name}(); write what it shall do as code, e.g. json.loads for data"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)) if name in PROCESS_CALLS:
                yield f"{NAME}:{node.lineno}: calls os.{name}(), and the script may not start processes"


def _contract(tree: ast.Module) -> Iterator[str]:
    """The script takes `--debug` and writes `data.json`: looked for as text in the code, not in docstrings."""
    texts = list(_texts(tree))
    if not any(text.endswith("data.json") for text in texts):
        yield f'{NAME}: never names data.json; right is json.dump(rows, ...) into "data.json" in the working folder'
    if not any(text == "--debug" for text in texts):
        yield f'{NAME}: does not take --debug; right is add_argument("--debug", action="store_true"), a try on few rows'


def _texts(tree: ast.Module) -> Iterator[str]:
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value
