"""`train.yaml`: values for model and device, repaired by what the validator says."""

from __future__ import annotations

import asyncio

import pytest
import yaml

from tuneloop.agents.policy.config_coder import change_rate
from tuneloop.agents.policy.parameter_map import read_parameter_map
from tuneloop.core.errors import RecipeError
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


BAD = "finetuning_type: full\nlearning_rat: 0.002\ncutoff_len: 64\nbf16: true\n"


@pytest.mark.parametrize(
    ("key", "finding", "right"),
    [
        ("learning_rat", "is no parameter of this release; did you mean learning_rate?", {"learning_rate": 0.002}),
        ("cutoff_len", "64 is above the model's 32 positions; write 32 or less", {"cutoff_len": 32}),
        ("bf16", "the card has compute capability 7; write fp16: true", {"bf16": False, "fp16": True}),
        ("bf16", "does not work on the CPU, which trains in float32; leave it out", {"bf16": False}),
        ("cutoff_len", "is strange", {"cutoff_len": 128}),
    ],
)
def test_cures_of_findings_are_carried_out_on_the_last_config(task, key, finding, right):
    said = task.ask("validator", Diagnosis, failure=f"validate: train.yaml:2 {key}: {finding}", blamed="config")
    assert (said.culprit, said.problem) == ("config", f"train.yaml:2 {key}: {finding}")
    last = BAD if key == "learning_rat" else BAD.replace("learning_rat:", "learning_rate:")
    found = config(task, diagnosis=said, attempt=1, config=last)
    assert {name: found.get(name) for name in right} == right
    assert found["learning_rate"] == 0.002 and "max_steps" not in found


def test_repairs_add_up(task):
    before = task.config(task.hypothesis()).yaml
    memory = Diagnosis(culprit="config", problem="out of memory", repair="halve the batch")
    once = task.config(task.hypothesis(), diagnosis=memory, attempt=1, config=before).yaml
    rate = Diagnosis(culprit="config", problem="the loss is NaN", repair="multiply the learning rate by 0.3")
    twice = yaml.safe_load(task.config(task.hypothesis(), diagnosis=rate, attempt=2, config=once).yaml)
    assert twice["per_device_train_batch_size"] == yaml.safe_load(before)["per_device_train_batch_size"] // 2
    assert twice["learning_rate"] == pytest.approx(0.3 * yaml.safe_load(before)["learning_rate"])


def test_a_config_that_cannot_be_read_is_written_anew(task):
    broken = Diagnosis(culprit="config", problem="cannot be read", repair="write one plain key and value a line")
    assert config(task, diagnosis=broken, attempt=1, config="a: [1, 2\n") == config(task)


def test_a_key_that_is_refused_is_looked_up(task):
    def check(yaml):
        return {"findings": [{"level": "error", "key": "lr", "text": "is no parameter"}] if "\nlr:" in yaml else []}

    task.answers["params_check_config"] = check
    task.answers["params_query_parameters"] = lambda text: {
        "exact": ["learning_rate"] if text == "lr" else []
    }  # fmt: skip
    idea = task.hypothesis()
    idea = idea.model_copy(update={"training_plan": {**idea.training_plan, "lr": 0.01}})
    found = config(task, hypothesis=idea)
    assert "lr" not in found and found["learning_rate"] == 0.01


def test_names_are_the_releases_own(task):
    """In a release that calls its parameters otherwise the policy does too, plan and config."""
    other = {"learning_rate": "learning_rate_start", "max_steps": "maximum_steps", "cutoff_len": "cutoff_length"}
    task.renamed = other
    found = yaml.safe_load(task.config(task.hypothesis()).yaml)
    assert set(other.values()) <= set(found) and not set(other) & set(found)
    assert set(task.hypothesis().training_plan) == {"finetuning_type", "learning_rate_start", "maximum_steps"}


def test_a_release_without_a_learning_rate_is_refused(task):
    task.renamed = {"learning_rate": "step_width"}
    with pytest.raises(RecipeError, match="no parameter for learning rate"):
        task.config(None)


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


def test_the_other_method_begins_with_its_own_suggestion(task):
    parameter_map = asyncio.run(read_parameter_map(task))
    whole = {**parameter_map.begun("full"), "max_steps": 50}
    lora = parameter_map.other_method(whole)
    assert lora == {"finetuning_type": "lora", "learning_rate": 3e-3, "lora_rank": 32, "max_steps": 50}
    assert parameter_map.other_method(lora) == whole


@pytest.mark.parametrize(
    ("values", "half"),
    [
        ({"max_steps": 300}, {"max_steps": 150}),
        ({"max_steps": 300, "num_train_epochs": 2.0}, {"max_steps": 150, "num_train_epochs": 2.0}),  # the steps count
        ({"num_train_epochs": 2.0}, {"num_train_epochs": 1.0}),
        ({"learning_rate": 1e-3}, {"learning_rate": 1e-3, "num_train_epochs": 1.5}),  # three where nobody says
    ],
)
def test_half_the_training_of_any_plan(task, values, half):
    assert change_rate(values, "halve the steps", asyncio.run(read_parameter_map(task))) == half
