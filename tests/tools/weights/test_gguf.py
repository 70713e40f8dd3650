"""GGUF on the real engine: an ordinary folder with the same weights in bfloat16; what is none is refused in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import linked_home, quiet
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError
from tuneloop.core.files import read_json
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.local import processes_holding
from tuneloop.tools.engines import Engine
from tuneloop.tools.hub.models import check_model, resolve_model
from tuneloop.tools.weights import gguf

# The tiny model as GGUF, under the architecture that is named.
WRITE = """\
import json, sys
import gguf
from safetensors.numpy import load_file
source, target, arch = sys.argv[1:]
config, tokenizer = (json.load(open(f"{source}/{name}.json")) for name in ("config", "tokenizer"))
w = gguf.GGUFWriter(target, arch)
w.add_block_count(config["num_hidden_layers"])
w.add_context_length(config["max_position_embeddings"])
w.add_embedding_length(config["hidden_size"])
w.add_feed_forward_length(config["intermediate_size"])
w.add_head_count(config["num_attention_heads"])
w.add_head_count_kv(config["num_key_value_heads"])
w.add_layer_norm_rms_eps(config["rms_norm_eps"])
w.add_rope_freq_base(10000.0)
w.add_vocab_size(config["vocab_size"])
vocab = sorted(tokenizer["model"]["vocab"].items(), key=lambda entry: entry[1])
special = {added["content"]: added["id"] for added in tokenizer["added_tokens"]}
vocab = sorted({**special, **dict(vocab)}.items(), key=lambda entry: entry[1])
w.add_tokenizer_model("gpt2")
w.add_token_list([word for word, _ in vocab])
w.add_token_types([gguf.TokenType.CONTROL if word in special else gguf.TokenType.NORMAL for word, _ in vocab])
w.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
w.add_bos_token_id(special["<|im_start|>"])
w.add_eos_token_id(special["<|im_end|>"])
w.add_pad_token_id(special["<|pad|>"])
w.add_chat_template(open(f"{source}/chat_template.jinja").read())
names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config["num_hidden_layers"])
for name, tensor in load_file(f"{source}/model.safetensors").items():
    w.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), tensor)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
