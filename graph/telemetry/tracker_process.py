"""Feed the trackers of a run while it is at work, by `tuneloop track` in a process of its own.

A tracker that hangs, crashes or is away costs the run a line on stderr.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Mapping, Sequence
from functools import cache

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.events import Event, ExperimentFinished, RunFinished
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.setting_values import TrackerName
from tuneloop.core.settings import Settings
from tuneloop.graph.telemetry.sender import BackgroundSender
from tuneloop.sandboxes.detached import run_command_line

SECONDS = 300.0  # one sending may take
LAST_SECONDS = 10.0  # what the end of a run waits for the last sending, which then goes on by itself
LIBRARIES: Mapping[TrackerName, str] = {
    "mlflow": "mlflow", "tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio",
}  # fmt: skip
SAY = logging.getLogger("tuneloop.trackers")


def feed_trackers(run: RunFolder, settings: Settings, event: Event) -> None:
    """Called after `event` was appended to the run's log; returns at once."""
    if settings.trackers and isinstance(event, ExperimentFinished | RunFinished):
        _sender(settings.trackers).put((run, str(settings.file_path)))


def check_trackers(names: Sequence[TrackerName]) -> None:
    """Raises InvalidRequestError for one whose library is missing, or that has nowhere to send to."""
    for name in names:
        if importlib.util.find_spec(LIBRARIES[name]) is None:
            raise InvalidRequestError(
                f"tracker {name} needs {LIBRARIES[name]}, which is missing: pip install 'tuneloop[{name}]'"
            )
        if name == "mlflow" and not os.environ.get("MLFLOW_TRACKING_URI"):
            raise InvalidRequestError(
                "tracker mlflow sends to the server that MLFLOW_TRACKING_URI names, which is not set; "
                "right is e.g. MLFLOW_TRACKING_URI=http://127.0.0.1:5000 after: mlflow server"
            )


@cache
def _sender(names: tuple[str, ...]) -> TrackerSender:
    return TrackerSender(names)


class TrackerSender(BackgroundSender[tuple[RunFolder, str]]):
    """Starts `tuneloop track`; what does not arrive is sent with the next experiment, and is worth one line."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.warned = names, False
        super().__init__("trackers", self.deliver, LAST_SECONDS)

    def deliver(self, item: tuple[RunFolder, str]) -> None:
        """One sending."""
        run, home = item
        to = [word for name in self.names for word in ("--to", name)]
        problem = run_command_line("track", run.id, *to, env={"FT_FILE_PATH": home}, seconds=SECONDS)
        if problem and not self.warned:
            self.warned = True
            SAY.warning("a tracker was not fed; the run goes on without: %s", printable(problem, 300))
