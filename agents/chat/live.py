"""Tells who watches what a model says while it says it, and what became of a call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuneloop.core.events import AgentThinks, Event, ModelCalled, PlannerFellBack, ToolUsed
from tuneloop.core.model_call import ModelCall
from tuneloop.core.secret import Secrets

EVERY = 1.0
SHOWN = 300
# What is blotted at once; the letters at its borders are not shown: half of a key can't be told from a word.
WINDOW, HELD = 2000, 200


@dataclass(frozen=True)
class Live:
    """Of one answer; nothing that is told holds a secret."""

    agent: str
    experiment: int
    tell: Callable[[Event], None]
    secrets: Secrets

    def listener(self, model: str) -> Callable[[str], None]:
        """Takes the words of one call as they come."""
        said, last = "", time.monotonic()

        def show(words: str) -> None:
            nonlocal said, last
            said += words
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                self._thinks(model, said)

        return show

    def _thinks(self, model: str, said: str) -> None:
        clean = self.secrets.blot(said[-WINDOW:])
        newest = clean[HELD if len(said) > WINDOW else 0 : -HELD][-SHOWN:]
        if newest:
            self.tell(
                AgentThinks(experiment=self.experiment, agent=self.agent, model=model, text=newest, letters=len(said))
            )

    def called(self, call: ModelCall) -> None:
        """A call was answered."""
        self.tell(
            ModelCalled(
                experiment=self.experiment,
                agent=self.agent,
                model=call.model,
                outcome=call.outcome,
                tokens_in=call.tokens.into,
                tokens_out=call.tokens.out,
                cached=call.tokens.cached,
                seconds=call.seconds,
                cost=call.cost,
                error=call.error[:SHOWN],
            )
        )

    def waits(self, model: str, error: str, seconds: float) -> None:
        """It failed and is tried again."""
        self.tell(
            ModelCalled(
                experiment=self.experiment,
                agent=self.agent,
                model=model,
                outcome="failed",
                error=error[:SHOWN],
                wait=seconds,
            )
        )

    def fell_back(self, left: str, to: str, reason: str) -> None:
        """Another one is asked."""
        self.tell(
            PlannerFellBack(experiment=self.experiment, agent=self.agent, left=left, to=to, reason=reason[:SHOWN])
        )

    def used(self, tool: str, arguments: dict[str, Any], says: str, *, refused: bool) -> None:
        """A tool was called."""
        asked = self.secrets.blot(json.dumps(arguments, ensure_ascii=False))[:SHOWN]
        self.tell(
            ToolUsed(
                experiment=self.experiment,
                agent=self.agent,
                tool=tool,
                arguments=asked,
                says=self.secrets.blot(says[: 2 * SHOWN])[:SHOWN],
                refused=refused,
            )
        )
