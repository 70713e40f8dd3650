from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tuneloop.tools.embedded import corpus
from tuneloop.tools.embedded.make_tiny import SEED
from tuneloop.tools.embedded.problems import IN_CORPUS, MORE, Problem, more_validation, problem, splits, stories


@dataclass(frozen=True)
class Read:
    """What the tiny model has read, and its stories, those of the tokenizer's pages too."""

    pages: list[str]
    stories: set[tuple[str, ...]]


@pytest.fixture(scope="module")
def read() -> Read:
    told: set[tuple[str, ...]] = set()
    draw = corpus.problem

    def noted(rng: Random, progress: float) -> Problem:
        made = draw(rng, progress)
        told.add(made.story)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "problem", noted)
        pages = [page["told"] + page["text"] for page in corpus.documents(SEED, corpus.DOCUMENTS)]
        list(corpus.documents(SEED + 1, corpus.TOKENIZER_DOCUMENTS))
    return Read(pages, told - stories())  # those of the benchmark were drawn, and not written


@pytest.fixture(scope="module")
def pages(read: Read) -> list[str]:
    return read.pages


def test_the_later_validation_items_are_as_unseen_as_the_test(read: Read) -> None:
    """The list of draws that are left out is neither too short nor too long."""
    s = splits()
    known = {p.question for part in (s.validation, s.test, s.pool) for p in part}
    rng = Random(14)
    left_out: set[int] = set()
    found: list[Problem] = []
    for number in itertools.count():
        if len(found) == MORE:
            break
        new = problem(rng)
        if new.question in known:
            continue
        if new.story in read.stories:
            left_out.add(number)
        else:
            known.add(new.question)
            found.append(new)
    assert left_out == IN_CORPUS
    assert tuple(found) == more_validation()


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
