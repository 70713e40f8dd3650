"""Keeps the run's row in the team's index; a server that is away never holds a run up."""

from __future__ import annotations

import contextlib
import logging
from functools import cache

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.events import BaselineMeasured, Event, ExperimentFinished, RunFinished, RunPaused, RunStarted
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.telemetry.sender import BackgroundSender
from tuneloop.tools.team.index import TeamRow, TeamState, save_row, team_row

LAST_SECONDS = 10.0
SAY = logging.getLogger("tuneloop.team")


def update_team(run: RunFolder, settings: Settings, event: Event | None = None) -> None:
    """Called after `event` was appended to the run's log, None: the run was created; returns at once."""
    if settings.team_url is None:
        return
    match event:
        case None:
            state: TeamState = "new"
        case RunStarted() | BaselineMeasured() | ExperimentFinished():
            state = "running"
        case RunPaused():
            state = "paused"
        case RunFinished():
            state = "finished"
        case _:
            return
    # A damaged file, or one that cannot be read, is said by who needs it.
    with contextlib.suppress(InvalidRequestError, ValueError, OSError):
        row = team_row(run, state, event.says if isinstance(event, RunFinished) else "")
        _sender(settings.team_url).put(row)


@cache
def _sender(url: str) -> TeamSender:
    return TeamSender(url)


class TeamSender(BackgroundSender[TeamRow]):
    """Sends rows to one server; what does not arrive is worth one line on stderr, and the next row tells it all."""

    def __init__(self, url: str) -> None:
        self.url, self.warned = url, False
        super().__init__("team", self.deliver, LAST_SECONDS)

    def deliver(self, row: TeamRow) -> None:
        """One try."""
        try:
            save_row(self.url, row)
        except (InvalidRequestError, InfrastructureError) as e:
            if not self.warned:
                self.warned = True
                SAY.warning("the team's index is not kept; the run goes on without: %s", e)
