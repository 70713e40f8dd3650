"""One sitting of a critic in a process of its own, which a test kills: `python -m tests.agents.chat.sitting URL RUN`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.agents.chat.conftest import BRIEF, CANARY, PROMPT, Tools
from tuneloop.agents.chat.desk import Desk
from tuneloop.agents.chat.planner import ChatPlanner
from tuneloop.core.bridge import run_sync
from tuneloop.core.event_log import append
from tuneloop.core.experiment import Critique
from tuneloop.core.layout import RunFolder
from tuneloop.core.model_call import transcript_of
from tuneloop.core.settings import Settings
from tuneloop.graph.desk import opened


def main(url: str, root: Path) -> None:
    """Find the answer and print it."""
    run = RunFolder(root)
    settings = Settings(CHAT_MODEL="m", OPENAI_API_KEY=CANARY, OPENAI_API_BASE=url)
    answers = run.experiment(1).answers
    desk = Desk(
        settings,
        lambda agent: transcript_of(answers, agent, 0),
        run.models,
        lambda e: append(run.events, e),
        opened(run, settings, 1),
    )
    answer = run_sync(ChatPlanner(desk).answer("critic", PROMPT, BRIEF, Tools(), Critique))
    sys.stdout.write(answer.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
