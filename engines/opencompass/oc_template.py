"""Prompts as a model's own chat template writes them: a stranger's program, in transformers' Jinja sandbox, on a clock.

The sandbox lets it reach no Python object's inside and bounds `range`; it does not bound loops in loops or large powers.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 5.0  # CPU time for one prompt; an ordinary template takes a millisecond


def render(tokenizer: Any, chats: list[list[dict[str, str]]], options: dict[str, Any] | None = None) -> list[str]:
    """Each conversation as text; `options`: further arguments of the template. Raises TimeoutError for one that does not end."""
    texts = []
    for chat in chats:
        with bounded(SECONDS):
            texts.append(
                tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False, **(options or {}))
            )
    return texts


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """End what takes more CPU time; where Python cannot even be interrupted, the whole process after twice the time."""

    def over(*_: object) -> None:
        raise TimeoutError(f"the chat template took more than {seconds:g} s for one prompt: it does not end")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, 2 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
