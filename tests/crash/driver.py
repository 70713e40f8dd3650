"""Imports the product once and forks orchestrators on request: what a session costs is its own work.

Reads one JSON object a line on standard input and answers each with one: `start` forks a `tuneloop run` or `tuneloop
resume` of a home, `wait` and `poll` tell how it ended. No thread lives here, so that forking is safe.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import boundaries  # type: ignore[import-not-found]

LAZY = ("matplotlib.backends.backend_agg", "matplotlib.pyplot", "tokenizers", "fastmcp.client", "sqlite3", "rich.live")
STEPS = 100
ended: dict[int, int] = {}


def load() -> None:
    """Everything that a session imports."""
    package = importlib.import_module("tuneloop")
    for found in pkgutil.walk_packages(package.__path__, "tuneloop."):
        if not found.name.startswith(("tuneloop.engines", "tuneloop.sandboxes.supervisor")):
            importlib.import_module(found.name)
    for name in LAZY:
        importlib.import_module(name)


def steady() -> None:
    """Short trainings whose length does not depend on how fast this machine is just now."""
    from tuneloop.agents.policy import parameter_map

    parameter_map.TINY_STEPS = STEPS
    parameter_map.TINY_SECONDS = parameter_map.LONGEST_SECONDS = 1e6


def drive_run(asked: dict[str, Any]) -> None:
    """In the forked child: become an orchestrator. Never returns."""
    home, run = Path(asked["home"]), asked["run"]
    os.environ.update({"FT_FILE_PATH": str(home), **asked.get("env", {})})
    os.chdir(asked["cwd"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for target, source in ((0, os.open("/dev/null", os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(source, target)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if asked.get("prepare"):
        exec(asked["prepare"], {})
    argv = ["resume", run] if (home / "runs" / run / "run.yaml").is_file() else ["run", "--run-id", run, *asked["spec"]]
    if asked.get("seen"):
        boundaries.install(boundaries.Killer(str(home), asked["seen"], asked["past"], asked["every"]))
    importlib.import_module("tuneloop.cli.main").cli.main([*argv, *asked.get("more", [])])


def child(asked: dict[str, Any]) -> None:
    """Run a session and end this process whatever happens."""
    code = 70
    try:
        drive_run(asked)
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:  # noqa: BLE001 - told, and the process ends
        importlib.import_module("traceback").print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Obey one request."""
    if asked["do"] == "start":
        pid = os.fork()
        if pid == 0:
            child(asked)
        return {"pid": pid}
    asked_for = asked["pid"]
    if asked_for not in ended:
        pid, status = os.waitpid(asked_for, os.WNOHANG if asked["do"] == "poll" else 0)
        if pid:
            ended[pid] = os.waitstatus_to_exitcode(status)
    return {"code": ended.get(asked_for)}


def say(value: dict[str, Any]) -> None:
    """One line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until standard input ends."""
    load()
    steady()
    threads = len(os.listdir("/proc/self/task"))
    say({"ready": True, "threads": threads})
    for line in sys.stdin:
        say(answer(json.loads(line)))


if __name__ == "__main__":
    main()
