"""What agents book: what fits beside what others have set aside."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from tuneloop.core.errors import LimitReachedError
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import Tokens
from tuneloop.graph.agent_calls.planner_context import RunCallLedger


def test_of_calls_that_ask_at_once_those_pass_that_fit_together() -> None:
    begun: list[Any] = []
    notes: Any = SimpleNamespace(begin=begun.append)

    def allow(_entry: Any) -> None:
        free = not begun
        time.sleep(0.05)
        if not free:
            raise LimitReachedError("9,000 of 10,000 tokens are set aside")

    def ask(experiment: int) -> bool:
        try:
            RunCallLedger(notes, Settings(), experiment, allow).begin("critic", "m", Tokens(into=9000, out=0))
        except LimitReachedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == [False, False, False, True]
    assert len(begun) == 1
