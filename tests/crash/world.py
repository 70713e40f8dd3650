"""What the crash tests share: a small task, homes, orchestrators forked on request, journals to compare, leftovers."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tuneloop.core.files import write_atomic, write_lines
from tuneloop.core.locks import is_locked
from tuneloop.tools.benchmarks.wordproblems import BENCHMARK, items
from tuneloop.tools.embedded.problems import splits
from tuneloop.tools.embedded.words import prose_solution


@dataclass(frozen=True)
class Form:
    """How much is done: boundaries at which the disk is as it was count in the long form only."""

    loops: int
    every: bool
    kills: int
    cuts: int


SHORT, LONG = Form(loops=1, every=False, kills=12, cuts=2), Form(loops=2, every=True, kills=150, cuts=20)
FORM = LONG if os.environ.get("CRASH_FORM") == "long" else SHORT
HERE = Path(__file__).parent
ITEMS, ROWS = 24, 240
TIMES = {"seconds", "at", "created", "nodes", "budget", "peak_memory", "spent", "forecast", "run_id"}
RUN = "r"


def write_task(folder: Path) -> Path:
    """The embedded benchmark with few items in both splits and few, right raw data, as anybody's own."""
    for name, problems in (("validation", splits().validation), ("test", splits().test)):
        write_lines(folder / f"{name}.jsonl", items(name, problems)[:ITEMS])
    rows = [{"question": p.question, "solution": prose_solution(p.steps)} for p in splits().pool[:ROWS]]
    write_lines(folder / "data" / "rows.jsonl", rows)
    declared = {**BENCHMARK.model_dump(mode="json", exclude_defaults=True), "name": "small"}
    write_atomic(folder / "benchmark.yaml", yaml.safe_dump(declared))
    return folder


class Driver:
    """The process that forks orchestrators."""

    def __init__(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("FT_", "TUNELOOP_"))}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        self.threads = self._read()["threads"]

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


@dataclass
class Place:
    """One home with one run, and who works on it; orchestrators log and stand `aside` where the home has its own disk."""

    driver: Driver
    home: Path
    task: Path
    loops: int = 1
    env: dict[str, str] = field(default_factory=dict)
    aside: Path | None = None

    @property
    def run(self) -> Path:
        return self.home / "runs" / RUN

    @property
    def log(self) -> Path:
        return (self.aside or self.home.parent) / "orchestrators.log"

    def start(self, **more: Any) -> int:
        """Fork an orchestrator that starts or resumes the run; its pid."""
        spec = ["--benchmark", str(self.task), "--dataset", str(self.task / "data"), "--base-model", "tiny"]
        spec += ["--loop-n", str(self.loops), "--upper-data-size-limit", "200"]
        place = {"home": str(self.home), "cwd": str(self.aside or self.home.parent), "log": str(self.log)}
        asked = {**place, "run": RUN, "spec": spec, "env": self.env, **more}
        return int(self.driver.ask(do="start", **asked)["pid"])

    def wait(self, pid: int) -> int:
        return int(self.driver.ask(do="wait", pid=pid)["code"])

    def over(self, pid: int) -> int | None:
        """Exit code, None while it runs."""
        code = self.driver.ask(do="poll", pid=pid)["code"]
        return None if code is None else int(code)

    def drive(self, **more: Any) -> int:
        """A whole session; its exit code."""
        return self.wait(self.start(**more))

    def finish(self) -> None:
        """Resume until the run is finished: one session has to be enough."""
        code = self.drive()
        assert code == 0, f"exit {code}: {self.said()}"
        assert self.finished, self.said()

    @property
    def finished(self) -> bool:
        return (self.run / "report.json").is_file()

    def said(self, lines: int = 25) -> str:
        """The end of what orchestrators printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.is_file() else ""


def journal(place: Place) -> dict[str, Any]:
    """Everything of a run that must not depend on what happened to it on the way."""
    run = place.run
    told: dict[str, Any] = {"report": without_times(load(run / "report.json"))}
    told["baseline"] = load(run / "baseline" / "scores.json")
    told["test"] = load(run / "final" / "test.json")
    for folder in sorted((run / "experiments").glob("[0-9]*")):
        told[folder.name] = {
            "experiment": without_times(load(folder / "experiment.json")),
            "scores": load(folder / "scores.json") if (folder / "scores.json").is_file() else None,
            "recipe": [(folder / name).read_text() for name in ("process_data.py", "train.yaml")],
            "data": hash_of(folder / "data" / "data.json"),
            "losses": losses(folder / "model"),
        }
    best = run / "best"
    told["best"] = {p.name: hash_of(p) for p in sorted(best.glob("*")) if p.suffix in (".safetensors", ".py", ".yaml")}
    text = json.dumps(told, sort_keys=True).replace(str(place.home.parent), "PLACE")
    found: dict[str, Any] = json.loads(text)
    return found


def events(place: Place) -> str:
    file = place.run / "events.jsonl"
    return file.read_text(errors="replace") if file.is_file() else ""


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def without_times(value: Any) -> Any:
    """The same without seconds and times of day."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"


