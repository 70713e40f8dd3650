"""Answer what people say to a run that nobody works on."""

from __future__ import annotations

import contextlib

from tuneloop.core.errors import Paused
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import obey
from tuneloop.graph.lock import hold
from tuneloop.graph.rebuild import rebuild
from tuneloop.graph.world import named


def answer_alone(run: RunFolder, settings: Settings) -> None:
    """Take every message in the inbox. Raises SetupError when somebody works on the run after all."""
    with named(run.root), hold(run.lock), contextlib.suppress(Paused):  # it stands still already
        obey(Context(run, settings, rebuild(run, settings)))
