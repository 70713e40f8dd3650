"""What a hostile training may leave in `model/`, and what of it an evaluation gets to see."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import write_atomic
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.weights.trained_files import accept_model, foreign_names

BASE = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 8}
KEPT = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "trainer_state.json"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_atomic(tmp_path / "base" / "config.json", json.dumps(BASE))
    return tmp_path / "base"


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    made = ExperimentFolder(tmp_path / "001")
    for name in KEPT:
        write_atomic(made.model / name, "{}" if name != "config.json" else json.dumps(BASE))
    made.work.mkdir()
    return made


def names(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir()) if place.is_dir() else []


def test_what_an_honest_training_leaves_stays_as_it_is(folder: ExperimentFolder, base: Path) -> None:
    write_atomic(folder.model / "training_args.bin", "pickle")
    (folder.model / "checkpoint-10").mkdir()
    (folder.model / "broken-checkpoint-5").mkdir()
    before = {p.name: p.stat().st_mtime_ns for p in folder.model.iterdir()}
    assert foreign_names(folder.model) == ()
    accept_model(folder, base)
    assert names(folder.model) == KEPT
    assert {p.name: p.stat().st_mtime_ns for p in folder.model.iterdir()}.items() <= before.items()
    assert names(folder.work / "left_out") == []


@pytest.mark.parametrize("name", ["tekken.json", "video_preprocessor_config.json", "spm.model", "sentencepiece.model"])
def test_what_tokenizers_and_processors_of_real_models_are_made_of(
    folder: ExperimentFolder, base: Path, name: str
) -> None:
    write_atomic(folder.model / name, "{}")
    accept_model(folder, base)
    assert name in names(folder.model)


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "modeling_evil.py": lambda p: p.write_text("boom"),
    "sitecustomize.py": lambda p: p.write_text("boom"),
    "evil.pth": lambda p: p.write_text("import boom"),
    "evil.so": lambda p: p.write_bytes(b"\x7fELF"),
    "adapter_model.bin": lambda p: p.write_bytes(b"pickle"),
    "pytorch_model.bin": lambda p: p.write_bytes(b"pickle"),
    "tokenizer.py": lambda p: p.write_text("boom"),
    "model.safetensors.py": lambda p: p.write_text("boom"),
    "additional_chat_templates": lambda p: write_atomic(p / "x.jinja", "{{ boom }}"),
    "model-00002-of-00002.safetensors": lambda p: p.symlink_to("/etc/hostname"),
    "vocab.json": lambda p: p.symlink_to("/etc"),
    "merges.txt": os.mkfifo,
    "added_tokens.json": lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), 1 << 40),
    "chat_template.jinja": lambda p: p.symlink_to("nowhere"),
    "README.md": Path.mkdir,
    "\x1b[2Jx": lambda p: p.write_text("x"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_foreign_is_put_aside_unopened(name: str, folder: ExperimentFolder, base: Path) -> None:
    FOREIGN[name](folder.model / name)
    assert foreign_names(folder.model) == (ascii(name)[1:-1],)
    for _ in range(2):
        accept_model(folder, base)
        assert names(folder.model) == KEPT
        assert names(folder.work / "left_out") == [name]


def test_hard_link_becomes_a_file_of_its_own(folder: ExperimentFolder, base: Path, tmp_path: Path) -> None:
    stranger, weights = tmp_path / "stranger", folder.model / "model.safetensors"
    stranger.write_text("weights")
    weights.unlink()
    weights.hardlink_to(stranger)
    accept_model(folder, base)
    assert weights.read_text() == "weights"
    assert not weights.samefile(stranger)


CODE = {
    "auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil"},
    "_attn_implementation": "evil/kernel",
    "attn_implementation": "evil/kernel",
    "quantization_config": {"quant_method": "evil"},
    "text_config": {"auto_map": {"AutoConfig": "evil.Evil"}, "hidden_size": 8},
}


def test_old_releases_wrote_the_same_architecture_otherwise(folder: ExperimentFolder, base: Path) -> None:
    (base / "config.json").write_text(json.dumps({**BASE, "architectures": ["QWen2ForCausalLM"]}))
    (folder.model / "config.json").write_text(json.dumps(BASE))
    accept_model(folder, base)
    assert json.loads((folder.model / "config.json").read_text()) == BASE


def test_a_configuration_names_no_code(folder: ExperimentFolder, base: Path) -> None:
    write_atomic(folder.model / "config.json", json.dumps({**BASE, **CODE}))
    write_atomic(
        folder.model / "generation_config.json", json.dumps({"custom_generate": "evil/repo", "eos_token_id": 2})
    )
    adapter = {"peft_type": "LORA", "megatron_config": {"a": 1}, "megatron_core": "evil", "auto_mapping": {"b": "c"}}
    write_atomic(folder.model / "adapter_config.json", json.dumps({**adapter, "base_model_name_or_path": "evil/base"}))
    accept_model(folder, base)
    assert json.loads((folder.model / "config.json").read_text()) == {**BASE, "text_config": {"hidden_size": 8}}
    assert json.loads((folder.model / "generation_config.json").read_text()) == {"eos_token_id": 2}
    found = json.loads((folder.model / "adapter_config.json").read_text())
    assert found == {"peft_type": "LORA", "megatron_core": "evil", "base_model_name_or_path": str(base)}


def test_the_bases_own_quantization_stays(folder: ExperimentFolder, base: Path) -> None:
    config = {**BASE, "quantization_config": {"quant_method": "gptq"}}
    for place in (base, folder.model):
        write_atomic(place / "config.json", json.dumps(config))
    accept_model(folder, base)
    assert json.loads((folder.model / "config.json").read_text()) == config


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '"x"', "[" * 100_000, '{"a": NaN}', json.dumps({**BASE, "model_type": "evil"}),
     json.dumps({**BASE, "architectures": ["Evil"]}), "{}"],
)  # fmt: skip
def test_a_configuration_of_another_model_fails_the_recipe(text: str, folder: ExperimentFolder, base: Path) -> None:
    write_atomic(folder.model / "config.json", text)
    with pytest.raises(RecipeError, match=r"broken config\.json"):
        accept_model(folder, base)
