from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config, errors
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.model_card import ModelCard

BASE = "template: chatml\ncutoff_len: 256\nlearning_rate: 1e-4\n"

# Config, the key that must be named (by an error), and a word of what would be right.
BAD = [
    ("learning_rat: 1e-4", "learning_rat", "learning_rate"),
    ("lr: 1e-4", "lr", "learning_rate"),
    ("batch_size: 8", "batch_size", "per_device_train_batch_size"),
    ("max_seq_length: 128", "max_seq_length", "cutoff_len"),
    ("lora-rank: 8", "lora-rank", "lora_rank"),
    ("evaluation_strategy: steps", "evaluation_strategy", "eval_strategy"),
    ("zzzqqq: 1", "zzzqqq", "leave it out"),
    ("device_map: auto", "device_map", "derived"),
    ("learning_rate: fast", "learning_rate", "number"),
    ('learning_rate: "1e-4"', "learning_rate", "without quotes"),
    ("learning_rate: true", "learning_rate", "number"),
    ("learning_rate: [1e-4]", "learning_rate", "number"),
    ("learning_rate: null", "learning_rate", "number"),
    ("learning_rate: 0", "learning_rate", "usual"),
    ("learning_rate: -1e-3", "learning_rate", "usual"),
    ("learning_rate: 100", "learning_rate", "usual"),
    ("learning_rate: .nan", "learning_rate", "finite"),
    ("learning_rate: .inf", "learning_rate", "finite"),
    ("max_steps: ten", "max_steps", "whole number"),
    ("max_steps: 0", "max_steps", "-1"),
    ("max_steps: 2.5", "max_steps", "whole number"),
    ("num_train_epochs: -1", "num_train_epochs", "usual"),
    ("num_train_epochs: 0", "num_train_epochs", "usual"),
    ("per_device_train_batch_size: 0", "per_device_train_batch_size", "usual"),
    ("per_device_train_batch_size: 2.5", "per_device_train_batch_size", "whole"),
    ("gradient_accumulation_steps: 0", "gradient_accumulation_steps", "usual"),
    ("warmup_ratio: 1.5", "warmup_ratio", "usual"),
    ("warmup_steps: -1", "warmup_steps", "usual"),
    ("weight_decay: 2", "weight_decay", "usual"),
    ("adam_beta2: 1", "adam_beta2", "usual"),
    ("cutoff_len: 0", "cutoff_len", "usual"),
    ("cutoff_len: 4", "cutoff_len", "usual"),
    ("cutoff_len: 100000", "cutoff_len", "512"),
    ("lora_rank: 0", "lora_rank", "8–64"),
    ("lora_rank: -4", "lora_rank", "8–64"),
    ("lora_dropout: 2", "lora_dropout", "usual"),
    ("lora_target: nosuch_proj", "lora_target", "q_proj"),
    ("lora_target: q_proj,k", "lora_target", "all"),
    ("val_size: -0.1", "val_size", "0.05"),
    ("val_size: 1.5", "val_size", "whole"),
    ("stage: grpo", "stage", "sft"),
    ("stage: dpo", "stage", "sft"),
    ("finetuning_type: qlora", "finetuning_type", "lora"),
    ("finetuning_type: 3", "finetuning_type", "full"),
    ("lr_scheduler_type: cosin", "lr_scheduler_type", "cosine"),
    ("optim: adam", "optim", "adamw_torch"),
    ("optim: paged_adamw_8bit", "optim", "bitsandbytes"),
    ("save_strategy: no", "save_strategy", "quotes"),
    ("eval_strategy: often", "eval_strategy", "steps"),
    ("do_train: maybe", "do_train", "leave it out"),
    ("do_train: false", "do_train", "true"),
    ("packing: 1", "packing", "true or false"),
    ("template: qwen99", "template", "qwen"),
    ("template: llama3", "template", "<|eot_id|>"),
    ("template: 5", "template", "text"),
    ("model_name_or_path: /etc", "model_name_or_path", "set by the run"),
    ("dataset: train", "dataset", "set by the run"),
    ("dataset_dir: ONLINE", "dataset_dir", "set by the run"),
    ("output_dir: /tmp/x", "output_dir", "set by the run"),
    ("resume_from_checkpoint: /x", "resume_from_checkpoint", "set by the run"),
    ("overwrite_output_dir: true", "overwrite_output_dir", "set by the run"),
    ("adapter_name_or_path: /x", "adapter_name_or_path", "outside"),
    ("tokenized_path: /x", "tokenized_path", "outside"),
    ("deepspeed: ds.json", "deepspeed", "leave it out"),
    ("fsdp: full_shard", "fsdp", "leave it out"),
    ("trust_remote_code: true", "trust_remote_code", "foreign"),
    ("push_to_hub: true", "push_to_hub", "network"),
    ("hub_model_id: a/b", "hub_model_id", "network"),
    ("report_to: wandb", "report_to", "none"),
    ("report_to: all", "report_to", "none"),
    ("use_swanlab: true", "use_swanlab", "network"),
    ("swanlab_api_key: x", "swanlab_api_key", "network"),
    ("vllm_maxlen: 100", "vllm_maxlen", "leave it out"),
    ("train_from_scratch: true", "train_from_scratch", "base model"),
    ("predict_with_generate: true", "predict_with_generate", "evaluation"),
    ("bf16: true", "bf16", "CPU"),
    ("fp16: true", "fp16", "CPU"),
    ("pure_bf16: true", "pure_bf16", "CPU"),
    ("quantization_bit: 4", "quantization_bit", "CPU"),
    ("quantization_bit: 4\nfinetuning_type: full", "quantization_bit", "lora"),
    ("bf16: true\nfp16: true", "fp16", "bf16"),
    ("mask_history: true\ntrain_on_prompt: true", "mask_history", "train_on_prompt"),
    ("streaming: true", "streaming", "max_steps"),
    ("streaming: true\nmax_steps: 9\nmax_samples: 3", "max_samples", "streaming"),
    ("streaming: true\nmax_steps: 9", "dataloader_num_workers", "1"),
    ("eval_strategy: steps", "eval_strategy", "val_size"),
    ("load_best_model_at_end: true", "load_best_model_at_end", "eval_strategy"),
    ("early_stopping_steps: 3", "early_stopping_steps", "load_best_model_at_end"),
    ("early_stopping_steps: 3\neval_strategy: steps\nval_size: 0.1", "early_stopping_steps", "eval_loss"),
    ("finetuning_type: full\nuse_dora: true", "use_dora", "lora"),
    ("finetuning_type: full\nloraplus_lr_ratio: 16", "loraplus_lr_ratio", "lora"),
    ("finetuning_type: full\nuse_llama_pro: true", "use_llama_pro", "freeze"),
    ("finetuning_type: freeze\nfreeze_trainable_layers: 99", "freeze_trainable_layers", "layers"),
    ("finetuning_type: freeze\nfreeze_trainable_layers: 0", "freeze_trainable_layers", "usual"),
    ("use_galore: true", "use_galore", "galore_torch"),
    ("use_galore: true", "finetuning_type", "full"),
    ("use_unsloth: true", "use_unsloth", "unsloth"),
    ("enable_liger_kernel: true", "enable_liger_kernel", "liger_kernel"),
    ("use_asft_loss: true", "use_asft_loss", "full"),
    ("interleave_probs: 0.5,0.5", "interleave_probs", "interleave_under"),
    ("dataloader_prefetch_factor: 2", "dataloader_prefetch_factor", "dataloader_num_workers"),
    ("lr_scheduler_type: cosine_with_min_lr", "lr_scheduler_kwargs", "min_lr"),
    ("lr_scheduler_type: reduce_lr_on_plateau", "lr_scheduler_type", "eval_strategy"),
    ("seed: -1", "seed", "small"),
]

