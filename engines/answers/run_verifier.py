"""Ask a verifier what answers are worth, a process each: `PYTHONPATH=.. python run_verifier.py JOB.json`.

JOB.json: out, seconds (CPU time of one answer), sets [{model, set, verifier, items}] (`verifier`: a Python file with
`score(answer, item)`; `items`: JSON Lines with id, answer, item and right, the right answer or ""). `out/results.json`,
written last: {"results": [{model, set, items: [{id, results, why}]}]}; `results` is `[{"value": ..}]` or
`[{"error": NAME}]`, null where the verifier did not come to its end. Prints progress as JSON lines.

The verifier is imported once and forked for each answer, so that no answer changes it for the next one. A verifier that
turns down the first right answer is broken: the job fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fork_isolation
import fork_parent
import scratch
from one_answer import confine, plain, tell
from run_answers import SCRATCH, SLACK, TIMES, collect, end_all, leave, rows

MEMORY = 4 << 30  # address space: libraries reserve more than they use
Score = Callable[[str, Any], Any]


def main(job_file: Path) -> None:
    """Every answer, then the results."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    fork_parent.adopt_orphans()
    fork_isolation.closed_to_others(True)
    sets = [{**given, "items": rows(Path(given["items"]))} for given in job["sets"]]
    total, done = sum(len(given["items"]) for given in sets), 0
    results: list[dict[str, Any]] = []
    for given in sets:
        score, found = load_score(Path(given["verifier"])), []
        check(score, given["items"], job)
        for item in given["items"]:
            found.append({"id": item["id"], **worth(score, item["answer"], item, job)})
            done += 1
            print(json.dumps({"done": done, "total": total, "unit": "answers"}), flush=True)
        results.append({"model": given["model"], "set": given["set"], "items": found})
    leave(Path(job["out"]), {"results": results})


def load_score(file: Path) -> Score:
    """The function `score` of a file. Ends the job where it has none."""
    spec = importlib.util.spec_from_file_location("verifier", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["verifier"] = module
    try:
        spec.loader.exec_module(module)
        score: Score = module.score
    except Exception as e:
        raise SystemExit(f"the verifier cannot be loaded: {type(e).__name__}: {e}"[:300]) from e
    return score


def check(score: Score, items: list[dict[str, Any]], job: dict[str, Any]) -> None:
    """Ends the job where the first item that has a right answer does not get more than nothing for it."""
    known = next((item for item in items if item["right"]), None)
    if known is None:
        return
    said = worth(score, known["right"], known, job)
    given = (said["results"] or [{"error": said["why"]}])[0]
    value = given.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise SystemExit(f"the verifier gives {json.dumps(given)} to the right answer of item {known['id']}")


def worth(score: Score, answer: str, item: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """What the verifier says of one answer, and why nothing where it says nothing."""
    place = scratch.make(Path(job["out"]) / SCRATCH)
    ours, theirs = os.pipe()
    try:
        if not (pid := os.fork()):
            say(theirs, score, answer, item["item"], job["seconds"], place)
        os.close(theirs)
        now = time.monotonic()
        watch = scratch.Watch(place, [SimpleNamespace(pid=pid)], now)
        said, why = collect(ours, now + TIMES * job["seconds"] + SLACK, watch)
    finally:
        os.close(ours)
        end_all()
        scratch.remove(place)
    return read(said, why)


def say(handle: int, score: Score, answer: str, item: Any, seconds: float, place: Path) -> None:
    """In the fork: be confined, ask, tell, end."""
    try:
        os.chdir(place)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        confine(seconds, MEMORY)
        try:
            said = {"value": plain(float(score(answer, item)))}
        except BaseException as e:  # noqa: BLE001 - also exit()
            said = {"error": type(e).__name__}
        tell(handle, json.dumps([said]).encode())
    finally:
        os._exit(0)


def read(said: bytes, why: str) -> dict[str, Any]:
    """As results; what cannot be read is nothing."""
    if why:
        return {"results": None, "why": why}
    try:
        found = plain(json.loads(said))
    except (ValueError, TypeError, RecursionError):
        return {"results": None, "why": "ended early"}
    whole = isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict)
    return {"results": found, "why": ""} if whole else {"results": None, "why": "ended early"}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
