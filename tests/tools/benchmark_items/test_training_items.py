"""A row to learn from is asked, and reaches the verifier, as an item of the benchmark does."""

from __future__ import annotations

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.benchmark_items.reasoning_gym import declare_reasoning_gym
from tuneloop.tools.benchmark_items.training_items import asked_prompt, verifier_item

OWN = Benchmark(name="own", description="d", answer="verifier:v.py", prompt="Is {number} \\boxed{x}? {what}")


def test_a_prompt_is_filled_with_texts_and_numbers() -> None:
    assert asked_prompt(OWN, {"number": 3, "what": "Say {number}."}) == "Is 3 \\boxed{x}? Say {number}."
    assert asked_prompt(OWN, {"other": "3"}) == ""


def test_a_verifier_of_ones_own_gets_the_row_without_its_id() -> None:
    row = {"id": "a", "number": 3, "keys": [1, {"b": None}]}
    assert verifier_item(OWN, row) == {"number": 3, "keys": [1, {"b": None}]}


def test_reasoning_gym_gets_the_entry_or_what_a_row_without_one_says() -> None:
    task = declare_reasoning_gym("rg:chain_sum")
    entry = {"d": [["answer", {"t": [1, 2]}]]}
    assert verifier_item(task, {"question": "q", "entry": entry}) == {"entry": entry}
    assert verifier_item(task, {"question": "q", "answer": "3"}) == {
        "entry": {"d": [["question", "q"], ["answer", "3"]]}
    }
