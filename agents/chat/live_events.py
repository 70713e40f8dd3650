"""Tells who watches what a model says while it says it, and what became of a call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuneloop.core.events import AgentStreaming, Event, ModelCalled, PlannerFallback, ToolCalled
from tuneloop.core.redaction import SecretRedactor
from tuneloop.core.transcript import ModelCall

EVERY = 1.0
SHOWN = 300
# What is blotted at once; the letters at its borders are not shown: half of a key can't be told from a word.
WINDOW, HELD = 2000, 200


@dataclass(frozen=True)
class LiveEvents:
    """Of one answer; nothing that is told holds a secret."""

    agent: str
    experiment: int
    tell: Callable[[Event], None]
    secrets: SecretRedactor

    def listener(self, model: str) -> Callable[[str], None]:
        """Takes the words of one call as they come."""
        said, last = "", time.monotonic()

        def show(words: str) -> None:
            nonlocal said, last
            said += words
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                self._emit_streaming(model, said)

        return show

    def _emit_streaming(self, model: str, said: str) -> None:
        clean = self.secrets.blot(said[-WINDOW:])
        newest = clean[HELD if len(said) > WINDOW else 0 : -HELD][-SHOWN:]
        if newest:
            self.tell(
                AgentStreaming(
                    experiment=self.experiment, agent=self.agent, model=model, text=newest, letters=len(said)
                )
            )

    def model_called(self, call: ModelCall) -> None:
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

    def retrying(self, model: str, error: str, seconds: float) -> None:
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

    def fallback(self, left: str, to: str, reason: str) -> None:
        """Another one is asked."""
        self.tell(
            PlannerFallback(experiment=self.experiment, agent=self.agent, left=left, to=to, reason=reason[:SHOWN])
        )

    def tool_called(self, tool: str, arguments: dict[str, Any], says: str, *, refused: bool) -> None:
        """A tool was called."""
        asked = self.secrets.blot(json.dumps(arguments, ensure_ascii=False))[:SHOWN]
        self.tell(
            ToolCalled(
                experiment=self.experiment,
                agent=self.agent,
                tool=tool,
                arguments=asked,
                says=self.secrets.blot(says[: 2 * SHOWN])[:SHOWN],
                refused=refused,
            )
        )
