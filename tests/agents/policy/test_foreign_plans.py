"""Plans as chat models write them: steps in words of their own, values as text, lengths that are none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from tuneloop.agents.policy.researcher import expected_moves
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Diagnosis, Hypothesis, Step


def planned(world: Any, *steps: Step, **training: Any) -> Hypothesis:
    first: Hypothesis = world.hypothesis()
    changes = {"data_plan": (*first.data_plan, *steps)} if steps else {}
    return first.model_copy(update=changes | ({"training_plan": training} if training else {}))


def moves_after(world: Any, *ideas: Hypothesis) -> list[Any]:
    rows = [world.row(n, one, outcome="not promoted" if n > 1 else "promoted") for n, one in enumerate(ideas, 1)]
    brief = world.brief(experiment=len(rows) + 1, journal=tuple(rows))
    return list(asyncio.run(expected_moves(brief, world)))


@pytest.mark.parametrize(
    "step",
    [
        Step(do="clean the data well"),
        Step(do="use_source", options={"name": "book"}),
        Step(do="keep_agreed", options={"votes": "many", "need_votes": "all"}),
        Step(do="cap_length", options={"solution": "short"}),
    ],
)
def test_steps_in_other_words_end_nothing(messy: Any, step: Step) -> None:
    assert moves_after(messy, planned(messy, step))


def test_a_script_leaves_out_what_the_policy_cannot_do(messy: Any) -> None:
    plain, extra = messy.script(messy.hypothesis()), planned(messy, Step(do="clean the data well"))
    script = messy.script(extra)
    assert messy.run(script.code) == messy.run(plain.code)
    assert script.notes.endswith("cannot do it: clean the data well") and "left out" not in plain.notes


def test_a_plan_without_sources_reads_those_of_the_profile(messy: Any) -> None:
    idea = messy.hypothesis().model_copy(update={"data_plan": (Step(do="dedupe"), Step(do="clean"))})
    assert messy.run(messy.script(idea).code)


def test_options_that_cannot_be_read_are_named(messy: Any) -> None:
    first = messy.hypothesis()
    idea = first.model_copy(
        update={"data_plan": (*first.data_plan[:1], Step(do="select", options={"words": ["a", "b"]}))}
    )
    with pytest.raises(RecipeError, match="cannot follow the data plan"):
        messy.script(idea)


@pytest.mark.parametrize(
    "training",
    [
        {"finetuning_type": "full", "max_steps": -1},
        {"finetuning_type": "full", "num_train_epochs": "auto"},
        {"finetuning_type": "lora", "lora_rank": "r=8", "learning_rate": True},
        {"finetuning_type": "full", "max_steps": "all", "learning_rate": "1e-4"},
    ],
)
def test_values_that_say_nothing_end_nothing(messy: Any, training: dict[str, Any]) -> None:
    idea = planned(messy, **training)
    assert moves_after(messy, idea)
    config = messy.config(idea)
    written = yaml.safe_load(config.yaml)
    assert "no amount, left out" in config.notes
    assert isinstance(written["learning_rate"], float) and written.get("max_steps", 1) != "all"


def test_a_length_in_epochs_is_not_overruled(messy: Any) -> None:
    written = yaml.safe_load(messy.config(planned(messy, num_train_epochs=2.0)).yaml)
    assert written["num_train_epochs"] == 2.0 and "max_steps" not in written


def test_a_rate_as_text_is_not_tried_again_as_a_number(messy: Any) -> None:
    values = dict(messy.hypothesis().training_plan)
    texts = [planned(messy, **{**values, "learning_rate": rate}) for rate in ("5e-4", "1e-3")]
    said = [move.statement for move in moves_after(messy, *texts)]
    assert said and not [one for one in said if "Learning rate 0.001 " in one]


def test_the_rate_of_a_full_training_is_repaired_without_first_values_of_lora(messy: Any) -> None:
    messy.answers["params_query_parameters"] = {"names": ["num_train_epochs", "max_steps", "train_on_prompt"]}
    idea = messy.hypothesis()
    before = yaml.safe_load(messy.config(idea).yaml)
    cure = Diagnosis(culprit="config", problem="it diverged", repair="multiply the learning rate by 0.3")
    after = yaml.safe_load(messy.config(idea, diagnosis=cure, attempt=1).yaml)
    assert after["learning_rate"] == pytest.approx(0.3 * before["learning_rate"])
