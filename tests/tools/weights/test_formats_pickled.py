"""Which base models are converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.tools.weights.formats import pickled_files

SHARDS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (("pytorch_model.bin", "training_args.bin"), ("pytorch_model.bin",)),
        (SHARDS[::-1], SHARDS),
        (("pytorch_model.bin", "model.safetensors"), ()),
        (("pytorch_model.bin", "adapter_model.safetensors"), ("pytorch_model.bin",)),
        (("pytorch_model.bin", "model.safetensors.index.json"), ()),
        (("training_args.bin", "optimizer.bin"), ()),
    ],
)
def test_only_weights_that_are_nowhere_else(there: tuple[str, ...], found: tuple[str, ...], tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).touch()
    assert tuple(file.name for file in pickled_files(tmp_path)) == found
