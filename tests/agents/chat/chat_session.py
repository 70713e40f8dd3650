"""One session of a critic in a process of its own, which a test kills: `python -m tests.agents.chat.chat_session URL RUN`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.agents.chat.conftest import BRIEF, CANARY, PROMPT, Tools
from tuneloop.agents.chat.planner import ChatPlanner
from tuneloop.agents.chat.planner_context import PlannerContext
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.event_log import append
from tuneloop.core.experiment import Critique
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import transcript_path
from tuneloop.graph.agent_calls.planner_context import open_ledger


def main(url: str, root: Path) -> None:
    """Find the answer and print it."""
    run = RunFolder(root)
    settings = Settings(CHAT_MODEL="m", OPENAI_API_KEY=CANARY, OPENAI_API_BASE=url)
    answers = run.experiment(1).answers
    context = PlannerContext(
        settings,
        lambda agent: transcript_path(answers, agent, 0),
        run.models,
        lambda e: append(run.events, e),
        open_ledger(run, settings, 1),
    )
    answer = run_sync(ChatPlanner(context).answer("critic", PROMPT, BRIEF, Tools(), Critique))
    sys.stdout.write(answer.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
