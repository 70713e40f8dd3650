"""PANORAMA, BioProBench and TableBench: sources as they are published, and answerers through the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.benchmark_answers import item_set, measured, repository, splits
from tests.hub.making import parquet
from tests.hub.server import LocalHub
from tuneloop.core.catalog import Item
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import render_prompt, select_validation
from tuneloop.tools.benchmark_items.resolve import benchmark_cards
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.scoring import scorer
from tuneloop.tools.scoring.verdicts import make_score

TAGS = "I think so.\n[ANSWER_START]{}[ANSWER_END]"


def ordered(gold: dict[str, Any]) -> str:
    """The numbers of the shown steps in the right order."""
    left = list(enumerate(gold["steps"]))
    found = []
    for step in gold["order"]:
        place = next(one for one in left if one[1] == step)
        left.remove(place)
        found.append(place[0])
    return TAGS.format(found)


ORACLES: dict[str, Callable[[Any], str]] = {
    "panorama_par4pc": lambda gold: json.dumps({"answer": gold["gold"]}),
    "panorama_pi4pc": lambda gold: json.dumps({"answer": gold["gold"][0]}),
    "panorama_noc4pc": lambda gold: json.dumps({"code": str(gold)}),
    "panorama_par4pc_cot": lambda gold: json.dumps({"reason": "F is close.", "answer": ",".join(gold["gold"])}),
    "panorama_pi4pc_cot": lambda gold: (
        "```json\n" + json.dumps({"reason": "It is.", "answer": gold["gold"][0]}) + "\n```"
    ),
    "panorama_noc4pc_cot": lambda gold: json.dumps({"reason": "Regarding the claim.", "code": gold}),
    "bioprobench_pqa": lambda gold: TAGS.format(f"{gold['answer']} & 100%"),
    "bioprobench_ord": ordered,
    "bioprobench_err": lambda gold: TAGS.format(gold),
    "bioprobench_gen": lambda gold: TAGS.format("\n".join(gold)),
    "tablebench_data_analysis": lambda gold: f"So.\nFinal Answer: {gold['answer']}",
    "tablebench_fact_checking": lambda gold: f"Final Answer: {gold['answer']}",
    "tablebench_numerical_reasoning": lambda gold: f"**Final Answer:** {gold['answer']}",
}
CONSTANT = {
    "panorama_par4pc": '{"answer": "A"}',
    "panorama_pi4pc": '{"answer": 3}',
    "panorama_noc4pc": '{"code": "103"}',
    "bioprobench_pqa": TAGS.format("A & 50%"),
    "bioprobench_ord": TAGS.format("[0, 1, 2]"),
    "bioprobench_err": TAGS.format("True"),
    "bioprobench_gen": TAGS.format("1. Mix the tube."),
    "tablebench_data_analysis": "Final Answer: visits",
    "tablebench_fact_checking": "Final Answer: Adal",
    "tablebench_numerical_reasoning": "Final Answer: -5",
}
MALFORMED = {  # what readers that look for any letter, number or word take for an answer
    "panorama_par4pc": "A cited patent is {gold}, I think. Answer: {gold}",
    "panorama_pi4pc": "It is paragraph {gold}.",
    "panorama_noc4pc": "The conclusion is {gold}.",
    "bioprobench_pqa": "{gold}",
    "bioprobench_ord": "{gold}",
    "bioprobench_err": "{gold}",
    "bioprobench_gen": "{gold}",
    "tablebench_data_analysis": "The answer is {gold}",
    "tablebench_fact_checking": "{gold}",
    "tablebench_numerical_reasoning": "{gold}\nFinal Answer:",
}
FAMILY = pytest.mark.parametrize("name", ORACLES)


def gold_of(item: Item) -> Any:
    """The gold answer, out of its JSON where it is some."""
    return json.loads(item.answer) if item.answer[:1] in "{[" else item.answer


def oracle(given: ItemSet, item: Item) -> str:
    return ORACLES[given.name](gold_of(item))


def constant(given: ItemSet, _: Item) -> str:
    return CONSTANT[given.name.removesuffix("_cot")]


def malformed(given: ItemSet, item: Item) -> str:
    gold = gold_of(item)
    bare = gold.get("answer", gold.get("gold")) if isinstance(gold, dict) else gold
    return MALFORMED[given.name.removesuffix("_cot")].replace("{gold}", str(bare))


def silent(_: ItemSet, __: Item) -> str:
    return ""


@FAMILY
def test_splits_of_the_source_are_whole_and_apart(name: str, tmp_path: Path) -> None:
    benchmark = resolve.load_entry(name)[0]
    validation, test = splits(name, tmp_path)
    check_items(benchmark, validation, test, name)
    assert len(validation) >= 5 and len(test) >= 5
    assert benchmark.source and benchmark.licence != "unknown"
    assert not {item.cluster for item in validation} & {item.cluster for item in test} - {""}


@FAMILY
def test_a_prompt_shows_every_field_and_an_answer_that_can_be_read(name: str, tmp_path: Path) -> None:
    benchmark = resolve.load_entry(name)[0]
    item = splits(name, tmp_path)[0][0]
    text = render_prompt(benchmark, item)
    assert all(value in text for value in item.fields.values())
    sign = {"panorama": '{"', "bioprobench": "[ANSWER_START]", "tablebench": "Final Answer:"}[
        name.split("_", maxsplit=1)[0]
    ]
    assert sign in text and sign in benchmark.description
    assert ('{"reason": "..."' in text) == name.endswith("_cot")


def test_both_forms_of_a_task_have_the_same_items(tmp_path: Path) -> None:
    for task in ("par4pc", "pi4pc", "noc4pc"):
        assert splits(f"panorama_{task}", tmp_path) == splits(f"panorama_{task}_cot", tmp_path)


def test_odd_rows_of_panorama(tmp_path: Path) -> None:
    validation, test = splits("panorama_pi4pc", tmp_path)
    items = [*validation, *test]
    assert all(item.fields["options"].count("\n") == 4 for item in items), "only the row's own five keys"
    third = next(item for item in items if item.fields["number"] == "3")
    assert third.fields["claim"].startswith("3."), "although the first claim of some holds all of them"
    silver = [json.loads(item.answer)["silver"] for side in splits("panorama_par4pc", tmp_path) for item in side]
    assert any(silver) and not all(silver)
    assert any(json.loads(item.answer)["silver"] for item in items)


def test_no_prompt_is_left_out_for_its_length(tmp_path: Path) -> None:
    """The original leaves out prompts of more than 16,384 tokens, and of the forms with reasoning alone."""
    for task in ("par4pc", "pi4pc", "noc4pc"):
        (file,) = repository("LG-AI-Research/PANORAMA", tmp_path).glob(f"{task.upper()}/test*.parquet")
        rows = pq.read_table(file).to_pylist()
        for row in rows:
            row["context"]["abstract"] = "A device is shown. " * 20_000
        file.write_bytes(parquet(rows))
        for name in (f"panorama_{task}", f"panorama_{task}_cot"):
            benchmark, module = resolve.load_entry(name)
            assert len(list(module.pool(benchmark, file.parents[1]))) == len(rows), name


def test_data_analysis_question_has_one_metric(tmp_path: Path) -> None:
    """The original's open questions are all of them once more, by ROUGE-L."""
    raw = repository("Multilingual-Multimodal-NLP/TableBench", tmp_path)
    rows = [json.loads(line) for line in (raw / "TableBench_TCoT.jsonl").read_text().splitlines()]
    kinds = {row["id"]: row["qsubtype"] for row in rows if row["qtype"] == "DataAnalysis"}
    benchmark, module = resolve.load_entry("tablebench_data_analysis")
    items = list(module.pool(benchmark, raw))
    assert sorted(item.id for item in items) == sorted(kinds)
    rouge = {item.id for item in items if json.loads(item.answer)["metric"] == "rouge_l"}
    assert rouge == {name for name, kind in kinds.items() if kind == "CausalAnalysis"}