"""
COMPARE = """\
import sys, torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
source, made = sys.argv[1:]
old, new = (load_file(f"{folder}/model.safetensors") for folder in (source, made))
old.pop("lm_head.weight", None), new.pop("lm_head.weight", None)
assert old.keys() == new.keys(), old.keys() ^ new.keys()
assert all(tensor.to(torch.bfloat16).equal(new[name]) for name, tensor in old.items())
old, new = (AutoTokenizer.from_pretrained(folder) for folder in (source, made))
chat = [{"role": "user", "content": "Ann had two apples."}]
assert old.apply_chat_template(chat, add_generation_prompt=True) == new.apply_chat_template(chat, add_generation_prompt=True)
assert (new.eos_token, new.bos_token, new.pad_token) == ("<|im_end|>", "<|im_start|>", "<|pad|>")
assert AutoModelForCausalLM.from_pretrained(made).config.eos_token_id == new.eos_token_id
"""


def engine_runs(engine: Engine, code: str, *arguments: object) -> None:
    argv = [str(engine.python), "-c", code, *map(str, arguments)]
    done = subprocess.run(argv, env=engine.env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def settings(tmp_path: Path, llamafactory: Engine) -> Settings:
    """A home with engines, and models of its own."""
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    home = linked_home(tmp_path / "home")
    (home / "models").unlink()
    return Settings(FT_FILE_PATH=home)


def written(engine: Engine, tiny: Path, file: Path, arch: str = "qwen2") -> Path:
    engine_runs(engine, WRITE, tiny, file, arch)
    return file


def test_same_weights_tokenizer_and_template(
    tmp_path: Path, llamafactory: Engine, tiny: Path, settings: Settings
) -> None:
    (tmp_path / "model").mkdir()
    file = written(llamafactory, tiny, tmp_path / "model" / "words.gguf")
    notes: list[str] = []
    found = resolve_model(str(file), settings, lambda what, *_: notes.append(what))
    engine_runs(llamafactory, COMPARE, tiny, found.root)
    assert found.name == "words"
    assert gguf.LOST in read_json(found.root / "manifest.json")["lost"]
    assert any("what quantization took away" in note for note in notes)
    began = time.monotonic()
    assert resolve_model(str(file.parent), settings, quiet).root == found.root, "a folder with one file is the file"
    assert time.monotonic() - began < 1
    assert not list(found.root.parent.glob(".*.part"))


def test_refusals_are_one_line_and_leave_nothing(
    tmp_path: Path, llamafactory: Engine, tiny: Path, settings: Settings
) -> None:
    whole = written(llamafactory, tiny, tmp_path / "words.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:3000])
    strange = written(llamafactory, tiny, tmp_path / "strange.gguf", "clip")
    for file, says in ((tmp_path / "cut.gguf", "no whole GGUF file"), (strange, "architecture or tokenizer")):
        with pytest.raises(InvalidRequestError, match=says) as refused:
            resolve_model(str(file), settings, quiet)
        assert "\n" not in str(refused.value)
    assert not [path for path in (settings.home.models / "converted").iterdir() if path.suffix != ".lock"]


def test_interrupted_conversion_goes_on(tmp_path: Path, llamafactory: Engine, tiny: Path, settings: Settings) -> None:
    file = written(llamafactory, tiny, tmp_path / "words.gguf")

    def pause(*_: object) -> None:
        raise PausedError("paused")

    with pytest.raises(PausedError):
        resolve_model(str(file), settings, pause)
    (part,) = (settings.home.models / "converted").glob(".*.part")
    assert resolve_model(str(file), settings, quiet).root.is_dir()
    assert not part.exists()


# Resolves a model and is gone with its first word of a conversion that runs.
KILLED = """\
import os, signal, sys
from pathlib import Path
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.models import resolve_model
def say(what, *_):
    if what.startswith("converting"):
        os.kill(os.getpid(), signal.SIGKILL)
resolve_model(sys.argv[2], Settings(FT_FILE_PATH=Path(sys.argv[1])), say)
"""


@pytest.mark.parametrize("with_job", [False, True], ids=["orchestrator", "orchestrator and job"])
def test_killed_conversion_is_gone_on_with(
    tmp_path: Path, llamafactory: Engine, tiny: Path, settings: Settings, with_job: bool
) -> None:
    file = written(llamafactory, tiny, tmp_path / "words.gguf")
    argv = [sys.executable, "-c", KILLED, str(settings.home.root), str(file)]
    assert subprocess.run(argv, check=False, timeout=300).returncode == -signal.SIGKILL
    place = settings.home.models / "converted"
    (part,) = place.glob(".*.part")
    assert not list(place.glob("words-*/")), "what is half made has no name"
    lock = part / "jobs" / "convert.1" / "lock"
    while with_job and is_locked(lock):
        for pid in processes_holding(lock):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    found = resolve_model(str(file), settings, quiet)
    engine_runs(llamafactory, COMPARE, tiny, found.root)
    assert not part.exists()


def test_no_room_is_told_before(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.gguf"
    with file.open("wb") as f:
        f.write(gguf.MAGIC)
        f.truncate(1 << 20)
    monkeypatch.setattr(gguf, "GROWTH", 1 << 40)
    with pytest.raises(InfrastructureError, match="are free"):
        resolve_model(str(file), settings, quiet)


def test_what_is_no_gguf_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "zip.gguf").write_bytes(b"PK\3\4")
    with pytest.raises(InvalidRequestError, match="does not begin with GGUF"):
        check_model(str(tmp_path / "zip.gguf"))
    (tmp_path / "other.gguf").write_bytes(gguf.MAGIC)
    with pytest.raises(InvalidRequestError, match="2 GGUF files"):
        check_model(str(tmp_path))
    with pytest.raises(InvalidRequestError, match="no such folder or GGUF file"):
        check_model(str(tmp_path / "none.gguf"))
