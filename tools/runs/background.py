"""Go on with a run in the background: the command line in a session of its own."""

from __future__ import annotations

import os
import select
from pathlib import Path

from tuneloop.core.bridge import pause
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.sandboxes.detached import start_command_line

LOG = "command.log"
GLANCE = 0.05


def resume_behind(run: RunFolder) -> str:
    """Start `tuneloop resume` and wait until it holds the run; why it did not, "" when it did."""
    log = run.root / LOG
    begun = log.stat().st_size if log.exists() else 0
    ended = start_command_line("resume", run.id, cwd=Path.cwd(), log=log)
    try:
        while not is_locked(run.lock):
            if select.select([ended], [], [], 0)[0]:
                said = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
                return said[-1] if said else "it ended without a word"
            pause(GLANCE)
    finally:
        os.close(ended)
    return ""
