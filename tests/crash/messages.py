"""Answer a run's inbox, killed at every boundary, one after the other: `python messages.py HOME RUN SEEN PAST`.

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


def answer_all(home: str, run: str, seen: str, past: str) -> None:
    """Handle all messages of a run that nobody works on."""
    from tuneloop.core.settings import load_settings
    from tuneloop.graph.steering.inbox_listener import answer_offline
    from tuneloop.tools.runs.messages import waiting

    boundaries.install(boundaries.Killer(home, seen, past))
    settings = load_settings()
    place = settings.home.run(run)
    while waiting(place.inbox) or waiting(place.heard):
        answer_offline(place, settings)


def main(*given: str) -> int:
    """Until a process ends by itself; its exit code."""
    for name in ("tuneloop.graph.steering.inbox_listener", "tuneloop.agents.chat.planner", "langchain_openai"):
        importlib.import_module(name)
    while True:
        if (pid := os.fork()) == 0:
            code = 1
            try:
                answer_all(*given)
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
