"""Run the code of answers, a process each: `PYTHONPATH=.. python -S run_answers.py JOB.json`.

JOB.json: out, seconds (CPU time of one answer), typed (a file), sets [{model, set, items}] (`items`: JSON Lines with id, code
and either entry, inputs, typed; or program, names, setup; or files, where the code draws). `out/results.json`, written last:
{"results": [{model, set, items: [{id, results, why}]}]}; `results` is what the calls gave, null where the code gave nothing,
`why` says why. What would be right is nowhere in here, the values are compared outside - but for programs that are tests:
such a one has a process of its own, and the answer's process gets nothing of it but questions. Prints progress as JSON lines.

An answer's process sees its own item, may write one empty folder, makes no processes and reaches no other process. Whatever it
does to its folder, the next answer has another one.
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

import fork_isolation
import fork_parent
import scratch
from one_answer import plain

HERE = Path(__file__).parent
MOST = 1 << 18  # bytes of what one answer gives
FONTS, SCRATCH = "fonts", "scratch"
SLACK, TIMES = 10.0, 4.0  # an answer may wait: its wall clock ends it after TIMES its CPU time and SLACK seconds


def main(job_file: Path) -> None:
    """Every answer, then the results."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    fork_parent.adopt_orphans()
    fork_isolation.closed_to_others(True)
    sets = [{**given, "items": rows(Path(given["items"]))} for given in job["sets"]]
    fonts = made_fonts() if any("files" in item for given in sets for item in given["items"]) else None
    base = Path(job["out"]) / SCRATCH
    total, done = sum(len(given["items"]) for given in sets), 0
    results: list[dict[str, Any]] = []
    for given in sets:
        found = []
        for item in given["items"]:
            found.append({"id": item["id"], **run({**item, "seconds": job["seconds"]}, job["typed"], fonts, base)})
            done += 1
            print(json.dumps({"done": done, "total": total, "unit": "answers"}), flush=True)
        results.append({"model": given["model"], "set": given["set"], "items": found})
    leave(Path(job["out"]), {"results": results})


def rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file, which end with a line feed alone: U+2028, U+2029 and U+0085 may stand in a row."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def run(item: dict[str, Any], typed: str, fonts: Path | None, base: Path) -> dict[str, Any]:
    """What one answer gives, and why nothing where it gives nothing; its folder lies below `base`. Raises OSError."""
    place = scratch.make(base)
    try:
        said, why = hear(item, typed, fonts, place)
    finally:
        scratch.remove(place)
    if why:
        return {"results": None, "why": why}
    try:
        found = plain(json.loads(said))
    except (ValueError, TypeError, RecursionError):
        return {"results": None, "why": "ended early"}
    found = [found] if "program" in item else found
    whole = isinstance(found, list) and len(found) == len(item.get("inputs", [1]))
    return {"results": found, "why": ""} if whole else {"results": None, "why": "ended early"}


def hear(item: dict[str, Any], typed: str, fonts: Path | None, place: Path) -> tuple[bytes, str]:
    """What its process, or its test's, says before it ends; nothing of either lives afterwards."""
    ours, theirs = os.pipe()
    if "program" in item:
        started = tested(item, typed, theirs, place)
    elif "files" in item:
        started = [start("draw_answer.py", [theirs], item, place, fonts)]
    else:
        started = [start("one_answer.py", [theirs], {**item, "typed": typed if item["typed"] else ""}, place)]
    os.close(theirs)
    try:
        now = time.monotonic()
        return collect(ours, now + TIMES * item["seconds"] + SLACK, scratch.Watch(place, started, now))
    finally:
        os.close(ours)
        for p in started:
            p.kill()
            p.wait()
        end_all()


def tested(item: dict[str, Any], typed: str, verdict: int, place: Path) -> list[subprocess.Popen[bytes]]:
    """The test and the answer, two processes that share two pipes; the verdict goes out from the test alone."""
    asked, ask = os.pipe()
    hear_it, say = os.pipe()
    shared = {"seconds": item["seconds"], "typed": typed}
    test = {name: item[name] for name in ("program", "names", "setup")} | shared
    apart = place / "test"
    apart.mkdir()
    started = [start("one_test.py", [ask, hear_it, verdict], test, apart)]
    answer = place / "answer"
    answer.mkdir()
    started.append(start("serve_answer.py", [asked, say], {"code": item["code"], **shared}, answer))
    for handle in (asked, ask, hear_it, say):
        os.close(handle)
    return started


def start(
    script: str, handles: list[int], asked: dict[str, Any], place: Path, fonts: Path | None = None
) -> subprocess.Popen[bytes]:
    """A process that gets these descriptors and `asked`, in the folder `place`."""
    env = {"HOME": str(place), "TMPDIR": str(place), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    env |= {"PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1", "PYTHONPATH": str(HERE.parent)}
    if fonts:
        shutil.copytree(fonts, place / FONTS)
        env |= {"MPLCONFIGDIR": str(place / FONTS), "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"}
    bare = [] if fonts else ["-S"]
    with tempfile.TemporaryFile(dir=place.parent) as given:
        given.write(json.dumps(asked).encode())
        given.seek(0)
        return subprocess.Popen(
            [sys.executable, *bare, "-B", str(HERE / script), *map(str, handles)],
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=place,
            env=env,
            pass_fds=handles,
            start_new_session=True,
        )


def made_fonts() -> Path:
    """A folder with the cache of fonts, made by no answer; each gets a copy."""
    place = Path(tempfile.mkdtemp())
    env = {"HOME": str(place), "PATH": "/usr/bin:/bin", "MPLCONFIGDIR": str(place), "MPLBACKEND": "Agg"}
    env |= {"PYTHONNOUSERSITE": "1", "PYTHONPATH": str(HERE.parent)}
    subprocess.run([sys.executable, "-B", str(HERE / "draw_answer.py")], cwd=place, env=env, check=False)
    return place


def collect(handle: int, deadline: float, watch: scratch.Watch) -> tuple[bytes, str]:
    """Everything up to the end, or why it is not taken."""
    pieces: list[bytes] = []
    while (now := time.monotonic()) < deadline:
        if why := watch.exceeded(now):
            return b"", why
        if not select.select([handle], [], [], min(scratch.LOOK, deadline - now))[0]:
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
    while living := list(fork_parent.descendants(os.getpid())):
        fork_parent.kill(living)
        for _ in iter(fork_parent.wait_any, None):
            continue


def leave(out: Path, value: Any) -> None:
    """The results, and nothing else that may have come into the folder."""
    for path in out.iterdir():
        scratch.remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    part = out / "results.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as f:
        json.dump(value, f, allow_nan=False)
        f.flush()
        os.fsync(f.fileno())
    part.replace(out / "results.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
