"""`train.yaml`: values for model and device, repaired by what the validator says."""

from __future__ import annotations

import pytest
import yaml

from tuneloop.core.experiment import Diagnosis, Hypothesis


@pytest.fixture
def task(world, kit):
    rows = [{"q": q, "s": f"{s} Answer: {a}"} for q, s, a in kit.stories(300, 1)]
    return world("number", [(q, a) for q, _, a in kit.stories(60, 2)], {"rows.jsonl": rows})


def config(task, **changes):
    found = yaml.safe_load(task.config(changes.pop("hypothesis", None) or task.hypothesis(), **changes).yaml)
    assert not {"model_name_or_path", "dataset", "dataset_dir", "output_dir"} & set(found)
    assert isinstance(found["learning_rate"], float)
    return found


def test_tiny_model_on_a_cpu(task):
    found = config(task)
    assert found["finetuning_type"] == "full" and 3e-4 <= found["learning_rate"] <= 2e-3
    assert found["per_device_train_batch_size"] * found["gradient_accumulation_steps"] == 16
    assert found["template"] == "chatml" and found["bf16"] is False
    assert found["disable_gradient_checkpointing"] is True and found["save_strategy"] == "no"
    assert found["cutoff_len"] % 64 == 0 and found["cutoff_len"] <= 512
    assert found["logging_steps"] == round(0.02 * found["max_steps"])


def test_real_model_on_an_accelerator(task):
    task.card |= {"parameters": 7_000_000_000, "device": "cuda", "max_positions": 32768, "template": None}
    found = config(task)
    assert found["finetuning_type"] == "lora" and found["lora_rank"] == 32 and found["lora_target"] == "all"
    assert found["bf16"] is True and "template" not in found
    assert found["disable_gradient_checkpointing"] is False
    assert found["per_device_train_batch_size"] * found["gradient_accumulation_steps"] == 16


def test_model_without_chat_template_is_trained_on_bare_text(task):
    task.card |= {"template": None, "chat_template": False}
    assert config(task)["template"] == "empty"


def test_lengths_come_from_the_newest_data_report(task):
    first = task.hypothesis()
    task.answers["data_report"] = {"rows": 100, "lengths": {"longest": 410}}
    assert config(task, journal=(task.row(1, first),))["cutoff_len"] == 448


def test_keys_the_server_finds_wrong_are_left_out(task):
    task.answers["params_check_config"] = {
        "findings": [{"level": "error", "key": "bf16", "text": "not on this device"}]
    }
    assert "bf16" not in config(task)


@pytest.mark.parametrize(
    ("repair", "key", "right"),
    [
        ("set cutoff_len to 512", "cutoff_len", lambda old, new: new == 512),
        ("multiply the learning rate by 0.3", "learning_rate", lambda old, new: new == pytest.approx(0.3 * old)),
        ("leave out template", "template", lambda old, new: new is None),
        (
            "halve the batch and switch checkpointing on",
            "per_device_train_batch_size",
            lambda old, new: new == old // 2,
        ),
        ("halve the steps", "max_steps", lambda old, new: new == old // 2),
    ],
)
def test_repairs_are_carried_out(task, repair, key, right):
    before = config(task)
    diagnosis = Diagnosis(culprit="config", problem="it failed", repair=repair)
    after = config(task, diagnosis=diagnosis, attempt=1)
    assert right(before[key], after.get(key))


def test_a_repair_for_another_author_changes_nothing(task):
    diagnosis = Diagnosis(culprit="script", problem="it failed", repair="set cutoff_len to 512")
    assert config(task, diagnosis=diagnosis, attempt=1) == config(task)


def test_values_of_the_plan_win(task):
    idea = Hypothesis(
        statement="s", reason="r", disproof="d", aspect="rate",
        training_plan={"finetuning_type": "lora", "learning_rate": 3e-3, "lora_rank": 8, "max_steps": 50},
    )  # fmt: skip
    found = config(task, hypothesis=idea)
    assert (found["lora_rank"], found["lora_alpha"], found["max_steps"], found["learning_rate"]) == (8, 16, 50, 3e-3)
