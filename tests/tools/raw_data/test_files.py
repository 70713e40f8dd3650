"""Which files hold records, and what is said about those that do not."""

from __future__ import annotations

import json

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.raw_data.files import iter_records, read_readme, record_files


def test_sources_leave_out_what_is_no_data(tmp_path):
    for name in ("b.jsonl", "sub/a.csv", ".hidden/c.json", "README.md", "dataset_info.json", "empty.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if name == "empty.json" else "x")
    assert [str(p.relative_to(tmp_path)) for p in record_files(tmp_path)] == ["b.jsonl", "sub/a.csv"]
    assert record_files(tmp_path / "b.jsonl") == [tmp_path / "b.jsonl"]
    assert record_files(tmp_path / "README.md") == []
    assert read_readme(tmp_path) == "x"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("a.json", b"{", "cannot be read"), ("a.json", b"[]", "holds no records"), ("a.csv", b"a,b\n", "holds no records"),
     ("a.parquet", b"xxxx", "cannot be read"), ("a.jsonl", b"\xff\xfe\x00", "cannot be read")],
)  # fmt: skip
def test_unreadable_files_are_named(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidRequestError, match=says):
        list(iter_records(tmp_path / name))


def test_reading_streams_and_stops_at_the_limit(tmp_path):
    good = "".join(json.dumps({"i": i}) + "\n" for i in range(10))
    (tmp_path / "a.jsonl").write_text(good + "{broken")
    assert [r["i"] for r in iter_records(tmp_path / "a.jsonl", 3)] == [0, 1, 2]
