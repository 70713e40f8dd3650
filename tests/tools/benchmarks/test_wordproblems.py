from __future__ import annotations

from pathlib import Path

from tuneloop.core.files import read_lines
from tuneloop.tools.benchmarks import wordproblems


def test_fetch_writes_both_splits_the_same_way_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        wordproblems.fetch(tmp_path / name)
    for file, count in (("validation.jsonl", 1000), ("sealed/test.jsonl", 500)):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
        items = list(read_lines(tmp_path / "a" / file))
        assert len({item["id"] for item in items}) == count
        assert all(set(item) == {"id", "prompt", "answer"} and item["answer"].isdigit() for item in items)
        assert all("\\boxed{" in wordproblems.BENCHMARK.prompt.format(**item) for item in items)


def test_only_the_test_split_is_sealed(tmp_path: Path) -> None:
    wordproblems.fetch(tmp_path)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.jsonl")) == [
        "sealed/test.jsonl",
        "validation.jsonl",
    ]
