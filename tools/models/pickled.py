"""Base models whose weights are pickled: they are converted in a sandbox, and never loaded as they are."""

from __future__ import annotations

import re
from pathlib import Path

PICKLED = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin")
INDEX = "pytorch_model.bin.index.json"
PREFERRED = ("model.safetensors", "model.safetensors.index.json")  # what transformers loads before it looks for pickles


def pickled(model: Path) -> list[Path]:
    """Files of its pickled weights; none where it has safetensors that would be loaded."""
    if any((model / name).is_file() for name in PREFERRED):
        return []
    return sorted(file for file in model.iterdir() if PICKLED.fullmatch(file.name) and file.is_file())
