"""Pages of `tuneloop matrix`: cells, tests in words, pictures, items with replies; nothing beside the result tree."""

from __future__ import annotations

import shutil
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.tools.matrix.made import cell, half
from tests.ui.conftest import HOSTILE, check_harmless
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home

REPORT = "/matrices/sums/report"


def test_report_says_what_is_real_and_leads_to_the_replies(page: TestClient) -> None:
    assert 'href="/matrices/sums/report">sums</a>: 3 evaluations, with report' in page.get("/matrices").text
    assert 'href="/matrices"' in page.get("/").text
    shown = page.get(REPORT).text
    assert "<td>80.0 (71-87)</td>" in shown
    assert "<strong>sft_chat_template / chat</strong> is better than sft_chat_template / raw by 70.0 points" in shown
    for name in ("accuracy_bar.png", "accuracy_grouped.png", "eval_template_scatter.png"):
        assert f'src="{name}"' in shown
        assert page.get(f"/matrices/sums/{name}").headers["content-type"] == "image/png"
    assert "sft_chat_template / chat against sft_chat_template / raw: 70 won, 0 lost, a real difference" in shown
    assert 'href="/matrices/sums/item?id=v10"' in shown and "and 50 more" in shown
    assert len(shown) < 20_000
    item = page.get("/matrices/sums/item?id=v10").text
    assert item.count(">right<") == 2 and item.count(">wrong<") == 1 and "sft_chat_template1_raw" in item


def test_cells_are_shown_before_the_report_is_written(page: TestClient, home: Home) -> None:
    tree = home.results / "sums"
    shutil.rmtree(tree / "report")
    (tree / "eval" / "sft_chat_template1_raw" / "summary.json").write_text("{")
    shown = page.get(REPORT)
    assert shown.status_code == 200 and "sft_chat_template1_chat: 80.0 (71-87) of 100 items" in shown.text
    assert "is damaged" in shown.text
    shutil.rmtree(tree)
    assert "No matrix in" in page.get("/matrices").text
    assert page.get(REPORT).status_code == 404


@pytest.mark.parametrize("file", ["report/changes.json", "eval/sft_chat_template1_raw/results.json"])
def test_damaged_files_are_a_sentence(page: TestClient, home: Home, file: str) -> None:
    (home.results / "sums" / file).write_text('[{"id": 1}]')
    told = [page.get(path) for path in (REPORT, "/matrices/sums/item?id=v10")]
    assert sorted(one.status_code for one in told) == [200, 404]
    assert any("is damaged" in one.text for one in told)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_text(page: TestClient, home: Home, text: str) -> None:
    """In names of tasks and cells, ids, prompts, replies and the report."""
    name = text.replace("/", "_").strip()
    tree = home.results / name
    place = cell(tree / "eval", name, "chat", half(2, 3))
    rows = read_json(place / "results.json")
    rows[0] |= {"id": text, "prompt": text, "prediction": text, "extracted": text, "gold": text}
    write_json(place / "results.json", rows)
    folder = tree / "report"
    shutil.copytree(home.results / "sums" / "report", folder)
    (folder / "report.md").write_text(text)
    changes = read_json(folder / "changes.json")
    changes[0] |= {"one": text, "other": text, "gained": [text]}
    write_json(folder / "changes.json", changes)
    task = quote(name, safe="")
    for path in ("/matrices", f"/matrices/{task}/report", f"/matrices/{task}/item?id={quote(text, safe='')}"):
        shown = page.get(path)
        assert shown.status_code == 200, shown.text[-300:]
        check_harmless(shown.text)
        assert "69993" not in shown.text
    shutil.rmtree(folder)
    check_harmless(page.get(f"/matrices/{task}/report").text)


@pytest.mark.parametrize(
    "linked", ["", "report", "eval", "report/report.md", "report/changes.json", "report/accuracy_bar.png"]
)
def test_links_out_of_the_tree_are_not_followed(page: TestClient, home: Home, linked: str) -> None:
    """Also to what else lies in the home."""
    place = home.results / "sums" / linked
    outside = home.root / "benchmarks" / "moved"
    outside.parent.mkdir(exist_ok=True)
    place.rename(outside)
    place.symlink_to(outside)
    for path in (REPORT, "/matrices/sums/accuracy_bar.png", "/matrices/sums/item?id=v10"):
        shown = page.get(path)
        assert shown.status_code == 404 or linked not in ("", "eval"), path
    if linked.startswith("report"):
        assert page.get("/matrices/sums/item?id=v10").status_code == 200
        shut = "/matrices/sums/accuracy_bar.png" if linked.endswith("png") else REPORT
        assert page.get(shut).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/matrices/..%2fruns%2fdone/report", "/matrices/../report", "/matrices/%2e%2e/report", "/matrices/none/report",
        "/matrices/sums/..%2f..%2f..%2fsigning.key", "/matrices/sums/changes.json", "/matrices/sums/report.md",
        "/matrices/sums/item", "/matrices/sums/item?id=..%2f..%2fsigning.key",
    ],
)  # fmt: skip
def test_no_path_leaves_the_tree(page: TestClient, path: str) -> None:
    assert page.get(path).status_code == 404


def test_results_that_are_a_link_are_not_looked_into(page: TestClient, home: Home) -> None:
    home.results.rename(home.root / "elsewhere")
    home.results.symlink_to(home.root / "elsewhere")
    assert "No matrix in" in page.get("/matrices").text