def test_odd_rows_of_bioprobench(tmp_path: Path) -> None:
    golds = [json.loads(item.answer) for side in splits("bioprobench_pqa", tmp_path) for item in side]
    assert any("salt & pepper" in gold["choices"] for gold in golds)
    steps = [item for side in splits("bioprobench_err", tmp_path) for item in side]
    assert {item.answer == "True" for item in steps if item.group == "correct"} == {True}
    assert any(item.fields["before"] == "(none)" for item in steps)


def test_headings_and_their_steps_are_one_cluster(tmp_path: Path) -> None:
    sides = splits("bioprobench_ord", tmp_path)
    clusters = [item.cluster for side in sides for item in side]
    assert len(set(clusters)) == 10 and len(clusters) == 30


def test_the_family_names_its_parts() -> None:
    parts = resolve.load_entry("panorama")[0].parts
    assert [resolve.load_entry(part)[0].answer for part in parts] == ["scorer:par4pc", "scorer:pi4pc", "scorer:noc4pc"]


@FAMILY
def test_reasons_before_an_answer_cost_nothing(name: str, tmp_path: Path) -> None:
    """The original forbids reasons in the prompts of ERR, ORD and PI4PC, and wants them in every row that is learned."""
    benchmark = resolve.load_entry(name)[0]
    for item in splits(name, tmp_path)[0]:
        plain = ORACLES[name](gold_of(item))
        for reply in (plain, f"Let us see, step by step: A is not B, and 3 is no 5.\n\n{plain}"):
            assert scorer.judge_reply(benchmark, item.answer, reply)["value"] == 1, reply


