"""The embedded base model: 0.7 M parameters, pre-trained on little stories and equations; its files are shipped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tuneloop.core.catalog import BaseModelCard
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings

MODEL = BaseModelCard(
    name="tiny",
    description="Qwen2 architecture, 0.7 M parameters: reads little stories, writes equations. For trying things out.",
    licence="Apache-2.0",
    template="chatml",
)
# Made by tools/embedded/make_tiny.py; the same bytes only on the same kind of processor and release of torch.
SHIPPED = Path(__file__).parents[1] / "embedded" / "tiny_model"
SHA256 = {
    "README.md": "0b0ba500e767689adc60b716684254c4f9a86c906fd7f41e95d546fa2b559907",
    "chat_template.jinja": "e5878d42c1903b9fa5b5a145a819c70fb2f680677eed46fe6e6e6bb206b1b8f8",
    "config.json": "0accf0dcd91e51e27a252025f9cce19c299ee645e593e8f4bc2496bf41ae32a6",
    "generation_config.json": "a6d3749ecfc41cb475e6891a3e54d7ccf2951cae9f867949fe05664f314a123e",
    "model.safetensors": "57c27bd137830b7fb60d83b280f35155a0786c121792301dbec3d2fa12d82104",
    "tokenizer.json": "e27874f63ac19c84bcc09099f5623b29684695f89233548b2c05545031c6a161",
    "tokenizer_config.json": "9777a5b55f899c7f8e798fa5a45303901dbcc8fdcc294afa0dcd2af957c25148",
}


def fetch(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> None:
    """Copy the shipped files into `folder`. Raises InvalidRequestError for one that is missing or was changed."""
    del settings, progress
    for name, data in read_shipped():
        (folder / name).write_bytes(data)


def check() -> None:
    """Look at the shipped files before a run. Raises InvalidRequestError for one that is missing or was changed."""
    for _ in read_shipped():
        pass


def read_shipped() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each shipped file. Raises InvalidRequestError for one that is missing or was changed."""
    for name, wanted in SHA256.items():
        source = SHIPPED / name
        data = source.read_bytes() if source.is_file() else b""
        if hashlib.sha256(data).hexdigest() != wanted:
            state = "was changed" if data else "is missing or empty"
            raise InvalidRequestError(f"base model tiny: {source} {state}; install tuneloop again, or restore the file")
        yield name, data
