"""Run one test against a reply that lives in another process: `PYTHONPATH=.. python -S one_test.py ASK HEAR SAY < TEST.json`.

TEST.json: program, names, setup, seconds, typed (a file). Descriptors: requests go out on ASK, answers come in on HEAR, the
verdict goes out on SAY: `{"value": true} | {"error": ..}`. `setup` is run first; then each of `names` stands for what the
reply's code calls so; then the program is run, and when it ends the reply has passed. Of the reply nothing but plain values
gets here, and all that it may do is give them: it compares nothing, raises nothing but errors that Python has, and is never
asked whether it is right.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import fork_isolation
from loading import load
from one_answer import confine, tell

MOST = 1 << 22  # bytes of one answer


class GoneError(Exception):
    """The reply's process is over, or says nothing that can be read."""


class Line:
    """Questions to the reply's process."""

    def __init__(self, ask: int, hear: int, typed: Any) -> None:
        self.ask, self.heard, self.typed = ask, os.fdopen(hear, "rb"), typed
        self.things: dict[int, Remote] = {}

    def __call__(self, *request: Any) -> Any:
        """What a request gives; an error of the reply's is an error here."""
        tell(self.ask, (json.dumps(self.typed.encoded(list(request), number_of)) + "\n").encode())
        told = self.heard.readline(MOST)
        if not told.endswith(b"\n"):
            raise GoneError
        answer = json.loads(told)
        if "error" in answer:
            raise error_of(answer["error"])
        return self.typed.decoded(answer["value"], self.thing)

    def thing(self, number: int) -> Remote:
        """What the reply calls by that number; the same each time."""
        return self.things.setdefault(number, Remote(self, int(number)))


class Remote:
    """Something that stayed with the reply: it can be called, asked for its parts, and that is all."""

    def __init__(self, line: Line, number: int) -> None:
        object.__setattr__(self, "__line", line)
        object.__setattr__(self, "__number", number)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call it."""
        return line_of(self)("call", self, list(args), named)

    def __getattr__(self, name: str) -> Any:
        """One of its attributes."""
        if name.startswith("__"):
            raise AttributeError(name)
        return line_of(self)("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute."""
        line_of(self)("set", self, name, value)

    def __iter__(self) -> Iterator[Any]:
        """What is in it."""
        return iter(line_of(self)("items", self))

    def __len__(self) -> int:
        """How much is in it."""
        return int(line_of(self)("len", self))

    def __getitem__(self, key: Any) -> Any:
        """What is at that place."""
        return line_of(self)("at", self, key)

    def __bool__(self) -> bool:
        """A thing, not an answer: no test passes because of it. Raises TypeError."""
        raise TypeError("no plain value")


def line_of(thing: Remote) -> Line:
    """The line to where it is."""
    line: Line = object.__getattribute__(thing, "__line")
    return line


def number_of(thing: Any) -> int:
    """What the reply knows it by. Raises TypeError for anything of our own."""
    if type(thing) is not Remote:
        raise TypeError(type(thing).__name__)
    return int(object.__getattribute__(thing, "__number"))


def error_of(name: Any) -> Exception:
    """The error of that name; one that Python does not know, or that is none, is a RuntimeError."""
    kind = getattr(builtins, str(name), None)
    plain = isinstance(kind, type) and issubclass(kind, Exception) and kind is not StopIteration
    try:
        return kind("in the reply") if plain else RuntimeError("in the reply")
    except TypeError:
        return RuntimeError("in the reply")


def main(ask: int, hear: int, say: int) -> None:
    """Close this process to all others and confine it, then run the test."""
    fork_isolation.closed_to_others(True)
    test = json.loads(sys.stdin.buffer.read())
    line = Line(ask, hear, load(test["typed"]))
    confine(test["seconds"])
    tell(say, json.dumps(verdict(test, line)).encode())
    os._exit(0)


def verdict(test: dict[str, Any], line: Line) -> dict[str, Any]:
    """Whether the program comes to its end."""
    random.seed(0)
    space: dict[str, Any] = {"__name__": "test"}
    try:
        exec(compile(test["setup"], "setup.py", "exec"), space)  # noqa: S102 - it is what this process is for
        space.update({name: line("name", name) for name in test["names"]})
        exec(compile(test["program"], "test.py", "exec"), space)  # noqa: S102
    except BaseException as e:  # noqa: BLE001 - also exit()
        return {"error": type(e).__name__}
    return {"value": True}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
