from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.matrix.experiments import (
    EXPERIMENTS,
    ResultTree,
    choose_experiments,
    grpo_experiment,
    sft_experiment,
)


def test_all_are_chosen_where_none_is_named() -> None:
    assert choose_experiments(()) == list(EXPERIMENTS)
    assert [one.model for one in choose_experiments(("sft_chat_template",), seeds=2)] == [
        "sft_chat_template",
        "sft_chat_template_seed2",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sft_chat_templat", "did you mean sft_chat_template"),
        (
            "nothing",
            "right is one of sft_chat_template, grpo_chat_template, sft_no_chat_full_loss, sft_no_chat_mask_q, grpo",
        ),
    ],
)
def test_unknown_experiments_are_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        choose_experiments([name])


def test_the_tree_is_that_of_the_seed() -> None:
    tree, (chat, full) = ResultTree(Path("results/gsm8k")), (EXPERIMENTS[0], EXPERIMENTS[2])
    assert tree.model(chat) == Path("results/gsm8k/models/sft_chat_template")
    assert tree.cell(full, "raw") == Path("results/gsm8k/eval/sft_no_chat_full_loss_eval_raw")
    assert tree.report == Path("results/gsm8k/report")


def test_options_of_the_seed_name_an_experiment() -> None:
    found = [sft_experiment(chat=chat, mask_question=mask, seed=1) for chat in (True, False) for mask in (True, False)]
    assert [one.name for one in found] == [
        "sft_chat_template",
        "sft_chat_template",
        "sft_no_chat_mask_q",
        "sft_no_chat_full_loss",
    ]
    assert [grpo_experiment(chat=chat, seed=1).name for chat in (True, False)] == ["grpo_chat_template", "grpo_no_chat"]


def test_a_grpo_may_begin_with_the_sft_of_its_format() -> None:
    assert [grpo_experiment(chat=chat, seed=3).sft.model for chat in (True, False)] == [
        "sft_chat_template_seed3",
        "sft_no_chat_mask_q_seed3",
    ]
