"""Base models whose weights are pickled: they are converted in a sandbox, and never loaded as they are."""

from __future__ import annotations

import re
from pathlib import Path

PICKLED = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin")
INDEX = "pytorch_model.bin.index.json"


def pickled(model: Path) -> list[Path]:
    """Files of its pickled weights; none where it has safetensors."""
    if any(model.glob("*.safetensors")):
        return []
    return sorted(file for file in model.iterdir() if PICKLED.fullmatch(file.name) and file.is_file())
