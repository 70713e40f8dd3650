from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tuneloop.core.files import read_lines
from tuneloop.tools.datasets import wordproblems
from tuneloop.tools.embedded.messy import rows_with_key
from tuneloop.tools.raw_data.files import iter_records, record_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("raw")
    wordproblems.fetch(made)
    return made


def test_four_files_in_four_formats_hold_every_row(folder: Path) -> None:
    with (folder / "textbook.csv").open(newline="") as f:
        book = list(csv.DictReader(f))
    with (folder / "quiz.tsv").open(newline="") as f:
        quiz = list(csv.DictReader(f, delimiter="\t"))
    replies = list(read_lines(folder / "distilled.jsonl"))
    threads = json.loads((folder / "chat.json").read_text())["data"]["threads"]
    assert sum(map(len, (book, quiz, replies, threads))) == len(rows_with_key())
    assert set(book[0]) == {"problem", "worked_solution", "key", "grade"}
    assert set(quiz[0]) == {"q", "a"}


def test_the_projects_own_reader_finds_the_same_rows(folder: Path) -> None:
    found = {path.name: len(list(iter_records(path))) for path in record_files(folder)}
    assert set(found) == {"textbook.csv", "quiz.tsv", "distilled.jsonl", "chat.json"}
    assert sum(found.values()) == len(rows_with_key())


def test_nothing_in_the_folder_tells_the_hidden_key(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == [
        "README.md",
        "chat.json",
        "distilled.jsonl",
        "quiz.tsv",
        "textbook.csv",
    ]
    text = "".join(p.read_text() for p in folder.iterdir()).lower()
    assert not any(word in text for word in ("leaked", "off_topic", "duplicate", '"wrong"'))


def test_the_card_counts_the_rows(folder: Path) -> None:
    card = (folder / "README.md").read_text()
    assert f"{len(list(read_lines(folder / 'distilled.jsonl')))} rows" in card


def test_the_files_are_the_same_twice(folder: Path, tmp_path: Path) -> None:
    wordproblems.fetch(tmp_path)
    assert all((tmp_path / p.name).read_bytes() == p.read_bytes() for p in folder.iterdir())
