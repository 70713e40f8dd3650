"""The embedded raw data and the documented example of one's own: how pure the policy's rows are, and what it does next."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from tuneloop.core.text import normalise
from tuneloop.tools.benchmarks import wordproblems as benchmark
from tuneloop.tools.datasets import wordproblems as dataset
from tuneloop.tools.embedded.messy import rows_with_key
from tuneloop.tools.scoring.answer_matching import correct

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_task" / "make.py"


def asked(fields):
    """The question of a raw row."""
    turns = fields.get("conversation") or [{}]
    return fields.get("problem") or fields.get("q") or turns[0].get("value") or fields["input"]["text"]


@pytest.fixture
def embedded(world, tmp_path):
    benchmark.fetch(tmp_path / "bench")
    items = [json.loads(line) for line in (tmp_path / "bench" / "validation.jsonl").read_text().splitlines()]
    w = world("boxed", [(i["prompt"], i["answer"]) for i in items], {}, description=benchmark.BENCHMARK.description)
    dataset.fetch(tmp_path / "raw")
    return w


def test_first_recipe_on_the_embedded_data_is_nearly_pure(embedded):
    key = {normalise(asked(raw.fields)): raw.key for raw in rows_with_key() if not raw.key.off_topic}
    raw = [raw.key for raw in rows_with_key()]
    before = sum(k.wrong for k in raw) / len(raw)
    rows = embedded.first_rows()
    gold = [key[normalise(row["instruction"].split("\nEnd with")[0])] for row in rows]
    wrong = sum(not correct("boxed", str(k.answer), row["output"]) for k, row in zip(gold, rows, strict=True)) / len(
        rows
    )
    assert len(rows) == 2000 and before > 0.25
    assert wrong < 0.01
    assert len({normalise(row["instruction"]) for row in rows}) == len(rows)
    assert all(re.search(r"=\s*\d+\n\\boxed\{\d+\}$", row["output"]) for row in rows)
    times = sum("*" in row["output"] for row in rows) / len(rows)
    assert times > 0.25, "cleaning must not take the hard operations away"


def test_a_source_that_no_other_agrees_with_is_left_out_at_once(world, tmp_path):
    make = runpy.run_path(str(EXAMPLE))["make"]
    make(tmp_path / "made")
    declared = yaml.safe_load((tmp_path / "made" / "benchmark" / "benchmark.yaml").read_text())
    items = [
        json.loads(line) for line in (tmp_path / "made" / "benchmark" / "validation.jsonl").read_text().splitlines()
    ]
    w = world(
        declared["answer"],
        [({"story": i["story"], "question": i["question"]}, i["answer"]) for i in items],
        {},
        prompt=declared["prompt"],
        description=declared["description"],
    )
    (tmp_path / "made" / "data").rename(tmp_path / "raw")
    first = w.hypothesis()
    assert [s.options["file"] for s in first.data_plan if s.do == "use_source"] == ["checked.jsonl"]
    rows = w.run(w.script(first).code)
    assert "What is the number now?\nAnswer:" in rows[0]["instruction"]
    truth = {}
    for line in (tmp_path / "raw" / "checked.jsonl").read_text().splitlines():
        record = json.loads(line)
        truth[f"{record['item']['story']}\n{record['item']['question']}\nAnswer:"] = record["review"]["final"]
    assert len(rows) > 800 and all(correct("number", truth[row["instruction"]], row["output"]) for row in rows)
