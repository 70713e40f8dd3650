"""Nobody who decides knows LLaMA-Factory's parameters by heart: names come from the parameter server."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuneloop.core.settings import Settings
from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.engines import Engine

ROOT = Path(__file__).parents[2]
FILES = [p for floor in ("agents", "graph") for p in sorted((ROOT / floor).rglob("*.py"))]


def texts(tree: ast.Module) -> Iterator[str]:
    """String constants, docstrings left out."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.fixture(scope="module")
def keys(llamafactory: Engine, shared_settings: Settings) -> set[str]:
    """Every parameter whose name could not be a plain word."""
    return {name for name in installed_catalog(llamafactory).parameters if "_" in name}


def test_the_search_would_find_one(keys: set[str]) -> None:
    assert {"learning_rate", "cutoff_len", "per_device_train_batch_size"} <= keys
    assert list(texts(ast.parse('"a docstring"\nx = {"lora_rank": 8}'))) == ["lora_rank"]


@pytest.mark.parametrize("file", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_parameter_is_written_down(file: Path, keys: set[str]) -> None:
    """Nodes may name one in a sentence, policies not even there."""
    said = list(texts(ast.parse(file.read_text())))
    words = set(re.findall(r"\w+", " ".join(said))) if file.is_relative_to(ROOT / "agents") else set(said)
    assert words & keys == set()
