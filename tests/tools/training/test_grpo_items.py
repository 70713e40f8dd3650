"""Prompts of GRPO and what the scorer has of each: the answer in a row, or the raw row that a verifier judges by."""

from __future__ import annotations

from typing import Any

from tuneloop.tools.benchmarks.wordproblems import BENCHMARK
from tuneloop.tools.training.grpo_items import answered_items, verified_items

VERIFIED = BENCHMARK.model_copy(update={"answer": "verifier:v.py", "prompt": "{what}\nSay it."})


def rows(*outputs: str) -> list[dict[str, str]]:
    return [{"instruction": f"How many are {i}?", "input": "", "output": text} for i, text in enumerate(outputs)]


def asked(*prompts: str) -> list[dict[str, str]]:
    return [{"instruction": prompt, "input": "Say it.", "output": ""} for prompt in prompts]


def raw(*prompts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"id": i, "what": prompt, **more} for i, prompt in enumerate(prompts)]


def test_prompts_have_the_answer_that_the_scorer_reads() -> None:
    found = answered_items(BENCHMARK, rows("1 + 1 = 2\n\\boxed{2}", "no answer", "\\boxed{07}", ""))
    assert found.prompts == ("How many are 0?", "How many are 2?")
    assert (found.golds[0], found.dropped) == ({"answer": "2"}, 2)


def test_a_prompt_with_two_answers_is_left_out() -> None:
    twice = [*rows("\\boxed{2}"), *rows("\\boxed{3}"), *rows("\\boxed{2}", "\\boxed{5}")[1:]]
    found = answered_items(BENCHMARK, twice)
    assert (found.prompts, found.golds, found.dropped) == (("How many are 1?",), ({"answer": "5"},), 2)


def test_a_verifier_gets_the_raw_row_that_is_asked_alike() -> None:
    found = verified_items(VERIFIED, asked("Two?", "Three?", "Two?"), [raw("One?", "Two?", key=[1])])
    assert found.prompts == ("Two?\nSay it.",)
    assert found.golds == ({"item": {"what": "Two?", "key": [1]}},)
    assert found.dropped == 2


def test_white_space_around_a_prompt_makes_no_other_item() -> None:
    assert verified_items(VERIFIED, asked(" Two? "), [raw("Two?")]).golds == ({"item": {"what": "Two?"}},)


def test_a_prompt_that_stands_for_two_items_is_left_out() -> None:
    found = verified_items(VERIFIED, asked("Two?"), [[*raw("Two?", key=1), *raw("Two?", key=2)]])
    assert (found.prompts, found.dropped) == ((), 1)


def test_a_later_source_has_the_whole_item() -> None:
    found = verified_items(VERIFIED, asked("Two?", "One?"), [raw("One?", "Two?", key=1), raw("Two?", key=2, more=3)])
    assert [gold["item"].get("more") for gold in found.golds] == [3, None]


def test_rows_without_the_fields_of_the_prompt_are_no_items() -> None:
    odd: list[dict[str, Any]] = [{"what": None}, {"what": ["a"]}, {"other": "Two?"}, {"what": True}]
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert verified_items(VERIFIED, asked("Two?"), [odd, raw("Two?", key=deep)]).prompts == ()
