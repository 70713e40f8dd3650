from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import Paused
from tuneloop.graph.inbox import obey
from tuneloop.tools.runs.inbox import put, waiting


def test_a_pause_is_obeyed_once(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    obey(inbox)
    put(inbox, do="pause")
    assert len(waiting(inbox)) == 1
    with pytest.raises(Paused):
        obey(inbox)
    obey(inbox)
    assert waiting(inbox) == []
