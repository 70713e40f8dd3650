"""Modules from their files: what both sides share lies with the side that is no engine."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def load(path: str) -> ModuleType:
    """The module of that file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
