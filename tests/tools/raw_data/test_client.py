"""Bytes of strangers: whatever they are, whoever asks gets rows or one line that names the file, and can ask again."""

from __future__ import annotations

import bz2
import io
import json
import os
import signal
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
import pytest

from tests.waiting import until
from tuneloop.core.async_bridge import interruptible
from tuneloop.core.errors import InvalidRequestError, PausedError
from tuneloop.core.untrusted import DEEPEST, depth_of
from tuneloop.sandboxes import confined_process
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.process_tree import descendants
from tuneloop.tools.raw_data import client
from tuneloop.tools.raw_data.client import FileEnd, RawDataReader, ReadingLimits
from tuneloop.tools.raw_data.json_blocks import StreamError, stream_blocks
from tuneloop.tools.raw_data.wire import dump_row, load

pa: Any = pyarrow  # its stubs name few of its functions
SMALL = ReadingLimits(memory=400 << 20, seconds=30)
ROWS = [{"q": f"What is {n}?", "a": [n, {"b": None}]} for n in range(5)]


@pytest.fixture(scope="module")
def reader() -> Iterator[RawDataReader]:
    made = RawDataReader(SMALL)
    yield made
    made.close()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path / "good.jsonl"


def test_the_way_through_another_folder_is_no_obstacle(reader: RawDataReader, good: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / ".." / good.name
    assert [line.row for line in reader.rows(path, path)] == ROWS


def bad_offsets(path: Path) -> None:
    """An Arrow file in which a text begins and ends far behind the file's end."""
    table, out = pa.table({"q": ["a" * 30] * 64}), io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(out.getvalue())
    place = data.find(struct.pack("<3i", 0, 30, 60)) + 4 * 20
    data[place : place + 8] = struct.pack("<2i", 1 << 20, (1 << 20) + 190_000)
    path.write_bytes(data)


def dictionary(path: Path) -> None:
    """Two thousand rows of a few kilobytes that are gigabytes as texts."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 8_000_000]))
    pq.write_table(pa.table({"q": values}), path, compression="zstd")


def endless(path: Path) -> None:
    """Rows of nothing, without end."""
    pq.write_table(pa.table({"q": pa.nulls(400_000_000 // 8)}), path)


def sparse(path: Path) -> None:
    with path.open("wb") as f:
        f.write(b'{"a": "')
        f.truncate(200 << 30)


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"\0" * (16 << 20))


HOSTILE: dict[str, Callable[[Path], object]] = {
    "offsets.arrow": bad_offsets,
    "dictionary.parquet": dictionary,
    "bomb.jsonl.bz2": lambda p: p.write_bytes(bz2.compress(b"[" * 1_000_000) * 400),
    "sparse.jsonl": sparse,
    "sparse.csv": sparse,
    "deep.json": lambda p: p.write_text("[" * 500_000),
    "deep.jsonl": lambda p: p.write_text('{"a":' * 50_000),
    "field.csv": lambda p: p.write_text('a,b\n1,"' + "x" * 66_000_000),
    "bomb.parquet": zipped,
    "noise.arrow": lambda p: p.write_bytes(b"ARROW1\0\0" + bytes(range(256)) * 8),
    "noise.parquet": lambda p: p.write_bytes(b"PAR1" + bytes(range(256)) * 8 + b"PAR1"),
    "fifo.jsonl": os.mkfifo,
    "zero.jsonl": lambda p: p.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_file_is_more_than_a_line(reader: RawDataReader, tmp_path: Path, name: str) -> None:
    HOSTILE[name](tmp_path / name)
    try:
        found = reader.inspect(tmp_path)
        files = [*found.empty_files, *(f for part in found.parts for f in part.files)]
        said = " ".join(f.read_error for f in files) + " ".join(b.why for f in files for b in f.shown)
        assert sum(part.rows for part in found.parts) == 0
    except InvalidRequestError as e:
        said = str(e)
        assert str(tmp_path) in said
    assert said or name == "field.csv"
    assert "\n" not in said


def test_neighbouring_files_are_invisible(reader: RawDataReader, tmp_path: Path, good: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "rows.jsonl").symlink_to(good)
    with pytest.raises(InvalidRequestError, match="right is a folder with some"):
        reader.inspect(root)
    if probe_bubblewrap() is None:
        with pytest.raises(InvalidRequestError, match="FileNotFoundError"):
            reader.text(root, Path(__file__), 1 << 20)


def test_a_process_that_dies_is_started_again(reader: RawDataReader, good: Path, tmp_path: Path) -> None:
    assert reader.inspect(good).rows == 5
    (process,) = (p for read, p in reader._processes.items() if read == (good,))
    for pid in [*descendants(process._child.pid)] or [process._child.pid]:
        os.kill(pid, signal.SIGSEGV if probe_bubblewrap() else signal.SIGKILL)
    process._child.wait(10)
    assert [line for line, _ in reader.sample(tmp_path, good, 1, 2, 100)[0]] == [2, 3]


def test_a_crash_while_it_reads_is_one_line_with_file_and_limits(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = RawDataReader(SMALL)
    send = confined_process.ConfinedProcess.send

    def dying(process: confined_process.ConfinedProcess, line: bytes) -> None:
        for pid in descendants(process._child.pid) or [process._child.pid]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        send(process, line)

    own.inspect(good)  # a process that is still starting has children that are not there yet
    monkeypatch.setattr(confined_process.ConfinedProcess, "send", dying)
    with pytest.raises(
        InvalidRequestError, match=r"good.jsonl: its reader was ended by SIGKILL \(limits: 400 MB, 30 s\)"
    ):
        own.inspect(good)
    monkeypatch.undo()
    assert own.inspect(good).rows == 5
    own.close()


def test_time_is_limited(tmp_path: Path) -> None:
    endless(tmp_path / "rows.parquet")
    own = RawDataReader(ReadingLimits(memory=1 << 30, seconds=0.2, rate=1 << 40))
    with pytest.raises(InvalidRequestError, match=r"its reader took longer .*limits: 1024 MB, 0 s"):
        own.inspect(tmp_path)
    own.close()


def test_a_reader_that_says_nothing_hears_stop(tmp_path: Path) -> None:
    endless(tmp_path / "rows.parquet")
    own = RawDataReader(SMALL)
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > 1:
            raise PausedError("stop")

    with pytest.raises(PausedError), interruptible(check):
        own.inspect(tmp_path)
    assert time.monotonic() - began < 15
    assert not own._processes, "what it was reading ends too"


def test_blocks_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    rows = [{"q": f"What is {n}?\n\x0b", "a": n} for n in range(3000)]
    texts = (json.dumps(rows), json.dumps(rows, indent=1), '[{"a": "\\ud800"},\n\n{"b": 2.5}, 5]', "[\n]")
    own = RawDataReader(SMALL)
    for text in texts:
        path.write_text(text)
        for mine, theirs in zip(own.blocks(path), stream_blocks(path), strict=True):
            assert repr(mine.rows) == repr(theirs.rows)
            assert (mine.first, mine.strict, mine.line) == (theirs.first, theirs.strict, theirs.line)
            assert [mine.line_of(i) for i in (0, -1 + len(mine.rows))] == [
                theirs.line_of(i) for i in (0, -1 + len(mine.rows))
            ]
    own.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}, {"a": 2}, {"a"', "row 3: broken JSON"),
        ('[{"a": 1}, {"a": ' + "[" * 300 + "]" * 300 + "}]", "row 2: nested too deeply"),
        ('[{"a": 1}, {"a": ' + "9" * 5000 + "}]", "row 2: a number of too many digits"),
        ('{"a": 1}', "not a JSON list"),
    ],
)
def test_blocks_end_where_the_file_cannot_be_read(reader: RawDataReader, tmp_path: Path, text: str, said: str) -> None:
    path, found = tmp_path / "list.json", list[Any]()
    path.write_text(text)
    with pytest.raises(StreamError, match=said):
        for block in reader.blocks(path):
            found += block.rows
    assert found == [{"a": n} for n in range(1, len(found) + 1)]


def test_a_list_that_is_large_as_values_ends_its_reader_alone(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('[5, {"a": [' + "[]," * 30_000_000 + "[]]}]")
    own = RawDataReader(SMALL)
    with pytest.raises(InvalidRequestError, match=r"list.json: its reader needed more than the memory limit"):
        list(own.blocks(path))
    own.close()


def test_rows_come_as_they_are(reader: RawDataReader, tmp_path: Path, good: Path) -> None:
    strange = '{"half": "\\ud800", "big": 123456789012345678901234567890}\n{broken\n'
    (tmp_path / "more.jsonl").write_text(good.read_text() + strange)
    end = FileEnd()
    found = sorted(reader.rows(tmp_path, tmp_path / "more.jsonl", end), key=lambda line: line.line)
    assert [(line.line, line.row) for line in found[:5]] == list(enumerate(ROWS, 1))
    assert found[5].row == {"half": "\ud800", "big": 123456789012345678901234567890}
    assert (found[6].row, found[6].text, end.partial) == (None, b"{broken\n", False)
    pairs = zip(reader.rows(tmp_path, good), reader.rows(tmp_path, good), strict=True)
    assert all(a == b for a, b in pairs), "two at a time"
    assert next(iter(reader.records(tmp_path, good, 1))) == ROWS[0]


def test_the_process_knows_nothing(monkeypatch: pytest.MonkeyPatch, good: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-owner")
    own = RawDataReader(SMALL)
    own.inspect(good)
    (process,) = own._processes.values()
    pids = [process._child.pid, *descendants(process._child.pid)]
    told = [Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert not [text for text in told if b"sk-secret" in text]
    own.close()
    # Whom init inherited it takes away in its own time.
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], 10)


def test_without_a_sandbox_it_is_a_plain_process_that_says_so(monkeypatch: pytest.MonkeyPatch, good: Path) -> None:
    monkeypatch.setattr(confined_process, "reader_sandbox", lambda: ("", "no namespaces"))
    own = RawDataReader(SMALL)
    assert own.inspect(good).rows == 5
    (process,) = own._processes.values()
    assert process.unconfined == "no namespaces"
    assert b"HOME" not in Path(f"/proc/{process._child.pid}/environ").read_bytes()
    own.close()


def test_malformed_answers_of_the_reader_are_refused(
    reader: RawDataReader, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "load", lambda _: {"name": 7, "rows": "many"})
    with pytest.raises(InvalidRequestError, match="no answer that can be used"):
        reader.inspect(good)


def test_depth_and_size_are_bounded() -> None:
    deep: list[object] = []
    for _ in range(2 * DEEPEST):
        deep = [deep]
    assert dump_row({"a": deep}) is None
    assert depth_of({"a": [{"b": 1}]}) == 3
    assert load(dump_row({"n": 1 << 80, "t": "\ud800"}) or b"") == {"n": 1 << 80, "t": "\ud800"}
    for text in (b"[" * 100_000 + b"]" * 100_000, b"[" * 201 + b"]" * 201):
        with pytest.raises(ValueError, match=r"nested|recursion|Recursion"):
            load(text)


def test_halves_of_characters_in_names_of_columns_and_files_are_no_obstacle(
    reader: RawDataReader, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"\\ud800": "x", "b": "\\udfff"}\n')
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    odd.write_text('{"b": "y"}\n')
    assert sum(part.rows for part in reader.inspect(tmp_path).parts) == 2
    assert reader.inspect(odd).rows == 1
    assert next(iter(reader.records(tmp_path, odd, 1))) == {"b": "y"}
    odd.write_text("{")
    with pytest.raises(InvalidRequestError, match="cannot be read as jsonl"):
        next(iter(reader.records(tmp_path, odd, 1)))


def test_a_record_that_is_not_handed_on_is_named(reader: RawDataReader, tmp_path: Path) -> None:
    """What is searched for items of benchmarks may hold no row that nobody looked at."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": ' + "[" * 300 + "]" * 300 + "}\n")
    with pytest.raises(InvalidRequestError, match=r"a\.jsonl: row 2 is nested deeper than"):
        list(reader.records(tmp_path, path))
