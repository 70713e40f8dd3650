"""Cached results are found by content, verified when they are read, and never of the sealed test."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tools.scoring.test_verdicts import asked, results
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation.cache import EvaluationCache, open_cache, result_checksum
from tuneloop.tools.evaluation.item_sets import ItemSet

__all__ = ["asked"]
KEY = "0123456789abcdef"


@pytest.fixture
def cache(tmp_path: Path) -> EvaluationCache:
    return EvaluationCache(tmp_path / "cache")


def entry(cache: EvaluationCache) -> Path:
    assert cache.root
    return cache.root / "evaluations" / KEY / "result.json"


def test_what_was_written_is_read(cache: EvaluationCache, asked: ItemSet) -> None:
    assert cache.read(KEY, asked) is None
    row = results(asked, 4)
    cache.write(KEY, row, asked)
    found = cache.read(KEY, asked)
    assert found == {name: row[name] for name in ("truncated", "accuracy", "items")}
    assert cache.find({("m", "s"): KEY, ("n", "s"): "other"}, {"s": asked}) == {("m", "s"): found}


def test_the_sealed_test_is_neither_kept_nor_read(cache: EvaluationCache, asked: ItemSet) -> None:
    sealed = replace(asked, split="test")
    cache.write(KEY, results(asked, 4), sealed)
    assert not entry(cache).exists()
    cache.write(KEY, results(asked, 4), asked)
    assert cache.read(KEY, sealed) is None
    assert cache.read(KEY, asked) is not None


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit an entry and seal it again, as a tuneloop of another time might have written it."""
    row = json.loads(path.read_text())["result"]
    edit(row)
    path.write_text(json.dumps({"digest": result_checksum(KEY, row), "result": row}))


BROKEN: dict[str, Callable[[Path], object]] = {
    "torn": lambda p: p.write_text(p.read_text()[:-40]),
    "empty": lambda p: p.write_text(""),
    "not an object": lambda p: p.write_text("[]"),
    "no text": lambda p: p.write_bytes(b"\xff\xfe"),
    "another answer": lambda p: p.write_text(p.read_text().replace("no idea", "no ideas")),
    "of another key": lambda p: p.write_text(
        json.dumps(
            {"digest": result_checksum("x", json.loads(p.read_text())["result"]), "result": json.loads(p.read_text())}
        )
    ),
    "a wrong verdict": lambda p: change(p, lambda row: row["items"][9].update(value=1.0)),
    "an item less": lambda p: change(p, lambda row: row["items"].pop()),
    "no items": lambda p: change(p, lambda row: row.pop("items")),
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_cache_entry_is_removed(how: str, cache: EvaluationCache, asked: ItemSet) -> None:
    cache.write(KEY, results(asked, 4), asked)
    BROKEN[how](entry(cache))
    assert cache.read(KEY, asked) is None
    assert not entry(cache).exists()


def test_an_entry_is_for_its_own_items(cache: EvaluationCache, asked: ItemSet) -> None:
    cache.write(KEY, results(asked, 4), asked)
    assert cache.read(KEY, replace(asked, items=asked.items[:9])) is None


def test_many_write_one_key_while_the_folder_is_deleted(cache: EvaluationCache, asked: ItemSet) -> None:
    row, found = results(asked, 4), []
    assert cache.root

    def work() -> None:
        for _ in range(40):
            cache.write(KEY, row, asked)
            found.append(cache.read(KEY, asked))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        entry(cache).unlink(missing_ok=True)
    kept = {name: row[name] for name in ("truncated", "accuracy", "items")}
    assert all(one in (None, kept) for one in found)
    assert len(found) == 160
    cache.write(KEY, row, asked)
    assert [p.name for p in entry(cache).parent.iterdir()] == ["result.json"]


def test_a_cache_that_cannot_be_written_costs_nothing(tmp_path: Path, asked: ItemSet) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    cache = EvaluationCache(tmp_path / "cache")
    cache.write(KEY, results(asked, 4), asked)
    assert cache.read(KEY, asked) is None


@pytest.mark.parametrize(("said", "on"), [(None, True), ("", True), ("True", True), ("False", False), ("0", False)])
def test_the_seeds_variable_governs(
    said: str | None, on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        monkeypatch.setenv("FT_DOCKER_ENABLE_CACHE", said)
    cache = open_cache(Settings(FT_FILE_PATH=tmp_path))
    assert cache.root == (tmp_path / "cache" if on else None)
    assert (cache.memory is not None) == on


def test_switched_off_nothing_is_read_or_written(asked: ItemSet) -> None:
    off = EvaluationCache(None)
    off.write(KEY, results(asked, 4), asked)
    assert off.read(KEY, asked) is None
