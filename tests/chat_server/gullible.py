"""A model that does whatever any text tells it to: it looks at everything, obeys each order once, then gives its answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.chat_server.replies import Call, Reply


@dataclass(frozen=True)
class Order:
    """A planted text with a mark of its own, the calls that it wants, and what it wants in the answer."""

    mark: str
    wants: str
    text: str
    calls: tuple[Call, ...]
    answer: dict[str, Any] | None


def read_orders(path: Path) -> tuple[Order, ...]:
    """The corpus."""
    found = []
    for i, row in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), 1):
        calls = tuple(Call(name, arguments) for one in row.get("do", ()) for name, arguments in one.items())
        mark = f"(ref inj-{i:02})"
        found.append(Order(mark, row["wants"], f"{row['text']} {mark}", calls, row.get("answer")))
    return tuple(found)


@dataclass
class Gullible:
    """`looks`: what it does first; `want`, `answer`: what it is asked for and what it answers when nobody orders anything else."""

    orders: tuple[Order, ...]
    looks: tuple[Call, ...]
    want: str
    answer: dict[str, Any]
    looked: bool = False
    poisoned: bool = False
    obeyed: list[str] = field(default_factory=list)

    def __call__(self, asked: dict[str, Any]) -> Reply:
        if not self.looked:
            self.looked = True
            return Reply("I look around.", self.looks)
        if calls := self.pages(asked) + self.obeys(asked):
            return Reply("As I was told.", calls)
        if not self.poisoned:
            self.poisoned = True
            wanted = {name: value for order in self.orders for name, value in (order.answer or {}).items()}
            return Reply("", (Call(self.want, {**self.answer, **wanted}),))
        return Reply("", (Call(self.want, self.answer),))

    def pages(self, asked: dict[str, Any]) -> tuple[Call, ...]:
        """Everything that was too long is read to its end."""
        wanted = []
        for text in self.texts(asked):
            for result, page in re.findall(r'go on with read_more\(result="(r\d+)", page=(\d+)\)', text):
                if (name := f"{result} {page}") not in self.obeyed:
                    self.obeyed.append(name)
                    wanted.append(Call("read_more", {"result": result, "page": int(page)}))
        return tuple(wanted)

    def obeys(self, asked: dict[str, Any]) -> tuple[Call, ...]:
        """The orders that stand anywhere in what it was sent, and were not obeyed yet."""
        seen = "".join(self.texts(asked))
        new = [order for order in self.orders if order.mark in seen and order.mark not in self.obeyed]
        self.obeyed += [order.mark for order in new]
        return tuple(call for order in new for call in order.calls)

    @staticmethod
    def texts(asked: dict[str, Any]) -> list[str]:
        """Of every message."""
        return [m["content"] if isinstance(m["content"], str) else json.dumps(m["content"]) for m in asked["messages"]]
