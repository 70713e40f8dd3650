"""Answer what a test asks of a reply's code: `PYTHONPATH=.. python -S serve_answer.py ASKED SAID < ITEM.json`.

ITEM.json: code, seconds, typed (a file). Both arguments are descriptors: requests come in on one, a JSON line each, and what
became of them goes out on the other: `{"value": ..} | {"error": ..}`. Values are plain ones (`typed`); whatever else the code
makes stays here, and the test knows it by a number. The code runs when the first request is there, not before: by then
nothing of the test can be reached any more. What the test wants is not here.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from loading import load
from one_answer import confine, tell

MOST_ITEMS = 100_000


class Served:
    """What the code made: its names, and the things that stayed here."""

    def __init__(self, typed: Any) -> None:
        self.typed, self.space = typed, {"__name__": "answer"}
        self.things: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.verbs: dict[str, Callable[..., Any]] = {
            "name": lambda name: self.space[name],
            "call": lambda thing, args, named: thing(*args, **named),
            "get": getattr,
            "set": setattr,
            "items": lambda thing: list(itertools.islice(thing, MOST_ITEMS)),
            "len": len,
            "at": lambda thing, key: thing[key],
        }

    def keep(self, thing: Any) -> int:
        """Its number, the same each time."""
        if id(thing) not in self.numbers:
            self.things.append(thing)
            self.numbers[id(thing)] = len(self.things) - 1
        return self.numbers[id(thing)]

    def answer(self, request: list[Any]) -> dict[str, Any]:
        """What a request gives."""
        try:
            verb, *arguments = self.typed.decoded(request, self.things.__getitem__)
            return {"value": self.typed.encoded(self.verbs[verb](*arguments), self.keep)}
        except BaseException as e:  # noqa: BLE001 - also exit()
            return {"error": type(e).__name__}


def main(asked: int, said: int) -> None:
    """Confine this process, then serve until nobody asks any more."""
    item = json.loads(sys.stdin.buffer.read())
    served = Served(load(item["typed"]))
    confine(item["seconds"])
    failed: dict[str, Any] | None = None
    with os.fdopen(asked, "r", encoding="utf-8") as requests:
        for number, line in enumerate(requests):
            if number == 0:
                failed = run(item["code"], served.space)
            told = failed or served.answer(json.loads(line))
            tell(said, (json.dumps(told) + "\n").encode())
    os._exit(0)


def run(code: str, space: dict[str, Any]) -> dict[str, Any] | None:
    """Run the code; what it ended with, where it did not come to its end."""
    try:
        exec(compile(code, "answer.py", "exec"), space)  # noqa: S102 - it is what this process is for
    except BaseException as e:  # noqa: BLE001 - also exit()
        return {"error": type(e).__name__}
    return None


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