@FAMILY
def test_who_answers_one_item_and_is_silent_else_has_that_one_right(name: str, tmp_path: Path) -> None:
    """The original drops what it cannot read from the denominators of NOC4PC, PQA, ORD and ERR: all would be right."""
    benchmark, items = resolve.load_entry(name)[0], tuple(splits(name, tmp_path)[0])
    replies = [ORACLES[name](gold_of(items[0])), *("I would rather not say." for _ in items[1:])]
    rows = [
        {"id": i.id, "prediction": reply, "answer": i.answer, **scorer.judge_reply(benchmark, i.answer, reply)}
        for i, reply in zip(items, replies, strict=True)
    ]
    row = {"model": "m", "set": name, "accuracy": 100 / len(items), "metrics": {}, "items": rows}
    score = make_score(row, ItemSet(name, benchmark, "validation", items))
    assert score.n == len(items)
    assert score.value == score.parsed == pytest.approx(100 / len(items))
    assert sum(group.n for group in score.groups.values()) in (0, len(items))
    assert not score.metrics.keys() & benchmark.unavailable.keys()
    flat = {"f1_macro", "f1", "kendall_tau", "recall", "exact_match", "rouge_1"}
    assert all(score.metrics[metric] < 60 for metric in flat & score.metrics.keys()), score.metrics


