"""Hear what lies in a run's inbox, killed at every boundary, one after the other: `python hearing.py HOME RUN SEEN PAST`.

Forks a process for each kill, so that the product is imported once.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import boundaries  # type: ignore[import-not-found]


def hear(home: str, run: str, seen: str, past: str) -> None:
    """One sitting of somebody who talks with a run that nobody works on."""
    from tuneloop.core.settings import load_settings
    from tuneloop.graph.alone import answer_alone
    from tuneloop.tools.runs.inbox import waiting

    boundaries.install(boundaries.Killer(home, seen, past))
    settings = load_settings()
    place = settings.home.run(run)
    while waiting(place.inbox) or waiting(place.heard):
        answer_alone(place, settings)


def main(*given: str) -> int:
    """Until a sitting ends by itself; its exit code."""
    for name in ("tuneloop.graph.alone", "tuneloop.agents.chat.planner", "langchain_openai"):
        importlib.import_module(name)
    while True:
        if (pid := os.fork()) == 0:
            code = 1
            try:
                hear(*given)
                code = 0
            except BaseException:  # noqa: BLE001 - told, and the process ends
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != -9:
            return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
