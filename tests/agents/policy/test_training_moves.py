"""GRPO and masking as moves: when they are proposed, what they become, what follows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tuneloop.agents.policy.training_moves import grpo_moves, masking_moves, template_moves
from tuneloop.core.brief import BudgetLeft
from tuneloop.core.experiment import Diagnosis, Hypothesis

GRPO = {"stage": "grpo", "learning_rate": 2e-4, "max_steps": 40, "num_generations": 8, "beta": 0.01}


def proposals(world: Any, count: int, **changes: Any) -> list[Hypothesis]:
    """What is proposed after a first recipe that stays the best."""
    first = world.hypothesis()
    journal: tuple[Any, ...] = (world.row(1, first),)
    for number in range(2, count + 2):
        idea = world.hypothesis(experiment=number, journal=journal, **changes)
        journal = (*journal, world.row(number, idea, outcome="not promoted", value=40.0))
    return [row.hypothesis for row in journal]


def test_grpo_is_proposed_where_the_run_can_train_so(messy) -> None:
    assert not [idea for idea in proposals(messy, 12) if idea.training_plan.get("stage")]
    messy.answers["params_suggest_config"] = {"values": GRPO}
    messy.prefer("method.grpo")
    first, *later = proposals(messy, 2)
    ideas = [idea for idea in later if idea.training_plan.get("stage") == "grpo"]
    assert ideas and ideas[0].parent == 1 and ideas[0].data_plan == first.data_plan
    assert {**ideas[0].training_plan, "learning_rate": 0} == {**GRPO, "learning_rate": 0}


def test_its_config_is_the_servers_with_the_plan(messy) -> None:
    messy.answers["params_suggest_config"] = {"values": {**GRPO, "warmup_steps": 5}}
    idea = messy.hypothesis().model_copy(update={"training_plan": {**GRPO, "learning_rate": 6e-5}, "parent": 1})
    assert yaml.safe_load(messy.config(idea).yaml) == {**GRPO, "warmup_steps": 5, "learning_rate": 6e-5}
    repair = Diagnosis(culprit="config", problem="use at most 12 steps", repair="set the max steps to 12")
    told = {"config": messy.config(idea).yaml, "diagnosis": repair}
    assert yaml.safe_load(messy.config(idea, **told).yaml)["max_steps"] == 12


def test_after_a_grpo_ordinary_moves_change_the_sft_below_it(messy) -> None:
    messy.answers["params_suggest_config"] = {"values": GRPO}
    first = messy.hypothesis()
    tuned = first.model_copy(update={"training_plan": GRPO, "parent": 1})
    journal = (messy.row(1, first), messy.row(2, tuned, value=55.0))
    idea = messy.hypothesis(experiment=3, journal=journal)
    assert idea.parent == 1 and idea.training_plan.get("stage") is None


def test_no_grpo_without_time_weights_or_anything_to_learn(messy) -> None:
    messy.answers["params_suggest_config"] = {"values": GRPO}
    short = BudgetLeft(experiments_left=30, seconds_left=100, training_left=40)
    assert not [idea for idea in proposals(messy, 8, budget=short) if idea.training_plan.get("stage")]
    first = messy.hypothesis()
    row = messy.row(1, first, outcome="not promoted")
    assert messy.hypothesis(experiment=2, journal=(row,)).training_plan.get("stage") is None


class Turned:
    """A case with what moves read of one; `card`: what the model's card says."""

    def __init__(self, room: float, training: dict[str, Any], key: str = "train_on_prompt", **card: Any) -> None:
        self.room, self.training = room, training
        self.situation = SimpleNamespace(card=SimpleNamespace(**card))
        self.parameter_map = type("Map", (), {"prompt_loss": key, "rate": "learning_rate"})

    def move(self, kind: str, statement: str, reason: str, training: Any = None) -> Any:
        return kind, training


@pytest.mark.parametrize(
    ("training", "then"),
    [({"a": 1}, {"a": 1, "train_on_prompt": True}), ({"a": 1, "train_on_prompt": True}, {"a": 1})],
)
def test_masking_is_turned_on_and_off(training: dict[str, Any], then: dict[str, Any]) -> None:
    case: Any = Turned(0.5, training)
    found: list[Any] = list(masking_moves(case))
    assert [made for _, made in found] == [then]
    case = Turned(0.5, training, key="")
    assert list(masking_moves(case)) == []


def test_without_values_there_is_no_grpo() -> None:
    assert list(grpo_moves(Turned(0.5, {}), None)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "tiny", "training", "found"),
    [
        ("chat", False, {"a": 1}, [("method.plain_text", {"a": 1, "template": "empty"})]),
        ("chat", True, {"a": 1}, []),
        ("chat", True, {"a": 1, "template": "empty"}, [("format.evaluated", {"a": 1})]),
        ("raw", False, {"a": 1}, []),
        ("raw", False, {"a": 1, "template": "empty"}, []),
        ("raw", False, {"a": 1, "template": "chatml"}, [("format.evaluated", {"a": 1})]),
    ],
)
def test_rows_go_into_the_form_that_is_evaluated_or_once_into_plain_text(
    asked: str, tiny: bool, training: dict[str, Any], found: list[Any]
) -> None:
    case: Any = Turned(0.5, training, asked=asked, chat_template=True, tiny=tiny)
    assert list(template_moves(case)) == found


def test_without_a_template_there_is_one_form() -> None:
    case: Any = Turned(0.5, {"template": "empty"}, asked="chat", chat_template=False, tiny=False)
    assert list(template_moves(case)) == []
