"""`phrasings/learn.py`, which is a script and no part of the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phrasings import learn as learning
else:
    SCRIPT = Path(__file__).parents[3] / "phrasings" / "learn.py"
    spec = importlib.util.spec_from_file_location("phrasings_learn", SCRIPT)
    learning = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = learning
    spec.loader.exec_module(learning)

__all__ = ["learning"]