GOOD = Path(__file__).with_name("good_configs.yaml").read_text().split("---\n")[1:]


def whole(text: str) -> str:
    """The config with what every config needs, unless it says so itself."""
    given_keys = {line.split(":")[0] for line in text.splitlines()}
    return text + "\n" + "".join(f"{k}\n" for k in BASE.splitlines() if k.split(":")[0] not in given_keys)


@pytest.mark.parametrize(("text", "key", "right"), BAD, ids=[t.replace("\n", " ") + " → " + k for t, k, _ in BAD])
def test_a_bad_config_is_refused(text: str, key: str, right: str, catalog: Catalog, card: ModelCard) -> None:
    found = [f for f in check_config(whole(text), catalog, card, "cpu") if f.level == "error"]
    assert key in {f.key for f in found}
    assert any(right in f.text for f in found if f.key == key)


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 100


@pytest.mark.parametrize("text", GOOD)
def test_a_good_config_passes(text: str, catalog: Catalog, card: ModelCard) -> None:
    assert errors(check_config(whole(text), catalog, card, "cpu", 64 << 30)) == []


def test_half_precision_passes_on_an_accelerator(catalog: Catalog, card: ModelCard) -> None:
    assert errors(check_config(whole("bf16: true"), catalog, card, "cuda")) == []
    assert "use_cpu" in str(check_config(whole("use_cpu: true"), catalog, card, "cuda"))


def test_a_finding_is_one_readable_line(catalog: Catalog, card: ModelCard) -> None:
    found = check_config("template: chatml\ncutoff_len: 64\nlora_rank: 0\n", catalog, card, "cpu")
    assert [str(f) for f in found] == ["train.yaml:3 lora_rank: 0 is below 1; usual 8–64"]


