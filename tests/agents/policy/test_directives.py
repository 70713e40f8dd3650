"""The offline policy plans within what the user wants; tested on what it does."""

from __future__ import annotations

import pytest
import yaml

from tests.agents.policy.test_researcher import failures, training
from tuneloop.core.constraints import violations
from tuneloop.core.directive import Avoid, Bound, Focus, Keep, Sources, Use
from tuneloop.core.errors import RecipeError

LORA = Use(parameter="lora_rank", value=32)
LOW = Bound(parameter="learning_rate", at_most=1e-5)


def read_files(hypothesis):
    return {s.options["file"] for s in hypothesis.data_plan if s.do == "use_source"}


def after(world, first, **brief):
    world.answers.update(evaluation_explain_failures=failures(20, "35 + 2 = 38\n38", "38"))
    return world.hypothesis(experiment=2, journal=(world.row(1, first, training=training()),), **brief)


def test_what_is_asked_for_is_in_the_next_experiment(messy):
    first = messy.hypothesis()
    found = after(messy, first, directives=(LORA,))
    assert found.aspect == "asked" and "lora_rank = 32" in found.statement
    assert found.training_plan["lora_rank"] == 32 and found.training_plan["finetuning_type"] == "lora"
    assert found.data_plan == first.data_plan, "nothing else is changed"
    config = yaml.safe_load(messy.config(found, directives=(LORA,)).yaml)
    assert config["lora_rank"] == 32


def test_the_first_plan_does_what_is_asked_for(messy):
    found = messy.hypothesis(directives=(LORA, LOW))
    assert found.training_plan["lora_rank"] == 32
    assert found.training_plan["learning_rate"] <= 1e-5


@pytest.mark.parametrize(
    "command", [LOW, Avoid(parameter="finetuning_type", value="full"), Bound(parameter="max_steps", at_most=50)]
)
def test_no_plan_and_no_config_break_a_limit(messy, command):
    first = messy.hypothesis(directives=(command,))
    second = after(messy, messy.hypothesis(), directives=(command,))
    for idea in (first, second):
        config = yaml.safe_load(messy.config(idea, directives=(command,)).yaml)
        assert violations([command], config, {}) == []


def test_a_plan_that_limits_bend_says_so(messy):
    first = messy.hypothesis()
    most = Bound(parameter="max_steps", at_most=first.training_plan["max_steps"] + 100)
    messy.prefer("underfit.longer")
    row = messy.row(1, first, training=training(tail_slope=-0.3, last_loss=1.0))
    found = messy.hypothesis(experiment=2, journal=(row,), directives=(most,))
    assert found.training_plan["max_steps"] == most.at_most
    assert f"Within the user's limits: max_steps = {most.at_most:.0f}." in found.statement


def test_moves_that_limits_undo_are_left_out(messy):
    """With the rate kept, an experiment that would only turn it is none."""
    first = messy.hypothesis()
    rate = first.training_plan["learning_rate"]
    rows, wishes = [messy.row(1, first, training=training())], (Keep(parameter="learning_rate"),)
    messy.answers.update(evaluation_explain_failures=failures(20, "35 + 2 = 38\n38", "38"))
    for number in range(2, 8):
        found = messy.hypothesis(
            experiment=number, journal=tuple(rows), directives=wishes, kept={"learning_rate": rate}
        )
        assert found.aspect != "rate" and found.training_plan["learning_rate"] == rate
        rows.append(messy.row(number, found, value=1.0))


def test_sources_that_were_ruled_out_are_read_by_no_plan(messy):
    first = messy.hypothesis()
    used = read_files(first)
    never = Sources(never=tuple(f"raw/{file}" for file in used))
    try:
        found = after(messy, first, directives=(never,))
    except RecipeError as e:
        assert "source" in str(e)
    else:
        assert not read_files(found) & used
    assert read_files(messy.hypothesis(directives=(Sources(only=("raw/book.csv",)),))) == {"book.csv"}


def test_free_text_ideas_are_not_reported_as_followed(messy):
    found = messy.hypothesis(directives=(Focus(text="shorter answers"),))
    assert "wait for a chat model" in found.reason
    assert found.data_plan == messy.hypothesis().data_plan
