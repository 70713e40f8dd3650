"""A real engine's sources where one is there, and a tiny model folder made from nothing."""

import json
import os
import struct
from pathlib import Path

import pytest

from tuneloop.tools.config.catalog import Catalog, load_catalog
from tuneloop.tools.config.model_card import ModelCard, read_model_card

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TENSORS = {
    "model.embed_tokens.weight": (64, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.self_attn.v_proj.weight": (4, 8),
    "model.layers.0.mlp.up_proj.weight": (16, 8),
    "model.layers.0.input_layernorm.weight": (8,),
    "model.layers.1.self_attn.q_proj.weight": (8, 8),
    "model.layers.1.self_attn.v_proj.weight": (4, 8),
    "model.layers.1.mlp.up_proj.weight": (16, 8),
    "model.norm.weight": (8,),
}


def write_safetensors(path: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    """Float32 zeros."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4
        for n in shape:
            size *= n
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def write_model(folder: Path, chat: str | None = CHATML) -> Path:
    """A whole model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 8}
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 64, "max_position_embeddings": 512}))
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocab = {"model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}}
    added = [{"id": i, "content": t, "special": True} for i, t in enumerate(tokens)]
    (folder / "tokenizer.json").write_text(json.dumps({**vocab, "added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": chat, "eos_token": "<|im_end|>"}))
    write_safetensors(folder / "model.safetensors", TENSORS)
    return folder


# Read before any test clears the environment: an engine that is there already spares building one.
NAMED = os.environ.get("LLAMA_FACTORY_PATH")


@pytest.fixture(scope="session")
def engine_packages(request: pytest.FixtureRequest) -> Path:
    """Site-packages of a real engine."""
    folder = Path(NAMED) if NAMED else request.getfixturevalue("llamafactory").folder
    return next(folder.glob("lib/python3.*/site-packages"))


@pytest.fixture(scope="session")
def catalog(engine_packages: Path) -> Catalog:
    return load_catalog(engine_packages)


@pytest.fixture(scope="session")
def card(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    return read_model_card(write_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the corpora's configs name."""
    from tests.tools.config import world  # which builds on this file, and is loaded by benchmarks, too

    return world.build(tmp_path_factory.mktemp("world"))
