"""Two hundred configs made after the rules, by kinds of slip: the wrong ones are refused with their key, the right ones pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config

# Key → a right value, in the order of how often people write them.
RIGHT = {
    "learning_rate": "2.0e-5", "num_train_epochs": "2.0", "per_device_train_batch_size": "2", "lora_rank": "16",
    "gradient_accumulation_steps": "4", "lora_alpha": "32", "lora_dropout": "0.05", "warmup_ratio": "0.1", "cutoff_len": "128",
    "lr_scheduler_type": "cosine", "weight_decay": "0.01", "max_grad_norm": "1.0", "logging_steps": "5", "save_steps": "10",
    "seed": "7", "max_samples": "50", "adam_beta1": "0.9", "adam_beta2": "0.95", "adam_epsilon": "1.0e-8", "optim": "adamw_torch",
    "neftune_noise_alpha": "5", "preprocessing_num_workers": "2", "save_total_limit": "1", "dataloader_num_workers": "0",
    "packing": "false", "mask_history": "true", "train_on_prompt": "false", "use_rslora": "true", "gradient_checkpointing": "true",
    "lora_target": "q_proj,v_proj", "plot_loss": "false", "save_only_model": "true",
}  # fmt: skip
NUMBERS = (
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "lora_rank",
    "lora_alpha",
    "lora_dropout",
    "cutoff_len",
    "gradient_accumulation_steps",
    "weight_decay",
    "max_grad_norm",
    "save_steps",
    "adam_beta2",
    "seed",
)
SWITCHES = (
    "packing",
    "mask_history",
    "train_on_prompt",
    "use_rslora",
    "gradient_checkpointing",
    "plot_loss",
    "save_only_model",
)
CHOICES = {
    "stage": "sfft",
    "finetuning_type": "lorra",
    "template": "chatmll",
    "lr_scheduler_type": "cosinus",
    "optim": "adamw_touch",
    "save_strategy": "sometimes",
    "logging_strategy": "step",
    "report_to": "weights",
    "mix_strategy": "concatenate",
    "dataset": "alpacca",
    "lora_target": "q_project",
    "rope_scaling": "lineal",
    "flash_attn": "fa9",
    "infer_backend": "vlm",
}
BELOW = dict.fromkeys(
    ("learning_rate", "per_device_train_batch_size", "lora_rank", "cutoff_len", "gradient_accumulation_steps"), "-1"
)
BEYOND = {
    "lora_dropout": "1.2",
    "adam_beta1": "1.5",
    "adam_beta2": "2",
    "warmup_ratio": "-0.2",
    "learning_rate": "3",
    "val_size": "-0.1",
}
OTHERS = [
    "dataset_dir: not_here",
    "output_dir: data",
    "output_dir: model",
    "model_name_or_path: nothing_here",
    "dataset: ''",
    "model_name_or_path: alien",
    "model_name_or_path: misnamed",
    "model_name_or_path: short",
    "adapter_name_or_path: weightless",
    "adapter_name_or_path: wider",
    "adapter_name_or_path: file",
    "pref_loss: orpo",
    "@kto pref_loss: sigmoid",
    "@oft oft_target: w9",
    "dataset: pairs",
    "@dpo dataset: alpaca",
    "@kto dataset: alpaca",
    "dataset: judged",
    "cutoff_len: 4096",
    "lora_target: c_attn",
    "stage: ppo",
    "@rm predict_with_generate: true",
    "quantization_bit: 3",
    "bf16: true",
    "fp16: true",
    "@full lora_rank: 8 | &x=1 ## x",
    "dataset: alpaca,nope ## dataset",
    "eval_dataset: nope",
    "load_best_model_at_end: true | eval_strategy: 'no'",
    "max_samples: 0",
    "do_train: false ## do_train",
    "val_size: 0.1 | eval_dataset: more ## val_size",
    "template: ''",
    "cutoff_len: 0",
    "max_steps: 0.5",
    "deepspeed: nowhere.json",
    "resume_from_checkpoint: out/none",
    "lora_rank: 8.5",
    "per_device_train_batch_size: 0",
]


def typos(key: str) -> list[str]:
    """A letter too few, two in the wrong order, a hyphen for an underscore."""
    middle = len(key) // 2
    found = [key[:middle] + key[middle + 1 :], key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :]]
    return [name for name in dict.fromkeys([*found, key.replace("_", "-")]) if name != key]


def wrong() -> Iterator[tuple[str, str]]:
    for key in list(RIGHT)[:16]:
        yield from ((name, f"{name}: {RIGHT[key]}") for name in typos(key))
    for key in NUMBERS:
        yield from ((key, f"{key}: {value}") for value in ("many", "[1, 2]", "{a: 1}"))
    yield from ((key, f"{key}: {value}") for key in SWITCHES for value in ("maybe", "2.5"))
    for table in (CHOICES, BELOW, BEYOND):
        yield from ((key, f"{key}: {value}") for key, value in table.items())
    yield from ((world.case_of("others", line).key, line) for line in OTHERS)


def right() -> Iterator[str]:
    yield from (f"{key}: {value}" for key, value in RIGHT.items())
    pairs = zip(list(RIGHT.items())[::2], list(RIGHT.items())[1::2], strict=False)
    yield from (f"{a}: {x} | {b}: {y}" for (a, x), (b, y) in pairs)
    yield from (
        "@dpo pref_loss: simpo",
        "@dpo pref_beta: 0.2",
        "@rm lora_rank: 4",
        "@kto pref_beta: 0.1",
        "@pt packing: true",
    )
    yield from (
        "@oft oft_block_size: 4",
        "@freeze freeze_trainable_layers: 1",
        "@full pure_bf16: false",
        "@eval eval_steps: 2",
    )


WRONG, GOOD = list(dict.fromkeys(wrong())), list(dict.fromkeys(right()))


@pytest.mark.parametrize(("key", "line"), WRONG)
def test_a_wrong_one_is_refused_with_its_key(key: str, line: str, catalog: Catalog, place: Path) -> None:
    errors = refused(line, catalog, place)
    assert any(key == found for found, _ in errors), errors


@pytest.mark.parametrize("line", GOOD)
def test_a_right_one_passes(line: str, catalog: Catalog, place: Path) -> None:
    assert refused(line, catalog, place) == []


def refused(line: str, catalog: Catalog, place: Path) -> list[tuple[str, str]]:
    case = world.case_of("later", line)
    found = check_config(case.text, catalog, None, case.device, profile="engine", overrides=case.overrides, here=place)
    return [(f.key or "", str(f)) for f in found if f.level == "error"]


def test_there_are_two_hundred() -> None:
    assert len(WRONG) + len(GOOD) >= 200
