"""Cells side by side: the statistics of the report on made results, and what the page says of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.tools.matrix.made import cell, half
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.tools.matrix.comparison import compare_cells, read_cells
from tuneloop.tools.matrix.evaluation import RESULTS, SUMMARY
from tuneloop.tools.matrix.report import write_report
from tuneloop.tools.statistics import holm, wilson


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_pairs_are_tested_and_corrected_together(tmp_path: Path) -> None:
    places = [
        cell(tmp_path, "sft_no_chat_mask_q", "raw", half(52)),
        cell(tmp_path, "sft_chat_template", "raw", half(20)),
        cell(tmp_path, "sft_chat_template", "chat", half(50)),
    ]
    cells = read_cells(places)
    assert [one.name for one in cells] == [
        "sft_chat_template / chat",
        "sft_chat_template / raw",
        "sft_no_chat_mask_q / raw",
    ]
    assert cells[0].accuracy == 50
    assert cells[0].bounds == pytest.approx(wilson(50, 100))
    chat_raw, chat_mask, raw_mask = compare_cells(cells)
    assert (chat_raw.gain, len(chat_raw.gained), len(chat_raw.lost), chat_raw.real) == (30, 30, 0, True)
    assert (round(chat_mask.gain), chat_mask.lost, chat_mask.real) == (-2, ("v50", "v51"), False)
    assert chat_mask.p_value == pytest.approx(0.5)
    assert chat_raw.p_value == pytest.approx(2 * 2 * 0.5**30), "the second smallest of three"
    assert raw_mask.p_value == pytest.approx(3 * 2 * 0.5**32)


def test_where_less_is_better_a_cell_tells_the_score_of_the_task(tmp_path: Path) -> None:
    place = cell(tmp_path, "sft_chat_template", "chat", half(80))
    told = {**read_json(place / SUMMARY), "direction": "min", "accuracy": 20.0}
    write_json(place / SUMMARY, told)
    (found,) = read_cells([place])
    assert (found.accuracy, found.by_seed) == (20.0, [20.0])
    assert found.bounds == pytest.approx(wilson(20, 100))
    assert found.values["v0"] == 1, "which is right, for the paired test"


def test_seeds_are_one_cell(tmp_path: Path) -> None:
    places = [cell(tmp_path, "sft_chat_template", "chat", half(n), seed) for seed, n in ((2, 40), (1, 60))]
    (found,) = read_cells(places)
    assert (found.accuracy, found.by_seed) == (50, [60, 40])
    assert {found.values[f"v{i}"] for i in range(40, 60)} == {0.5}
    with pytest.raises(InvalidRequestError, match="is there twice with one seed"):
        read_cells([places[0], places[0]])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = cell(tmp_path, "sft_chat_template", "chat", half(5))
    for other in (cell(tmp_path, "a", "raw", half(5, 50)), cell(tmp_path, "b", "raw", half(5), task="other")):
        with pytest.raises(InvalidRequestError, match="are not of the same items"):
            read_cells([one, other])
    (one / RESULTS).write_text("[")
    with pytest.raises(InvalidRequestError, match=RESULTS):
        read_cells([one])
    with pytest.raises(InvalidRequestError, match="is missing; right is a folder of an evaluation"):
        read_cells([tmp_path / "absent"])
    with pytest.raises(InvalidRequestError, match="no results to report on"):
        read_cells([])


def test_the_report_says_what_is_real(tmp_path: Path) -> None:
    places = [
        cell(tmp_path, "sft_chat_template", "chat", half(80)),
        cell(tmp_path, "sft_chat_template", "raw", half(10)),
        cell(tmp_path, "sft_no_chat_full_loss", "raw", half(79)),
        cell(tmp_path, "mine", "raw", half(12)),
    ]
    page = write_report(places, tmp_path / "report").read_text()
    assert "**sft_chat_template / chat** is better than sft_chat_template / raw by 70.0 points" in page
    assert "is better than sft_no_chat_full_loss / raw by" not in page
    assert "2 of 6 pairs differ by no more than chance would" in page
    files = {"comparison.csv", "accuracy_bar.png", "accuracy_grouped.png", "eval_template_scatter.png", "changes.json"}
    assert {path.name for path in (tmp_path / "report").iterdir()} == files | {"report.md"}
    rows = list(csv.DictReader((tmp_path / "report" / "comparison.csv").open()))
    assert [(row["experiment"], row["masking"], row["accuracy"]) for row in rows] == [
        ("sft_chat_template", "", "80.00"),
        ("sft_chat_template", "", "10.00"),
        ("sft_no_chat_full_loss", "question and answer", "79.00"),
        ("mine", "", "12.00"),
    ]
    changed = read_json(tmp_path / "report" / "changes.json")
    assert changed[0]["gained"] == sorted(f"v{i}" for i in range(10, 80))
    assert json.dumps(changed)


def test_different_conditions_are_noted(tmp_path: Path) -> None:
    places = [cell(tmp_path, "a", asked, half(5)) for asked in ("chat", "raw")]
    told = read_json(places[0] / SUMMARY)
    write_json(places[0] / SUMMARY, {**told, "measured_with": "other", "truncated": 3})
    page = write_report(places, tmp_path / "report").read_text()
    assert "measured under different conditions" in page
    assert "lost their beginning" in page


def test_what_replies_earned_and_whether_it_helped(tmp_path: Path) -> None:
    places = [
        cell(tmp_path, "sft_chat_template", "chat", half(40)),
        cell(tmp_path, "grpo_chat_template", "chat", half(60)),
    ]
    curve = [{"step": i, "reward": i / 40, "length": 30 - i, "alike": 0.25, "kl": i / 100} for i in range(1, 21)]
    training = {
        "steps": 20,
        "seconds": 1,
        "rows": 9,
        "first_loss": 1,
        "last_loss": 1,
        "tail_slope": 0,
        "method": "lora",
    }
    note = {
        "key": "k",
        "task": "sums",
        "experiment": "grpo_chat_template",
        "chat": True,
        "mask_question": True,
        "seed": 1,
    }
    trained = {**note, "base_model": "m", "base": "/m", "training": training, "start": "sft", "rewards": curve}
    write_json(places[1] / SUMMARY, {**read_json(places[1] / SUMMARY), "trained": trained})
    page = write_report(places, tmp_path / "report").read_text()
    assert "grpo_chat_template / chat against sft_chat_template / chat: +20.0 points" in page
    assert "**grpo_chat_template, seed 1** began with sft: 0.04 at first, 0.49 at the end" in page
    assert "replies of 28 and 10 tokens; 25 % of groups taught nothing" in page
    assert "(KL) 0.195 at the end" in page
    assert (tmp_path / "report" / "reward_curve.png").stat().st_size > 1000