@FAMILY
def test_only_the_test_files_are_fetched(name: str, hub: LocalHub, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    assert {card["name"]: card for card in benchmark_cards(settings.home)}[name]["items"] is None, "not fetched yet"
    folder = resolve.resolve_benchmark(name, settings.home, settings=settings)
    validation = select_validation(folder).every
    told = {card["name"]: card for card in benchmark_cards(settings.home)}[name]["items"]
    assert told == {"validation": len(validation), "test": len(splits(name, tmp_path)[1])}
    assert {item.id: item for item in validation} == {item.id: item for item in splits(name, tmp_path)[0]}
    assert (folder.sealed / "test.jsonl").is_file()
    task = name.split("_")[1].upper()
    file = {
        "panorama": f"{task}/test.parquet",
        "bioprobench": f"{task}_test.json",
        "tablebench": "TableBench_TCoT.jsonl",
    }
    fetched = {
        path.name for path in settings.home.benchmarks.rglob("*") if path.suffix in (".parquet", ".json", ".jsonl")
    }
    assert fetched - {"manifest.json", "validation.jsonl", "test.jsonl"} == {
        Path(file[name.split("_", maxsplit=1)[0]]).name
    }


def test_answerers_through_the_real_engine(opencompass: Engine, tmp_path: Path) -> None:
    sets = [item_set(name, tmp_path) for name in ORACLES]
    answerers = {"oracle": oracle, "constant": constant, "malformed": malformed, "silent": silent}
    scores = measured(opencompass, tmp_path, sets, answerers)
    for given in sets:
        found = {who: scores[who, given.name] for who in answerers}
        assert found["oracle"].value == 100, given.name
        assert found["oracle"].parsed == 100
        assert set(found["oracle"].metrics) == set(found["silent"].metrics) <= set(given.benchmark.metrics)
        for who in ("malformed", "silent"):
            assert (found[who].value, found[who].parsed) == (0, 0), (who, given.name)
        assert found["constant"].value == pytest.approx(expected(given)), given.name
        assert {name: group.n for name, group in found["oracle"].groups.items()} == groups(given)
    check_metrics(scores)


def expected(given: ItemSet) -> float:
    """What the constant answer is worth, counted by hand from the gold answers."""
    golds = [gold_of(item) for item in given.items]
    kind = given.name.removesuffix("_cot")
    if kind == "bioprobench_gen":
        return 100 * sum(2 * shared("1. Mix the tube.", " ".join(gold)) for gold in golds) / len(golds)
    right: Callable[[Any], bool] = {
        "panorama_par4pc": lambda gold: gold["gold"] == ["A"],
        "panorama_pi4pc": lambda gold: gold["gold"] == [3],
        "panorama_noc4pc": lambda gold: str(gold) == "103",
        "bioprobench_pqa": lambda gold: gold["answer"] == ("A" if "A" in gold["choices"] else gold["choices"][0]),
        "bioprobench_ord": lambda gold: len(gold["steps"]) == 3 and gold["steps"] == gold["order"],
        "bioprobench_err": lambda gold: gold == "True",
        "tablebench_data_analysis": lambda gold: gold["answer"] == "visits",
        "tablebench_fact_checking": lambda gold: gold["answer"] == "Adal",
        "tablebench_numerical_reasoning": lambda gold: gold["answer"] == "-5",
    }[kind]
    share: float = sum(map(right, golds))
    if kind == "tablebench_data_analysis":  # one word of the open answers' eight
        share += sum(2 * 1 / (1 + 8) for gold in golds if gold["metric"] == "rouge_l")
    return 100 * share / len(golds)


def shared(short: str, text: str) -> float:
    """Half of the F1 of the longest common subsequence, by the table that everybody knows."""
    a, b = (t.lower().replace(".", " ").split() for t in (short, text))
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1] / (len(a) + len(b))


def groups(given: ItemSet) -> dict[str, int]:
    """Items of each group; one group alone is not told apart."""
    names = [item.group for item in given.items]
    return {name: names.count(name) for name in names} if len(set(names)) > 1 else {}


def check_metrics(scores: dict[Any, Score]) -> None:
    """The best and the worst of every further metric."""
    best = {name: scores["oracle", name].metrics for name in ORACLES}
    worst = {name: scores["silent", name].metrics for name in ORACLES}
    assert best["bioprobench_pqa"] == {"brier_score": 0} and worst["bioprobench_pqa"] == {"brier_score": 1}
    assert best["bioprobench_ord"] == {"kendall_tau": 1} and worst["bioprobench_ord"] == {"kendall_tau": -1}
    for name in set(ORACLES) - {"bioprobench_pqa", "bioprobench_ord"}:
        assert set(best[name].values()) == {100} or name == "panorama_par4pc", name
        assert set(worst[name].values()) == {0}, name