def test_every_error_comes_at_once(catalog: Catalog, card: ModelCard) -> None:
    text = "lora_rank: 0\nbf16: true\nlearning_rat: 1\nmask_history: true\ntrain_on_prompt: true\ncutoff_len: 9999\n"
    found = check_config(text, catalog, card, "cpu")
    assert {f.key for f in found} == {"lora_rank", "bf16", "learning_rat", "mask_history", "cutoff_len"}
    assert [f.line for f in found] == sorted(f.line for f in found)


def test_broken_yaml_names_the_line(catalog: Catalog, card: ModelCard) -> None:
    assert [(f.level, f.line) for f in check_config("a: 1\nb: [", catalog, card, "cpu")] == [("error", 2)]


def test_another_template_is_a_warning_and_a_set_key_a_note(catalog: Catalog, card: ModelCard) -> None:
    found = check_config("template: qwen\ncutoff_len: 64\nseed: 3\nfreeze_trainable_layers: 1\n", catalog, card, "cpu")
    assert [(f.level, f.key) for f in found] == [
        ("warning", "template"),
        ("note", "seed"),
        ("warning", "freeze_trainable_layers"),
    ]
    assert "chatml" in found[0].text


def test_no_chat_template_at_all(catalog: Catalog, card: ModelCard) -> None:
    bare = ModelCard(**{**vars(card), "chat_template": None, "template": None})
    assert [f.key for f in check_config("cutoff_len: 64", catalog, bare, "cpu") if f.level == "error"] == ["template"]
    assert errors(check_config("cutoff_len: 64\ntemplate: default", catalog, bare, "cpu")) == []


def test_too_much_memory_is_refused(catalog: Catalog, card: ModelCard) -> None:
    text = whole("per_device_train_batch_size: 4096\ndisable_gradient_checkpointing: true\nfinetuning_type: full")
    found = check_config(text, catalog, card, "cpu", 1 << 30)
    assert [(f.level, f.key) for f in found] == [("error", "per_device_train_batch_size")]
    assert "GiB" in found[0].text


VALID: dict[str, st.SearchStrategy[Any]] = {
    "learning_rate": st.floats(2e-7, 0.5),
    "per_device_train_batch_size": st.integers(1, 64),
    "gradient_accumulation_steps": st.integers(1, 32),
    "num_train_epochs": st.integers(1, 20) | st.floats(0.1, 20),
    "max_steps": st.just(-1) | st.integers(1, 10_000),
    "lora_rank": st.integers(1, 256),
    "lora_alpha": st.none() | st.integers(1, 512),
    "lora_dropout": st.floats(0, 0.9),
    "weight_decay": st.floats(0, 0.5),
    "warmup_steps": st.integers(0, 100),
    "lr_scheduler_type": st.sampled_from(["linear", "cosine", "constant", "polynomial", "inverse_sqrt"]),
    "packing": st.none() | st.booleans(),
    "train_on_prompt": st.booleans(),
    "finetuning_type": st.sampled_from(["lora", "full", "oft"]),
    "max_grad_norm": st.floats(0, 10) | st.integers(0, 10),
    "label_smoothing_factor": st.floats(0, 0.9),
    "dataloader_num_workers": st.integers(0, 8),
    "run_name": st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
}


@given(values=st.fixed_dictionaries({}, optional=VALID))
def test_valid_values_pass(values: dict[str, Any], catalog: Catalog, card: ModelCard) -> None:
    text = yaml.safe_dump({**values, "cutoff_len": 128, "run_name": "x" + str(values.get("run_name", ""))})
    assert errors(check_config(text, catalog, card, "cpu")) == []


@given(name=st.from_regex(r"[a-z][a-z_]{3,30}", fullmatch=True))
def test_unknown_keys_are_named(name: str, catalog: Catalog, card: ModelCard) -> None:
    found = check_config(f"cutoff_len: 64\n{name}: 1\n", catalog, card, "cpu")
    if name not in catalog.parameters:
        assert any(f.key == name and f.line == 2 and f.level == "error" for f in found) or name in {"true", "null"}


@given(
    data=st.data(), value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
)
def test_nothing_makes_the_check_fail(data: st.DataObject, value: Any, catalog: Catalog, card: ModelCard) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(catalog.parameters)), min_size=1, max_size=8, unique=True))
    text = yaml.safe_dump(dict.fromkeys(names, value), allow_unicode=True)
    for finding in check_config(text, catalog, card, "cpu", 8 << 30):
        assert isinstance(finding, Finding)
        assert finding.text
        assert "\n" not in finding.text
