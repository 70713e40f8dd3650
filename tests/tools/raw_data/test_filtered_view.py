"""What a run reads of a data set: nothing that holds a sealed item, the rest as it is."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneloop.graph.lifecycle.integrity import content_fingerprint
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem
from tuneloop.tools.hub.store import fingerprint, write_manifest
from tuneloop.tools.raw_data.client import RawDataReader, shared_reader
from tuneloop.tools.raw_data.filtered_view import RECORD, DatasetView, make_view

TEST = "Zorvexa keeps 31 quillmarks and finds 17 more quillmarks below the bridge. How many are there now?"
UNSEEN = "Quenthir stacks 58 vortlings and loses 29 of those vortlings before dawn. How many vortlings stay stacked?"
SHOWN = "Brimoldo sells 24 snarfbells and then 13 more snarfbells on Monday. How many were sold in all?"
GUARD = Guard(
    [
        KnownItem("b", "test", "1", {"prompt": TEST}),
        KnownItem("b", "unseen", "2", {"prompt": UNSEEN}),
        KnownItem("b", "validation", "3", {"prompt": SHOWN}),
    ]
)
CLEAN = [{"q": f"What is {i} plus {i}?", "n": i} for i in range(5)]
LONG = [{"pad": "x" * 100_000}] * 6


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def put(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return root


def view(root: Path) -> DatasetView:
    return make_view(root, root.parent / "view", GUARD, shared_reader())


def told(place: Path) -> str:
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    return "\n".join(p.read_text() for p in files)


def test_a_clean_data_set_is_read_where_it_lies(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.jsonl": lines(CLEAN) + "{broken\n", "README.md": "# Sums", ".hidden": "a text"})
    assert view(root) == DatasetView(
        root=root, rows=5, removed={}, validation_rows=0, validation=(), overlapping={}, left_out=0
    )
    assert sorted(p.name for p in (tmp_path / "view").iterdir()) == [RECORD], "no copy"


def test_a_view_is_hashed_by_what_it_holds(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.jsonl": lines([*CLEAN, {"q": TEST}])})
    write_manifest(root)
    place = view(root).root
    assert place != root
    assert fingerprint(place) == content_fingerprint(place) != fingerprint(root)


def test_a_view_that_is_gone_is_made_again(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.jsonl": lines([*CLEAN, {"q": TEST}])})
    first = view(root)
    held = told(first.root)
    shutil.rmtree(first.root)
    assert view(root) == first
    assert told(first.root) == held


def test_rows_with_sealed_items_are_gone_and_counted(tmp_path: Path) -> None:
    rows = [{"q": TEST}, CLEAN[0], {"deep": [{"er": UNSEEN.upper()}]}, {"q": SHOWN}, {"q": f"{SHOWN} {TEST}"}, CLEAN[1]]
    csv = "q,n\n" + f'"{TEST}",1\nx,2\n'
    files = {
        "a.jsonl": lines(rows),
        "b/rows.csv": csv,
        "clean.jsonl": lines(CLEAN),
        "README.md": TEST,
        "L": "a licence",
    }
    root = put(tmp_path / "d", files)
    found = view(root)
    assert (found.rows, found.removed, found.validation_rows) == (13, {"test": 3, "unseen": 1}, 1)
    assert found.left_out == 1, "the card"
    assert sorted(str(p.relative_to(found.root)) for p in found.root.rglob("*") if p.is_file()) == [
        "L",
        "a.jsonl",
        "b/rows.csv.jsonl",
        "clean.jsonl",
    ]
    assert [json.loads(line) for line in (found.root / "a.jsonl").read_text().splitlines()] == [
        CLEAN[0],
        {"q": SHOWN},
        CLEAN[1],
    ]
    assert (found.root / "clean.jsonl").samefile(root / "clean.jsonl"), "linked"
    assert [(hit.where, hit.item) for hit in found.validation] == [("a.jsonl:2", "3")], "the view's own lines"
    assert found.overlapping == {"a.jsonl": "2"}
    assert "quillmarks" not in told(found.root).casefold()
    assert "vortlings" not in told(found.root).casefold()


@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": lines(CLEAN) + f'{{"q": "{TEST}",\n'},
        {"a.jsonl": lines(CLEAN) + "{" + "x" * 200_000 + TEST + "\n"},
        {"a.json": json.dumps({"rows": CLEAN, "note": TEST})},
        {"a.jsonl": lines(CLEAN), ".hidden/b.jsonl": lines([{"q": TEST}])},
        {"a.jsonl": lines(CLEAN), "b.bin": b"\0" + TEST.encode()},
        {"a.jsonl": lines(CLEAN), "dataset_info.json": json.dumps({"q": TEST})},
        {"a.jsonl.gz": gzip.compress(lines([*CLEAN, *LONG, {"q": TEST}]).encode())[:-20]},
        {"a.jsonl": lines(CLEAN), "long.log": "x" * (1 << 20) + TEST},
    ],
    ids=["broken", "long_broken", "beside_the_rows", "hidden", "binary", "no_rows", "torn", "long_text"],
)
def test_every_field_is_filtered(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    found = view(put(tmp_path / "d", files))
    assert found.root != tmp_path / "d"
    assert "quillmarks" not in told(found.root)
    assert "What is 4 plus 4?" in told(found.root)


def test_one_file_stays_one_file(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.json": json.dumps([*CLEAN, {"q": TEST}])}) / "a.json"
    found = make_view(root, tmp_path / "view", GUARD, shared_reader())
    assert [json.loads(line) for line in found.root.read_text().splitlines()] == CLEAN


def test_what_a_killed_removal_left_is_removed(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.jsonl": lines([{"q": TEST}, *CLEAN])})
    left = tmp_path / ".view.4711.part"
    left.mkdir()
    (left / "a.jsonl").write_text(TEST)
    view(root)
    assert not left.exists()


def test_a_whole_view_is_found_and_a_torn_one_is_made_again(tmp_path: Path) -> None:
    root = put(tmp_path / "d", {"a.jsonl": lines([{"q": TEST}, *CLEAN])})
    found = view(root)
    assert make_view(root, tmp_path / "view", GUARD, RawDataReader()) == found
    (found.root / "a.jsonl").write_text(TEST)
    (tmp_path / "view" / RECORD).unlink()  # what is written last was not written
    assert view(root) == found
    assert "quillmarks" not in told(found.root)


TWICE = json.dumps({"q": TEST})[:-1] + ', "q": "What is 2?"}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", f"{lines(CLEAN)}{TWICE}\n"),
        ("a.jsonl", f'{lines(CLEAN)}{{"x": [{TWICE}]}}\n'),
        ("a.jsonl", f'{lines(CLEAN)}{{"pad": "\\u0022\\u0022\\u0022\\u0022", "x": {TWICE}}}\n'),
        ("a.jsonl", f'{lines(CLEAN)}{TWICE[:-1]}, "n": NaN}}\n'),
        ("a.jsonl.gz", gzip.compress(f"{TWICE}\n".encode())),
        ("a.jsonl", TWICE.encode("utf-16")),
        ("a.json", f'[{{"q": "What is 1?"}}, {TWICE}]'),
        ("a.json", f'[{{"q": "What is 1?"}}, {TWICE}]'.encode("utf-16")),
        ("a.json", f'{{"rows": [{TWICE}]}}'),
        ("a.csv", f'q,q\n"{TEST}",What is 2?\n'),
        ("a.csv", 'q,n\n"{}",1\n'.format(TWICE.replace('"', '""'))),
        ("a.txt", f"{TWICE}\n"),
        ("a.jsonl", json.dumps({"payload": TWICE}) + "\n"),
    ],
)
def test_an_item_behind_a_second_value_of_its_key_is_not_in_the_view(
    tmp_path: Path, name: str, text: str | bytes
) -> None:
    """Python reads the last value of a key; another program, or who reads the text, the first."""
    found = view(put(tmp_path / "d", {name: text})).root
    files = [p.read_bytes() for p in ([found] if found.is_file() else found.rglob("*")) if p.is_file()]
    assert files or name == "a.txt"
    assert not any(word in data for data in files for word in (b"Zorvexa", "Zorvexa".encode("utf-16-le")))
    assert not any(b"Zorvexa" in gzip.decompress(data) for data in files if data.startswith(b"\x1f\x8b"))


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([[TEST], ["What is 2?"]], names=["q", "q"])  # type: ignore[attr-defined]
    (tmp_path / "d").mkdir()
    pq.write_table(table, tmp_path / "d" / "a.parquet")
    found = view(tmp_path / "d")
    assert (found.rows, b"Zorvexa" in b"".join(p.read_bytes() for p in found.root.rglob("*") if p.is_file())) == (
        0,
        False,
    )
