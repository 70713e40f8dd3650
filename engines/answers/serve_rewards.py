"""Score the replies of a training as they come: `PYTHONPATH=.. python serve_rewards.py JOB.json`.

JOB.json: exchange (folder), out (folder of its own), golds (JSON Lines, a row of the training each: answer, item), seconds
(CPU time of one verdict), idle (seconds without a question), stop (texts that end a reply), `loader`, `scoring`, `kind`,
`scorer`, `files` (`tools/scoring/scorer_loader.py` and what it wants) and, where a verifier decides, `verifier` (a Python
file with `score(answer, item)`).

In the folder `exchange` a file `NAME.ask` holds [{row, reply}]; it is answered by `NAME.told`, a number from 0 to 1 each.
Whoever asks never sees a right answer. A reply that breaks or stops its scorer is worth 0. It ends with
status 75 where nobody asks for `idle` seconds, or where `exchange` has a file `over`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_isolation
import fork_parent
from run_verifier import load_score, rows, worth

LOOK = 0.01  # seconds between two looks for questions
OVER = "over"  # a file of this name in `exchange`: the training has ended
IDLE = 75  # exit status: nobody asks any more; it is started again when somebody does
LARGEST = 64 << 20  # bytes of a question
Judge = Callable[[str, dict[str, Any]], float]


def main(file: Path) -> None:
    """Answer until nobody asks any more."""
    job = json.loads(file.read_text(encoding="utf-8"))
    fork_parent.adopt_orphans()
    fork_isolation.closed_to_others(True)
    golds, judge = rows(Path(job["golds"])), verified(job) if "verifier" in job else judged(job)
    exchange, last, done = Path(job["exchange"]), time.monotonic(), 0
    while time.monotonic() - last < job["idle"] and not (exchange / OVER).exists():
        for ask in sorted(exchange.glob("*.ask")):
            told = ask.with_suffix(".told")
            if told.exists() or (asked := read(ask)) is None:
                continue
            values = [value(judge, golds, one, job["stop"]) for one in asked]
            part = ask.with_suffix(".scored")
            part.write_text(json.dumps(values))
            part.replace(told)
            last, done = time.monotonic(), done + len(values)
            print(json.dumps({"done": done, "total": 0, "unit": "replies"}), flush=True)
        time.sleep(LOOK)
    sys.exit(IDLE)


def read(ask: Path) -> list[Any] | None:
    """What is asked, None where it was taken back. The folder is the asker's too: no link, no device, nothing endless."""
    try:
        handle = os.open(ask, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as f:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SystemExit(f"error: {ask.name} is no file")
        found = json.loads(f.read(LARGEST))
    if not isinstance(found, list):
        raise SystemExit(f"error: {ask.name} is no list")
    return found


def value(judge: Judge, golds: list[dict[str, Any]], one: dict[str, Any], stops: list[str]) -> float:
    """What a reply is worth, up to the first of `stops`, as in an evaluation."""
    said = judge(cut(one["reply"], stops), golds[one["row"]])
    return said if 0 <= said <= 1 else 0.0


def cut(reply: str, stops: list[str]) -> str:
    """What stands before the first of the texts that end a reply (`cut` of `oc_generate.py`, which imports torch)."""
    return reply[: min((at for stop in stops if (at := reply.find(stop)) >= 0), default=len(reply))]


def verified(job: dict[str, Any]) -> Judge:
    """A verifier: a stranger's code on a stranger's text, in a process of its own each time."""
    score = load_score(Path(job["verifier"]))
    extract = loaded(job).load(Path(job["scoring"])).extract

    def judge(reply: str, gold: dict[str, Any]) -> float:
        answer = extract("verifier", reply)
        if not answer:
            return 0.0
        given = (worth(score, answer, gold, job)["results"] or [{}])[0].get("value", 0.0)
        return float(given) if isinstance(given, int | float) else 0.0

    return judge


def judged(job: dict[str, Any]) -> Judge:
    """A benchmark's own scorer, as evaluations use it."""
    load = loaded(job)
    scorer = load.judge_of(job["scoring"], job["kind"], job["scorer"], job["files"])
    return lambda reply, gold: float(load.judged(scorer, gold["answer"], reply)["value"])


def loaded(job: dict[str, Any]) -> Any:
    """`scorer_loader.py`."""
    spec = importlib.util.spec_from_file_location("scorer_loader", job["loader"])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["scorer_loader"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
