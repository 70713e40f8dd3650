from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuneloop.tools.embedded import corpus
from tuneloop.tools.embedded.problems import stories


@pytest.fixture(scope="module")
def pages() -> list[str]:
    return [page["told"] + page["text"] for page in corpus.documents(1, corpus.DOCUMENTS)]


def test_no_story_of_the_benchmark_is_in_the_corpus(pages: list[str]) -> None:
    told = "\n".join(pages)
    assert [story for story in stories() if " ".join(story) in told] == []


def test_no_story_stands_in_a_chat_turn_or_before_a_box(pages: list[str]) -> None:
    framed = [page for page in pages if "<|im_start|>" in page or "boxed" in page]
    assert len(framed) > 500
    for page in framed:
        asked = page.split("<|im_end|>")[0]
        assert " has " not in page
        assert not any(op in page for op in "+*=")
        assert sum(c.isdigit() for c in asked) <= 2


def test_easy_pages_come_first(pages: list[str]) -> None:
    thirds = [sum(page.count("=") == 3 and "Next" in page for page in part) for part in (pages[:9000], pages[-9000:])]
    assert thirds[0] * 3 < thirds[1]


def test_the_files_are_the_same_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "DOCUMENTS", 500)
    for name in ("a", "b"):
        corpus.write_corpus(tmp_path / name, seed=3)
        corpus.write_tokenizer_corpus(tmp_path / f"t{name}", seed=3)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "ta").read_bytes() == (tmp_path / "tb").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "a").open()]
    assert len(rows) == 500
    assert all(set(row) == {"told", "text"} and row["text"] for row in rows)
