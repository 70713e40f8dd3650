import importlib.util
import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.model_card import load_tokenizer, read_model_card, template_of

_spec = importlib.util.spec_from_file_location("params_conftest", Path(__file__).with_name("conftest.py"))
assert _spec
assert _spec.loader
helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(helpers)


def test_reads_the_card(tmp_path: Path) -> None:
    card = read_model_card(helpers.write_model(tmp_path / "m"))
    assert card.parameters == sum(prod(shape) for shape in helpers.TENSORS.values()) == 976
    assert (card.dtype, card.layers, card.hidden, card.vocab, card.max_positions) == ("float32", 2, 8, 64, 512)
    assert card.architecture == "Qwen2ForCausalLM"
    assert card.template == "chatml"
    assert "<|im_end|>" in card.tokens
    found = {name: (linear.count, linear.adapter(1)) for name, linear in card.shape.linears.items()}
    assert found == {"q_proj": (2, 32), "v_proj": (2, 24), "up_proj": (2, 48)}


def test_shards_are_counted_once_and_a_missing_one_is_named(tmp_path: Path) -> None:
    folder = helpers.write_model(tmp_path / "m")
    whole = read_model_card(folder).parameters
    (folder / "model.safetensors").unlink()
    names = list(helpers.TENSORS)
    for i, part in enumerate((names[:4], names[4:])):
        helpers.write_safetensors(folder / f"model-{i}.safetensors", {n: helpers.TENSORS[n] for n in part})
    index = {n: f"model-{int(i >= 4)}.safetensors" for i, n in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert read_model_card(folder).parameters == whole
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(InvalidRequestError, match=r"model-1\.safetensors: missing"):
        read_model_card(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = helpers.write_model(tmp_path / "m")
    (folder / name).unlink()
    with pytest.raises(InvalidRequestError, match=name.replace(".", r"\.")):
        read_model_card(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_cut_file_is_named(tmp_path: Path, name: str) -> None:
    folder = helpers.write_model(tmp_path / "m")
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(InvalidRequestError, match=name.replace(".", r"\.")):
        read_model_card(folder)


HOSTILE = {
    "bytes": ("tokenizer_config.json", b"\xff{"),
    "nested": ("config.json", b"[" * 200_000),
    "a list": ("config.json", b"[]"),
    "a text for a number": ("config.json", b'{"hidden_size": "x"}'),
    "lists for numbers": ("config.json", b'{"num_hidden_layers": [1, 2]}'),
    "no end of a number": ("config.json", b'{"vocab_size": 1e999}'),
    "another form": ("tokenizer.json", b'{"model": [], "added_tokens": 5}'),
    "a template of bytes": ("chat_template.jinja", b"{{ \xe2 }}"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_describes_no_model_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    folder = helpers.write_model(tmp_path / "m")
    name, content = HOSTILE[what]
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidRequestError, match="fetch the model again") as e:
        read_model_card(folder)
    assert "\n" not in str(e.value) and str(folder) in str(e.value)


@pytest.mark.parametrize("content", [b"\xff", b"{}", b'{"model": {"type": "BPE"}}'])
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    for path in (tmp_path / "tokenizer.json", tmp_path):
        with pytest.raises(InvalidRequestError, match=r"right is a model with tokenizer\.json"):
            load_tokenizer(path)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = helpers.write_model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InvalidRequestError, match="unsafe"):
        read_model_card(folder)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no such folder"):
        read_model_card(tmp_path / "nothing")


def test_a_changed_model_is_read_again(tmp_path: Path) -> None:
    folder = helpers.write_model(tmp_path / "m")
    assert read_model_card(folder).template == "chatml"
    helpers.write_model(folder, chat=None)
    assert read_model_card(folder).chat_template is None


CHATML_LINES = helpers.CHATML.replace("\\n", "\n")
QWEN = (
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\\n' }}{%- endif %}{%- if tools %}{{- 'tools' }}{%- endif %}"
)


@pytest.mark.parametrize(
    ("chat", "name"),
    [
        (helpers.CHATML, "chatml"),
        (CHATML_LINES, "chatml"),
        (helpers.CHATML.replace("'<|im_start|>assistant", "'<|im_start|>assistant\\n<think>"), None),
        (helpers.CHATML.replace("{% for", "{{ '<|im_start|>system\\nYou are Bob.<|im_end|>\\n' }}{% for", 1), None),
        ("Hello. " + helpers.CHATML, None),
        (QWEN, "qwen"),
        (
            "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}",
            "llama3",
        ),
        ("{{ 'Cutting Knowledge Date' }}{{ '<|start_header_id|>' + '<|eot_id|>' }}", None),
        ("{{ '<start_of_turn>' + 'model' + '\\n' + '<end_of_turn>\\n' }}", "gemma"),
        ("{{ '[INST] ' + m['content'] + ' [/INST]' }}", None),
        ("", None),
        (None, None),
    ],
)
def test_template_of(chat: str | None, name: str | None) -> None:
    assert template_of(chat) == name


@pytest.mark.parametrize(
    ("eos", "text"), [("</s>", "</s>"), ({"content": "</s>"}, "</s>"), (None, ""), ({"lstrip": True}, "")]
)
def test_the_end_of_a_text_is_read_however_it_is_written(tmp_path: Path, eos: Any, text: str) -> None:
    folder = helpers.write_model(tmp_path / "m")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    assert read_model_card(folder).end_of_text == text


@pytest.mark.parametrize(
    ("file", "told", "text"),
    [
        ("special_tokens_map.json", {"eos_token": {"content": "<|im_end|>"}}, "<|im_end|>"),
        ("generation_config.json", {"eos_token_id": [2, 0]}, "<|im_end|>"),
        ("generation_config.json", {"eos_token_id": 99}, ""),
        ("config.json", {"eos_token_id": 0}, "<|endoftext|>"),
        ("config.json", {"eos_token_id": None}, ""),
    ],
)
def test_the_end_of_a_text_may_stand_in_other_files(tmp_path: Path, file: str, told: Any, text: str) -> None:
    folder = helpers.write_model(tmp_path / "m")
    (folder / "tokenizer_config.json").write_text("{}")
    assert read_model_card(folder).end_of_text == ""
    before = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps({**before, **told}))
    assert read_model_card(folder).end_of_text == text


def test_a_token_that_a_text_would_spell_out_ends_none(tmp_path: Path) -> None:
    folder = helpers.write_model(tmp_path / "m")
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "</s>": 1}}, "added_tokens": []}))
    assert read_model_card(folder).end_of_text == ""
