"""Weights that are not whole, and adapters of another model, are refused by their headers alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stand_in_engine import write_adapter, write_model
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.tools.evaluation.standalone.subjects import check_adapter, check_model_folder


def test_a_whole_model(tmp_path: Path) -> None:
    assert len(check_model_folder(write_model(tmp_path / "m"))) == 3
    link = tmp_path / "linked"
    link.mkdir()
    for file in (tmp_path / "m").iterdir():
        (link / file.name).symlink_to(file)
    assert len(check_model_folder(link)) == 3, "as hub caches keep them"


@pytest.mark.parametrize("left", [0, 4, 60, -1])
def test_empty_and_cut_off_weights(tmp_path: Path, left: int) -> None:
    file = write_model(tmp_path / "m") / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:left])
    with pytest.raises(InvalidRequestError, match="no whole safetensors file") as caught:
        check_model_folder(tmp_path / "m")
    assert "\n" not in str(caught.value)


def test_parts_that_are_missing(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    index = model / "model.safetensors.index.json"
    write_json(index, {"weight_map": {"model.embed_tokens.weight": "a", "model.layers.9.x.weight": "b"}})
    with pytest.raises(InvalidRequestError, match=r"1 tensors of .* are missing"):
        check_model_folder(model)
    index.write_text("{")
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        check_model_folder(model)
    index.unlink()
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(InvalidRequestError, match=r"tokenizer_config\.json is missing"):
        check_model_folder(model)


def test_a_folder_that_is_both(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    write_adapter(model, "x")
    with pytest.raises(InvalidRequestError, match="an adapter and whole weights"):
        check_model_folder(model)


def test_adapters_that_fit_and_others(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    shapes = check_model_folder(base)
    check_adapter(write_adapter(tmp_path / "a", str(base)), base, shapes)
    check_adapter(write_adapter(tmp_path / "moved", "/nowhere/base"), base, shapes)
    for adapter, word in (
        (write_adapter(tmp_path / "wide", "/nowhere", width=16), "is 16 wide there and 8 x 8"),
        (write_adapter(tmp_path / "deep", "/nowhere", layers=3), "layers.2.self_attn.q_proj, which .* has not"),
    ):
        with pytest.raises(InvalidRequestError, match=word):
            check_adapter(adapter, base, shapes)
    other = write_model(tmp_path / "other", layers=3)
    with pytest.raises(InvalidRequestError, match=r"was trained on .*other, which is another model"):
        check_adapter(write_adapter(tmp_path / "b", str(other)), base, shapes)
    copy = write_model(tmp_path / "copy")
    check_adapter(write_adapter(tmp_path / "c", str(copy)), base, shapes)


def test_packed_weights_have_other_shapes(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", "/nowhere", width=32)
    write_json(base / "config.json", {**read_json(base / "config.json"), "quantization_config": {"bits": 4}})
    check_adapter(adapter, base, check_model_folder(base))
