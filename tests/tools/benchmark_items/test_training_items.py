"""A row to learn from is asked, and reaches the verifier, as an item of the benchmark does."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.catalog import Benchmark
from tuneloop.core.files import write_lines
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.benchmark_items.reasoning_gym import declare_reasoning_gym
from tuneloop.tools.benchmark_items.training_items import asked_prompt, row_fields, verifier_item
from tuneloop.tools.benchmark_items.user_folder import read_user_benchmark
from tuneloop.tools.training.grpo_items import verified_items

OWN = Benchmark(name="own", description="d", answer="verifier:v.py", prompt="Is {number} \\boxed{x}? {what}")


def test_a_prompt_is_filled_with_texts_and_numbers() -> None:
    assert asked_prompt(OWN, {"number": 3, "what": "Say {number}."}) == "Is 3 \\boxed{x}? Say {number}."
    assert asked_prompt(OWN, {"other": "3"}) == ""


def test_a_verifier_of_ones_own_gets_the_row_without_its_id() -> None:
    row = {"id": "a", "number": 3, "keys": [1, {"b": None}]}
    assert verifier_item(OWN, row) == {"number": 3, "keys": [1, {"b": None}]}


def test_reasoning_gym_gets_the_entry_and_a_row_without_one_is_no_item() -> None:
    task = declare_reasoning_gym("rg:chain_sum")
    entry = {"d": [["answer", {"t": [1, 2]}]]}
    assert verifier_item(task, {"question": "q", "entry": entry}) == {"entry": entry}
    assert verifier_item(task, {"question": "q", "answer": "3"}) is None
    rows = [{"instruction": task.prompt.replace("{question}", name)} for name in ("q", "r")]
    raw: list[dict[str, object]] = [{"question": "q", "entry": entry}, {"question": "r", "answer": "3"}]
    found = verified_items(task, rows, (raw,))
    assert (found.golds, found.dropped) == (({"item": {"entry": entry}},), 1)


def test_a_list_is_asked_as_an_item_of_the_folder_is(tmp_path: Path) -> None:
    row = {"number": [1, "two", 3.5], "what": "Which?", "answer": "1"}
    (tmp_path / "benchmark.yaml").write_text(
        "name: own\ndescription: d\nanswer: verifier:v.py\nprompt: 'Is {number} ok? {what}'\n"
    )
    (tmp_path / "v.py").write_text("def score(answer, item):\n    return 1.0\n")
    for split in ("validation", "test"):
        write_lines(tmp_path / f"{split}.jsonl", [{**row, "what": split}])
    own = read_user_benchmark(tmp_path)
    (item,) = own.test
    assert asked_prompt(own.benchmark, {**row, "what": "test"}) == render_prompt(own.benchmark, item)
    assert asked_prompt(own.benchmark, row) == "Is 1\ntwo\n3.5 ok? Which?"
    assert row_fields(own.benchmark, {"number": [1, None], "what": True}) == {}
