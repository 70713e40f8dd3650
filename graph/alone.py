"""Answer what people say to a run that nobody works on."""

from __future__ import annotations

import contextlib

from tuneloop.core.errors import Paused
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import obey
from tuneloop.graph.lock import hold
from tuneloop.graph.pondering import think
from tuneloop.graph.rebuild import rebuild
from tuneloop.graph.world import named
from tuneloop.tools.runs.inbox import waiting


def answer_alone(run: RunFolder, settings: Settings) -> None:
    """Take every message in the inbox. When there is none: ask a model about what the rules left, the run's lock free meanwhile.

    Raises SetupError when somebody works on the run after all.
    """
    with named(run.root):
        with hold(run.lock), contextlib.suppress(Paused):  # it stands still already
            ctx = Context(run, settings, rebuild(run, settings))
            if waiting(run.inbox):
                obey(ctx)
                return
        think(ctx, lambda: None)  # it stands still already
