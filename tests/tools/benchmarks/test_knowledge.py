"""Knowledge, reasoning and mathematics: sources as they are published, and answerers through the real engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmark_answers import item_set, measured, repository, splits
from tuneloop.core.catalog import Item
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import item_content_hash, render_prompt
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet

BOXED = "First this, then that.\n\\boxed{{{}}}"
LETTER = "Some reasons.\nThe answer is {}."
RIGHT = {
    "gsm8k": "2 + 3 = 5, so\n#### {}",
    "aime24": BOXED,
    "aime25": "Therefore the answer is ${}$.",
    "math": BOXED,
    "math500": "Hence \\boxed{{ {} }}.",
    "mmlu": "Because of B and C.\nANSWER: {}",
    "cmmlu": "选项甲不对。\n答案: {}",
    "bbh": "Let us see. So the answer is {}.",
    "arc_c": LETTER,
    "arc_e": "({})",
    "hellaswag": "**{}**",
    "FinanceIQ_gen": "{}",
}
CONSTANT = dict.fromkeys(RIGHT, "A") | {"gsm8k": "23", "aime24": "24", "aime25": "24", "bbh": "(A)"}
CONSTANT |= {"math": "\\text{even}", "math500": "\\text{even}"}


def everything(name: str, folder: Path) -> list[Item]:
    return [item for side in splits(name, folder) for item in side]


@pytest.mark.parametrize("name", RIGHT)
def test_splits_of_the_source_are_whole_and_apart(name: str, tmp_path: Path) -> None:
    benchmark = resolve.load_entry(name)[0]
    validation, test = splits(name, tmp_path)
    check_items(benchmark, validation, test, name)
    assert len(validation) >= 10 and len(test) >= 10
    assert benchmark.source and benchmark.licence != "unknown"
    assert not [name for name in test[0].fields if f"{{{name}}}" in render_prompt(benchmark, test[0])]


@pytest.mark.parametrize("name", ["gsm8k", "math", "mmlu", "arc_c", "arc_e", "hellaswag", "FinanceIQ_gen"])
def test_rows_to_learn_from_are_none_of_the_pool(name: str, tmp_path: Path) -> None:
    benchmark, module = resolve.load_entry(name)
    assert benchmark.source
    rows = list(module.train(benchmark, repository(benchmark.source.repo, tmp_path)))
    texts = {text for item in everything(name, tmp_path) for text in item.fields.values() if len(text) > 40}
    assert len(rows) >= 10
    assert all(row["answer"] and isinstance(row["answer"], str) for row in rows)
    asked = {"gsm8k": "question", "math": "problem", "hellaswag": "text"}.get(name, "question")
    assert not texts & {row[asked] for row in rows}


def test_gsm8k_reads_thousands_and_keeps_a_near_copy_on_one_side(tmp_path: Path) -> None:
    validation, test = splits("gsm8k", tmp_path)
    assert {"1250", "-5"} <= {item.answer for item in [*validation, *test]}
    copies = [
        [i.answer for i in side if i.fields["question"].lower().startswith("ana fills 2 boxes with 7")]
        for side in (validation, test)
    ]
    assert sorted(copies) in ([[], ["14"]], [[], ["14", "14"]])


def test_a_contest_of_another_year_is_the_validation_of_both(tmp_path: Path) -> None:
    of_2024, of_2025 = splits("aime24", tmp_path), splits("aime25", tmp_path)
    assert of_2024[0] == of_2025[0]
    sides = [{item.fields["problem"] for item in side} for side in (of_2024[0], of_2024[1], of_2025[1])]
    assert [len(side) for side in sides] == [30, 30, 30]
    assert not (sides[0] & sides[1] or sides[0] & sides[2])
    assert [len(item_set(name, tmp_path).items) for name in ("aime24", "aime25")] == [480, 480]


def test_a_problem_of_math_and_of_math500_is_on_the_same_side_of_both(tmp_path: Path) -> None:
    """Else a run on both would show an agent one's sealed test as the other's validation."""
    of_math, of_500 = (
        [set(map(item_content_hash, side)) for side in splits(name, tmp_path)] for name in ("math", "math500")
    )
    assert of_500[0] <= of_math[0] | of_math[1]
    assert not (of_500[0] & of_math[1] or of_500[1] & of_math[0])


def test_options_of_arc_get_letters_whatever_their_labels(tmp_path: Path) -> None:
    items = {item.id: item for item in everything("arc_c", tmp_path)}
    numbered, five, three = items["ARC-Challenge_3"], items["ARC-Challenge_0"], items["ARC-Challenge_1"]
    assert numbered.answer in "ABCD" and numbered.fields["options"].startswith("A. ")
    assert [len(item.fields["options"].splitlines()) for item in (numbered, five, three)] == [4, 5, 3]


def test_hellaswag_takes_labelled_rows_and_keeps_clips_together(tmp_path: Path) -> None:
    sides = splits("hellaswag", tmp_path)
    assert sum(map(len, sides)) == 48
    assert not any("[" in text for side in sides for item in side for text in item.fields.values())
    assert not {i.cluster for i in sides[0]} & {i.cluster for i in sides[1]}
    assert {i.group for side in sides for i in side} == {"wikihow", "activitynet"}


def test_finance_prompts_have_five_shots_and_text_cells(tmp_path: Path) -> None:
    items = everything("FinanceIQ_gen", tmp_path)
    assert Counter(item.group for item in items) == {"注册会计师（CPA）": 20, "银行从业资格": 12, "精算师-金融数学": 6}
    assert all(item.fields["solved"].count("答案是: ") == 5 for item in items)
    benchmark, module = resolve.load_entry("FinanceIQ_gen")
    assert benchmark.source
    rows = list(module.train(benchmark, tmp_path / benchmark.source.repo))
    assert any("[7]" in row["options"] for row in rows)


def test_odd_targets_of_bbh_are_kept_as_they_are(tmp_path: Path) -> None:
    assert "Monsoon, Inc" in {item.answer for item in everything("bbh", tmp_path)}


def test_a_family_names_its_parts() -> None:
    assert resolve.family_members("arc") == ("arc_c", "arc_e")


def right(given: ItemSet, item: Item) -> str:
    return RIGHT[given.name].format(item.answer)


def constant(given: ItemSet, _: Item) -> str:
    return RIGHT[given.name].format(CONSTANT[given.name])


def unreadable(given: ItemSet, item: Item) -> str:
    """The right answer, in thoughts that never end."""
    return f"<think>{right(given, item)}"


def after_thoughts(given: ItemSet, item: Item) -> str:
    """A wrong answer in the thoughts, the right one behind them."""
    return f"<think>{constant(given, item)} No.</think>\n{right(given, item)}"


ANSWERERS: dict[str, Callable[[ItemSet, Item], str]] = {
    "right": right,
    "silent": lambda *_: "",
    "constant": constant,
    "unreadable": unreadable,
    "after_thoughts": after_thoughts,
}


def test_answerers_get_what_they_deserve(opencompass: Engine, tmp_path: Path) -> None:
    sets = [item_set(name, tmp_path) for name in RIGHT]
    scores = measured(opencompass, tmp_path, sets, ANSWERERS)
    for given in sets:
        found = {name: scores[name, given.name] for name in ANSWERERS}
        share = 100 * sum(item.answer == CONSTANT[given.name] for item in given.items) / len(given.items)
        assert 0 < share < 60, given.name
        values = {name: round(score.value, 6) for name, score in found.items()}
        expected = {"right": 100, "silent": 0, "constant": round(share, 6), "unreadable": 0, "after_thoughts": 100}
        assert values == expected, given.name
        assert {name: found[name].parsed for name in ("right", "silent", "unreadable")} == {
            "right": 100,
            "silent": 0,
            "unreadable": 0,
        }
        assert not [item.error for score in found.values() for item in score.items if item.error]
