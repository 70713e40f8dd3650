"""Make items of one task from seeds: `python make_items.py JOB.json`.

JOB.json: out, typed (the file `typed_json.py`), task, options, seconds (after which no further item is begun), streams
[{name, seed, count}] in the order of their turns. `out/items.json`: {"streams": {name: [{question, answer, entry, steps,
metadata}]}, "late": whether time ended it}, or {"error": why the task cannot be made}. `entry` is what `score_answer` gets,
with Python's types; `answer` is null where the task has none; `metadata` is the generator's as plain JSON.

The streams take turns, one item each, and no question is taken twice: what a small generator has is spread over all.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

MISSES = 300  # items in a row that a stream makes in vain before it counts as exhausted
TRIES = 20_000  # of one stream, as many as every task allows; seeds of two streams are farther apart
STEPS = ("answer_cot",)  # fields of metadata that hold worked steps
LONGEST = 300


class Stream:
    """Items of consecutive seeds."""

    def __init__(self, dataset: Any, name: str, count: int) -> None:
        """The stream takes `count` items at most."""
        self.dataset, self.name, self.count = dataset, name, count
        self.items: list[dict[str, Any]] = []
        self.at, self.misses, self.failure = 0, 0, ""

    @property
    def over(self) -> bool:
        """Whether it has all that it wants, or all that there is."""
        return len(self.items) >= self.count or self.misses >= MISSES or self.at >= TRIES

    def take(self, seen: set[str], typed: ModuleType, until: float) -> None:
        """The next item whose question was not seen; none where it runs out of them or of time."""
        while not self.over and time.monotonic() < until:
            self.at += 1
            try:
                made = as_row(self.dataset[self.at - 1], typed)
            except Exception as e:  # noqa: BLE001 - whatever a generator raises, this seed gives no item
                self.misses, self.failure = self.misses + 1, reason(e)
                continue
            mark = " ".join(made["question"].casefold().split())
            if mark in seen:
                self.misses += 1
                continue
            seen.add(mark)
            self.items.append(made)
            self.misses = 0
            return


def as_row(entry: dict[str, Any], typed: ModuleType) -> dict[str, Any]:
    """An item as JSON has it. Raises TypeError for what has no form there, ValueError where nothing is the right answer."""
    question, answer, metadata = str(entry["question"]), entry.get("answer"), entry.get("metadata") or {}
    if answer is not None and not str(answer).strip():
        raise ValueError("its right answer is empty: no reply that says nothing is taken for one")
    steps = next((str(metadata[name]) for name in STEPS if metadata.get(name)), "")
    plain = json.loads(json.dumps({k: v for k, v in metadata.items() if k not in STEPS}, default=str))
    own = {"entry": typed.encoded(entry), "metadata": plain, "steps": steps}
    return {"question": question, "answer": None if answer is None else str(answer), **own}


def reason(failure: Exception) -> str:
    """What went wrong; of an assertion that says nothing its source."""
    said = str(failure) or next((f.line or "" for f in reversed(traceback.extract_tb(failure.__traceback__))), "")
    return f"{type(failure).__name__}: {said}"[:LONGEST]


def load(file: str) -> ModuleType:
    """A module by its path."""
    spec = importlib.util.spec_from_file_location("typed_json", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(job: dict[str, Any]) -> dict[str, Any]:
    """All streams, or why there is none."""
    warnings.simplefilter("ignore")
    import reasoning_gym

    typed, until, seen = load(job["typed"]), time.monotonic() + job["seconds"], set[str]()
    try:
        streams = [
            Stream(
                reasoning_gym.create_dataset(job["task"], seed=one["seed"], size=TRIES, **job["options"]),
                one["name"],
                one["count"],
            )
            for one in job["streams"]
        ]
    except Exception as e:  # noqa: BLE001 - a config that its class turns down, by whatever error
        return {"error": reason(e)}
    total, said = sum(one.count for one in streams), 0
    while (open_ones := [one for one in streams if not one.over]) and time.monotonic() < until:
        for one in open_ones:
            one.take(seen, typed, until)
        if (done := sum(len(one.items) for one in streams)) >= said + 100:
            said = done
            print(json.dumps({"done": done, "total": total, "unit": "items"}), flush=True)
    failure = next((one.failure for one in streams if one.failure), "")
    if not seen and failure:
        return {"error": failure}
    return {"streams": {one.name: one.items for one in streams}, "late": any(not one.over for one in streams)}


def main(file: str) -> None:
    """Read the job, make, write last."""
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    out = Path(job["out"]) / "items.json"
    part = out.with_suffix(".part")
    part.write_text(json.dumps(make(job)), encoding="utf-8")
    part.replace(out)


if __name__ == "__main__":
    main(sys.argv[1])
