"""Models and adapters that the engine cannot load are refused with what they hold and what is right."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.model_support import transformers_names


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("model_name_or_path: alien", "model_type 'alien', which the engine's transformers does not have"),
        ("model_name_or_path: own_code", "model_type 'alien'"),  # its code runs with trust_remote_code alone
        ("model_name_or_path: misnamed", "architecture 'AlienForCausalLM'"),
        ("model_name_or_path: short", "vocab_size is 2 and the tokenizer has 3 tokens"),
        ("adapter_name_or_path: weightless", "weightless holds no weights (adapter_model.safetensors)"),
        ("adapter_name_or_path: wider", "is 16 wide at model.layers.0.self_attn.q_proj, and the model 8"),
        ("output_dir: data", "is dataset_dir"),
        ("@oft oft_target: nothing", '"nothing" is no module of the model'),
        ("@rm pref_loss: orpo", "works with stage: dpo only"),
    ],
)
def test_the_sentence_says_what_was_found(catalog: Catalog, place: Path, line: str, says: str) -> None:
    case = world.case_of("model", line)
    found = check_config(case.text, catalog, None, case.device, profile="engine", here=place)
    assert any(says in str(f) for f in found if f.level == "error"), [str(f) for f in found]


@pytest.mark.parametrize("key", ["resize_vocab: true", "add_tokens: <think>", "add_special_tokens: <tool>"])
@pytest.mark.parametrize("method", ["lora", "full"])
def test_new_rows_of_the_embedding_are_for_full_training_in_a_run(catalog: Catalog, key: str, method: str) -> None:
    found = check_config(f"finetuning_type: {method}\n{key}\n", catalog, None, "cpu")
    refused = [f for f in found if f.level == "error" and "without them; leave it out" in f.text]
    assert len(refused) == (method == "lora"), found


def test_names_of_transformers(catalog: Catalog, tmp_path: Path) -> None:
    names = transformers_names(catalog.site_packages)
    assert {"qwen2", "Qwen2ForCausalLM", "llama"} <= names
    assert transformers_names(tmp_path) == frozenset()


def test_marks_of_images_need_no_row(tmp_path: Path) -> None:
    folder = world.helpers.write_model(tmp_path / "m")
    tokenizer: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": 64, "content": "<image_soft_token>", "special": True})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_model_card(folder).token_count <= 64
