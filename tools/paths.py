"""Where the files lie that run inside engines."""

from __future__ import annotations

from pathlib import Path

import tuneloop

ENGINES = (Path(tuneloop.__file__).parent / "engines").resolve()