def losses(model: Path) -> dict[str, float]:
    """Loss by step, from the engine's own state."""
    state = model / "trainer_state.json"
    rows = load(state)["log_history"] if state.is_file() else []
    return {str(r["step"]): r["loss"] for r in rows if "loss" in r}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two journals differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [d for k in keys for d in differences(one.get(k), other.get(k), f"{where}/{k}")]
    return [] if one == other else [f"{where}: {str(one)[:200]} != {str(other)[:200]}"]


def jobs_of(run: Path) -> list[Path]:
    """Folders of all attempts of all jobs: of the run, of experiments, of their trainings with other seeds."""
    # pathlib's glob fails on a folder that goes while it looks; this one does not
    places = ("*", "experiments/*", "experiments/*/seeds/*")
    return [run / name for place in places for name in glob.glob(f"{place}/jobs/*.[0-9]*", root_dir=run)]


def launches(run: Path) -> dict[str, list[str]]:
    """How each attempt of each job ended, in order: `absent` (never began), `killed`, or the reason in `exit.json`."""
    found: dict[str, list[str]] = {}
    for folder in sorted(jobs_of(run), key=lambda p: (p.parent, p.stem, int(p.suffix[1:]))):
        if folder.is_dir():
            place = folder.parent.parent.relative_to(run)
            found.setdefault(f"{place}/{folder.stem}".removeprefix("experiments/"), []).append(ending(folder))
    return found


def ending(folder: Path) -> str:
    end = folder / "exit.json"
    if end.is_file():
        told = load(end)
        return f"{told['reason']} {told['code']}"
    lock = folder / "lock"
    return "killed" if lock.is_file() and lock.read_text().strip() else "absent"


def begun(run: Path) -> dict[str, int]:
    """How often each job really began."""
    return {name: sum(e != "absent" for e in ends) for name, ends in launches(run).items()}


def processes(home: Path) -> dict[int, str]:
    """Processes that know the home: by command line, working directory or environment."""
    found, mark = {}, str(home).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            place = os.fsencode((entry / "cwd").readlink())
            env = (entry / "environ").read_bytes()
        except OSError:
            continue
        if int(entry.name) != os.getpid() and (mark in words or mark in place or mark in env):
            found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")[:300]
    return found


def leftovers(home: Path, patience: float = 15.0) -> list[str]:
    """Processes, held locks, temporary files and mounts that a finished run left; () when all is clean."""
    end = time.monotonic() + patience
    # a process that ends loses its command line first and its locks a moment later: all is looked at again
    while (found := left_now(home)) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def left_now(home: Path) -> list[str]:
    found = [f"process {pid}: {words}" for pid, words in processes(home).items()]
    for path in home.rglob("*"):
        if path.is_file() and "lock" in path.name and not path.is_symlink() and is_locked(path):
            found.append(f"locked: {path.relative_to(home)}")
        if re.search(r"\.(part|tmp)$", path.name) and not {"hf", "cache", "opencompass"} & set(path.parts):
            found.append(f"temporary: {path.relative_to(home)}")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return found + [f"mount: {m}" for m in mounts if f"{home}/" in m]


def seeded(what: str) -> random.Random:
    """Chance that can be repeated: the seed is printed, CRASH_SEED gives it back."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    say(f"{what}: CRASH_SEED={seed}")
    return random.Random(seed)


def say(text: str) -> None:
    """A line for who runs the tests."""
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def end_all(home: Path) -> None:
    """What a failed test leaves behind is ended by its pid."""
    for _ in range(5):
        for pid in processes(home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)


def twice_alive(run: Path) -> Iterator[str]:
    """Jobs that two attempts of live at once: never allowed."""
    held: dict[tuple[Path, str], list[str]] = {}
    workers = [run / name for name in glob.glob("workers/*.[0-9]*", root_dir=run)]
    for lock in (folder / "lock" for folder in (*jobs_of(run), *workers)):
        # exit.json is written when nothing of the job is left, by a supervisor that holds the lock a moment longer
        if is_locked(lock) and not (lock.parent / "exit.json").exists():
            held.setdefault((lock.parent.parent, lock.parent.stem), []).append(lock.parent.name)
    return (f"{place}/{name}: {attempts}" for (place, name), attempts in held.items() if len(attempts) > 1)
