"""A user's `Task` class: its samples as JSON Lines, and its verdict on a reply: `python user_task.py TASK.py OUT`.

The class has `name`, `load_train`, `load_test`, `extract_answer(model_output)` and `check_answer(extracted, gold)`. It may
import `Task` and `Sample` from `tasks.base`, which stand in this file. OUT gets `train.jsonl` (prompt, answer, reply)
and `test.jsonl` (prompt, answer). What is wrong is one line, `error: ...`, and exit status 1.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

METHODS = ("name", "load_train", "load_test", "extract_answer", "check_answer")
PROMPT = ("prompt", "question", "problem", "input")
GOLD = ("gold", "gold_answer", "final_answer", "target", "label", "answer")
REPLY = ("solution", "completion", "response", "full_answer", "answer", "gold")
TRIED = 20  # test samples whose gold answer the checker is asked about
MOST = 200_000  # samples of a split


class Sample:
    """One problem; fields as they are given, without names question, answer and solution."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        self.__dict__.update(zip(("question", "answer", "solution"), values, strict=False), **fields)


class Task:
    """What a user's task derives from."""


class Text(importlib.abc.InspectLoader):
    """A module whose source is given."""

    def __init__(self, source: str) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        """The source."""
        return self.source


def load_task(source: str, file: str = "") -> Any:
    """The task that a source defines. Raises ValueError where there is none, or more than one."""
    for name in ("tasks", "tasks.base", "src", "src.tasks", "src.tasks.base"):
        module = ModuleType(name)
        module.__dict__.update(Task=Task, Sample=Sample, __path__=[])
        sys.modules[name] = module
    loader = Text(source)
    spec = importlib.util.spec_from_loader("user_task", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__file__"] = file
    sys.modules["user_task"] = module
    loader.exec_module(module)
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == "user_task"]
    found = [one for one in own if issubclass(one, Task) or all(hasattr(one, name) for name in METHODS)]
    if len(found) != 1:
        raise ValueError(f"defines {len(found)} classes that are a task; right is one with {', '.join(METHODS)}")
    if missing := [name for name in METHODS if not hasattr(found[0], name)]:
        raise ValueError(f"{found[0].__name__} has no {', '.join(missing)}")
    return found[0]()


def verdict(task: Any, reply: str, item: dict[str, Any]) -> float:
    """What a reply is worth."""
    found = task.extract_answer(reply)
    return float(found is not None and bool(task.check_answer(found, item["answer"])))


def field(sample: Any, names: tuple[str, ...], what: str) -> str:
    """The first field that is there, as text. Raises ValueError."""
    values = sample if isinstance(sample, dict) else vars(sample)
    for name in names:
        if values.get(name) is not None and values[name] != "":
            return str(values[name])
    raise ValueError(f"a sample has no {what} ({', '.join(names)}): it has {', '.join(values) or 'nothing'}")


def rows(task: Any, split: str) -> list[dict[str, str]]:
    """The samples of a split. Raises ValueError."""
    found = list(getattr(task, f"load_{split}")())
    if not 0 < len(found) <= MOST:
        raise ValueError(f"load_{split} gives {len(found)} samples; right is 1 to {MOST}")
    wanted = {"prompt": PROMPT, "answer": GOLD, **({"reply": REPLY} if split == "train" else {})}
    return [{name: field(one, names, name) for name, names in wanted.items()} for one in found]


def check(task: Any, test: list[dict[str, str]]) -> None:
    """Raises ValueError where the checker turns down what is right."""
    for row in test[:TRIED]:
        task.extract_answer(row["answer"])
        if not task.check_answer(row["answer"], row["answer"]):
            raise ValueError(f"check_answer turns down the gold answer {row['answer'][:80]!r} itself")


def main(file: Path, out: Path) -> None:
    """Write both splits, the test last."""
    try:
        task = load_task(file.read_text(encoding="utf-8"), str(file))
        found = {split: rows(task, split) for split in ("train", "test")}
        check(task, found["test"])
    except Exception as e:  # noqa: BLE001 - whatever the user's file raises
        kind = "" if type(e) is ValueError else f"{type(e).__name__}: "
        sys.exit(f"error: {kind}{' '.join(str(e).split())[:300]}")
    for split, samples in found.items():
        text = "".join(json.dumps(row) + "\n" for row in samples)
        (out / f"{split}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
