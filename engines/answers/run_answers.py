"""Run the code of answers, a process each: `PYTHONPATH=.. python -S run_answers.py JOB.json`.

JOB.json: out, seconds (CPU time of one answer), sets [{model, set, items}] (`items`: JSON Lines with id, code, entry,
inputs). `out/results.json`, written last: {"results": [{model, set, items: [{id, results, why}]}]}; `results` is what
the calls gave, null where the code gave nothing, `why` says why. What would be right is nowhere in here: the values are
compared outside. Prints progress as JSON lines.

An answer's process sees its own item, may write one empty folder, makes no processes and reaches no other process.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import walls
import warden
from one_answer import plain

CHILD = Path(__file__).with_name("one_answer.py")
MOST = 1 << 16  # bytes of what one answer gives
SLACK, TIMES = 10.0, 4.0  # an answer may wait: its wall clock ends it after TIMES its CPU time and SLACK seconds


def main(job_file: Path) -> None:
    """Every answer, then the results."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    warden.adopt_orphans()
    walls.closed_to_others(True)
    sets = [{**given, "items": rows(Path(given["items"]))} for given in job["sets"]]
    total, done = sum(len(given["items"]) for given in sets), 0
    results: list[dict[str, Any]] = []
    for given in sets:
        found = []
        for item in given["items"]:
            found.append({"id": item["id"], **run(item, job["seconds"])})
            done += 1
            print(json.dumps({"done": done, "total": total, "unit": "answers"}), flush=True)
        results.append({"model": given["model"], "set": given["set"], "items": found})
    leave(Path(job["out"]), {"results": results})


def rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(item: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What one answer gives, and why nothing where it gives nothing."""
    place = Path(tempfile.mkdtemp())
    try:
        said, why = hear(item, seconds, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if why:
        return {"results": None, "why": why}
    try:
        found = plain(json.loads(said))
    except (ValueError, TypeError, RecursionError):
        return {"results": None, "why": "ended early"}
    whole = isinstance(found, list) and len(found) == len(item["inputs"])
    return {"results": found, "why": ""} if whole else {"results": None, "why": "ended early"}


def hear(item: dict[str, Any], seconds: float, place: Path) -> tuple[bytes, str]:
    """What its process says before it ends; nothing of it lives afterwards."""
    ours, theirs = os.pipe()
    env = {"HOME": str(place), "TMPDIR": str(place), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    env |= {"PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1", "PYTHONPATH": str(CHILD.parent.parent)}
    with tempfile.TemporaryFile() as asked:
        asked.write(json.dumps({**item, "seconds": seconds}).encode())
        asked.seek(0)
        p = subprocess.Popen(
            [sys.executable, "-S", "-B", str(CHILD), str(theirs)],
            stdin=asked,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=place,
            env=env,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    os.close(theirs)
    try:
        return collect(ours, time.monotonic() + TIMES * seconds + SLACK)
    finally:
        os.close(ours)
        p.kill()
        p.wait()
        end_all()


def collect(handle: int, deadline: float) -> tuple[bytes, str]:
    """Everything up to the end, or why it is not taken."""
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([handle], [], [], left)[0]:
            continue
        piece = os.read(handle, 1 << 16)
        if not piece:
            return b"".join(pieces), ""
        pieces.append(piece)
        if sum(map(len, pieces)) > MOST:
            return b"", "said too much"
    return b"", "took too long"


def end_all() -> None:
    """Whatever an answer left running, where no filter kept it from starting processes."""
    while living := list(warden.descendants(os.getpid())):
        warden.kill(living)
        for _ in iter(warden.wait_any, None):
            continue


def leave(out: Path, value: Any) -> None:
    """The results, and nothing else that may have come into the folder."""
    for path in out.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    part = out / "results.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as f:
        json.dump(value, f, allow_nan=False)
        f.flush()
        os.fsync(f.fileno())
    part.replace(out / "results.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
