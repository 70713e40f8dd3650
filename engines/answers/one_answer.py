"""Run the code of one answer and say what its calls give: `PYTHONPATH=.. python -S one_answer.py DESCRIPTOR < ITEM.json`.

ITEM.json: code, entry, inputs, seconds, typed (a file, or ""). Goes to the descriptor: `[{"value": ..} | {"error": ..}, ..]`,
one a call. Inputs and values are JSON's own, or Python's plain ones as `typed` writes them.
Whatever the code does to this process, it can only change what itself is said to give; what would be right is not here.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import landlock
from loading import load
from syscall_filter import forbid

MEMORY, FILE, FILES = 1 << 30, 16 << 20, 64
DEEPEST = 50
LARGEST = 1 << 1024


def main(handle: int) -> None:
    """Confine this process, then do it."""
    item = json.loads(sys.stdin.buffer.read())
    typed = load(item["typed"]) if item["typed"] else None
    inputs, write = (typed.decoded(item["inputs"]), typed.encoded) if typed else (item["inputs"], plain)
    confine(item["seconds"])
    tell(handle, json.dumps(results(item["code"], item["entry"], inputs, write)).encode())
    os._exit(0)  # threads of the code's and what it registered for the end do not hold it up


def tell(handle: int, said: bytes) -> None:
    """Write all of it."""
    while said:
        said = said[os.write(handle, said) :]


def confine(seconds: float, memory: int = MEMORY) -> None:
    """Time, memory and files are bounded; the working folder is all that can be written, Python all that can be read."""
    whole = max(1, round(seconds))
    bounds = {
        resource.RLIMIT_CPU: whole,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: FILE,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in bounds.items():
        resource.setrlimit(what, (most, most))
    python = {str(Path(place).resolve()) for place in (sys.prefix, sys.base_prefix)}
    with contextlib.suppress(landlock.Missing):  # then the sandbox around all answers remains
        landlock.restrict(landlock.allow(python, [str(Path.cwd())], shared_memory=False))
    forbid()


def results(code: str, entry: str, inputs: list[list[Any]], write: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """What each call gives; an error at once is the error of every call."""
    space: dict[str, Any] = {"__name__": "answer"}
    try:
        exec(compile(code, "answer.py", "exec"), space)  # noqa: S102 - it is what this process is for
        function = space[entry]
    except BaseException as e:  # noqa: BLE001 - also exit()
        return [{"error": type(e).__name__}] * len(inputs)
    return [result(function, arguments, write) for arguments in inputs]


def result(function: Any, arguments: list[Any], write: Callable[[Any], Any]) -> dict[str, Any]:
    """What one call gives, as `write` has it."""
    try:
        return {"value": write(function(*copy.deepcopy(arguments)))}
    except BaseException as e:  # noqa: BLE001 - also exit()
        return {"error": type(e).__name__}


def plain(value: Any, depth: int = 0) -> Any:
    """The value if it is made of JSON's types; tuples are lists. Raises TypeError for any other, also a subclass."""
    kind = type(value)
    if depth > DEEPEST:
        raise RecursionError
    if kind is float and not math.isfinite(value):
        return {"no number": str(value)}
    if kind is str:
        value.encode()  # half a character is no text
    if value is None or kind in (bool, float, str) or (kind is int and -LARGEST < value < LARGEST):
        return value
    if kind in (list, tuple):
        return [plain(inner, depth + 1) for inner in value]
    if kind is dict and all(type(name) is str for name in value):
        return {name: plain(inner, depth + 1) for name, inner in value.items()}
    raise TypeError


if __name__ == "__main__":
    main(int(sys.argv[1]))
