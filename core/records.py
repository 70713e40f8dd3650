"""Records of a raw data file and the values in them; standard library only (and pyarrow), data scripts carry these."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

# Raw data files as text, however packed and encoded; standard library only (pyarrow for zstd), data scripts carry these.

KINDS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather")
BINARY = (".parquet", ".arrow", ".feather")
PACKINGS = (".gz", ".bz2", ".xz", ".zst")
MAGIC = ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zst"))
# UTF-32's mark begins with UTF-16's: the longer ones come first.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
HEAD = 1 << 18  # bytes that the encoding is guessed from
EXPANSION = 200  # bytes unpacked for each byte on disk
FREE = 256 << 20  # bytes that any file may unpack to
MOST_EXTENTS = 4096
UNREADABLE = (OSError, EOFError, ValueError, OverflowError, ImportError, zlib.error, lzma.LZMAError, csv.Error)


def kind_of(path: Path) -> str:
    """`.jsonl` of `rows.jsonl` and of `rows.jsonl.gz`; "" where the name says nothing that can be read."""
    inner, last = (path.with_suffix("").suffix.lower(), path.suffix.lower())
    kind = inner if last in PACKINGS else last
    return "" if kind not in KINDS or (kind in BINARY and last in PACKINGS) else kind


def packing_of(path: Path) -> str:
    """gz, bz2, xz, zst or "", by the file's first bytes, whatever its name."""
    with path.open("rb") as f:
        head = f.read(6)
    return next((name for magic, name in MAGIC if head.startswith(magic)), "")


def bytes_on_disk(path: Path) -> int:
    """Bytes of a file that are stored: the holes of a sparse file are none."""
    size, place, stored = path.stat().st_size, 0, 0
    if not hasattr(os, "SEEK_DATA"):
        return size
    with path.open("rb") as f:
        for _ in range(MOST_EXTENTS):
            try:
                start = os.lseek(f.fileno(), place, os.SEEK_DATA)
            except OSError:  # nothing but a hole follows
                return stored
            place = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            stored += place - start
            if place >= size:
                return stored
    return min(size, path.stat().st_blocks * 512)


class Unpacked(io.RawIOBase):
    """The bytes of a packed or sparse file, and a ValueError where they are too many for what is on disk."""

    def __init__(self, source: Any, path: Path) -> None:
        self._source, self._left = source, FREE + EXPANSION * bytes_on_disk(path)
        self._read = getattr(source, "read1", source.read)  # of a torn file what comes before the fault

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As much as there is room for; 0 at the end."""
        piece = self._read(len(buffer))
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(EXPANDS)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """The file too."""
        self._source.close()
        super().close()


EXPANDS = f"unpacks to more than {EXPANSION} times its size on disk; right is a file that unpacks to less"


def open_raw(path: Path) -> BinaryIO:
    """The bytes inside, unpacked while they are read. Raises ValueError where they are too many for the file's size."""
    packing = packing_of(path)
    source: Any
    if packing == "gz":
        source = gzip.open(path)  # noqa: SIM115
    elif packing == "bz2":
        source = bz2.open(path)  # noqa: SIM115
    elif packing == "xz":
        source = lzma.open(path)  # noqa: SIM115
    elif packing == "zst":
        import pyarrow as pa  # only where such a file is read

        source = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")  # type: ignore[attr-defined]
    else:
        if path.stat().st_size > FREE + EXPANSION * bytes_on_disk(path):
            raise ValueError(EXPANDS)
        return path.open("rb", HEAD)
    return io.BufferedReader(Unpacked(source, path), HEAD)


def encoding_of(head: bytes) -> str:
    """The encoding of a text that begins so.

    A byte order mark decides; then zeros in every other byte (UTF-16); then UTF-8 where nine in ten characters beyond
    ASCII are whole; then GB 18030 where all is, and nine in ten of these have both bytes above 0xA0; else Latin-1, or
    its extension cp1252 where bytes 0x80 to 0x9F occur.
    """
    for mark, name in MARKS:
        if head.startswith(mark):
            return name
    for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 3 and head[start::2].count(0) > 0.4 * len(head) / 2 > 5 * head[1 - start :: 2].count(0):
            return name
    broken = codecs.getincrementaldecoder("utf-8")("replace").decode(head).count("\ufffd")
    beyond = len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]+", head))
    if 10 * broken <= beyond or head.isascii():
        return "utf-8"
    if paired(head):
        return "gb18030"
    return "cp1252" if re.search(rb"[\x80-\x9f]", head) else "latin-1"


def paired(head: bytes) -> bool:
    """Whether bytes beyond ASCII come in pairs as Chinese has them."""
    try:
        codecs.getincrementaldecoder("gb18030")().decode(head)
    except UnicodeDecodeError:
        return False
    pairs = len(re.findall(rb"[\xa1-\xf7][\xa1-\xfe]", head))
    return 2 * pairs >= 0.9 * len(re.findall(rb"[\x80-\xff]", head))


def open_text(path: Path, errors: str = "strict") -> TextIO:
    """The text inside, line ends as they are; a byte order mark is no part of it."""
    with open_raw(path) as f:
        encoding = encoding_of(f.read(HEAD))
    return io.TextIOWrapper(open_raw(path), encoding, errors, newline="")


STEP = re.compile(r"([^.\[\]]+)|\[(\d*|[^\]=]+=[^\]]*)\]")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a file of one of the KINDS, in order. Raises one of UNREADABLE where it cannot be read."""
    kind = kind_of(path)
    if kind == ".parquet":
        yield from parquet_records(path)
    elif kind in (".arrow", ".feather"):
        yield from arrow_records(path)
    elif kind == ".txt":
        yield from text_records(path)
    elif kind in (".csv", ".tsv"):
        yield from table_records(path)
    elif kind == ".json":
        yield from json_records(path)
    else:
        yield from line_records(path)


def line_records(path: Path) -> Iterator[dict[str, Any]]:
    """One JSON object a line; blank lines are skipped."""
    with open_text(path) as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as e:
                raise ValueError(f"{path.name}:{number}: not JSON") from e
            if isinstance(value, dict):
                yield value


def json_records(path: Path) -> Iterator[dict[str, Any]]:
    """A list of objects, wherever it lies in the document; columns; objects by id; or JSON Lines in disguise."""
    try:
        with open_text(path) as f:
            document = json.loads(f.read())
    except (ValueError, RecursionError):
        yield from line_records(path)
        return
    yield from longest_list(document)


def longest_list(document: Any) -> list[dict[str, Any]]:
    """The longest list of objects inside a JSON document."""
    if isinstance(document, list):
        return [row for row in document if isinstance(row, dict)]
    if not isinstance(document, dict) or not document:
        return []
    values = list(document.values())
    inner = max((longest_list(v) for v in values if isinstance(v, dict | list)), key=len, default=[])
    if all(isinstance(v, dict) for v in values) and len(values) > max(1, len(inner)):
        return values
    columns = [v for v in values if isinstance(v, list)]
    if not inner and len(columns) > 1 and len({len(v) for v in columns}) == 1 and len(columns) == len(values):
        return [dict(zip(document, row, strict=True)) for row in zip(*columns, strict=True)]
    return inner


def table_records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a table with a header; the separator is found in the header line; JSON in a cell is read."""
    csv.field_size_limit(1 << 30)
    with open_text(path) as f:
        rows = table_rows(path, f)
        names: list[str] = next(filter(None, rows), [])
        for row in filter(None, rows):
            yield {name: cell(text) for name, text in itertools.zip_longest(names, row[: len(names)])}


def table_rows(path: Path, lines: Iterator[str]) -> Any:
    """The `csv.reader` of a table's lines: cells of the header, then of the rows, none for a blank line or Excel's `sep=;`."""
    first = [*itertools.islice(lines, 1)]
    while first and not first[-1].strip() and (line := next(lines, "")):
        first[-1:] = ["\n", line]
    head = first[-1] if first else ""
    if named := re.fullmatch(r"sep=(.)\s*", head):
        first[-1] = "\n"
    separator = named[1] if named else separator_of(path, head)
    return csv.reader(itertools.chain(first, lines), delimiter=separator, quoting=quoting_of(path))


def separator_of(path: Path, head: str) -> str:
    """What stands between the cells of a table whose header line is `head`."""
    return "\t" if kind_of(path) == ".tsv" else max(",;\t|", key=re.sub(r'"[^"]*"', "", head).count)


def quoting_of(path: Path) -> Any:
    """None in a .tsv where a quote would take in whole lines, and each line has as many tabs as the header without it."""
    if kind_of(path) != ".tsv":
        return csv.QUOTE_MINIMAL
    with open_text(path, "replace") as f:
        lines = [line for line in [*io.StringIO(f.read(HEAD), newline="")][:-1] if line.strip()]
    whole = len({line.count("\t") for line in lines}) < 2
    taken_in = sum(1 for _ in csv.reader(lines, delimiter="\t")) < len(lines)
    return csv.QUOTE_NONE if whole and taken_in else csv.QUOTE_MINIMAL


def cell(text: Any, hook: Any = None) -> Any:
    """A cell's value: a list or object where the text is JSON, else the text; `hook` makes an object of its pairs."""
    if isinstance(text, str) and text[:1] + text[-1:] in ("[]", "{}"):
        try:
            return json.loads(text, object_pairs_hook=hook)
        except (ValueError, RecursionError):
            return text
    return text


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet file, batch by batch."""
    import pyarrow.parquet as pq  # only where such a file is read

    def batches() -> Iterator[Any]:
        with pq.ParquetFile(path) as file:  # type: ignore[no-untyped-call]
            yield from file.iter_batches(batch_size=2000)

    yield from batch_records(path, batches())


def arrow_records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of an Arrow file, or of a stream of batches as `datasets` writes them."""
    import pyarrow as pa  # only where such a file is read
    from pyarrow.ipc import open_file, open_stream

    def batches() -> Iterator[Any]:
        with pa.memory_map(str(path)) as file:  # type: ignore[attr-defined]
            whole = file.read(6) == b"ARROW1"
            file.seek(0)
            reader = open_file(file) if whole else open_stream(file)  # type: ignore[no-untyped-call]
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if whole else reader:
                batch.validate(full=True)  # offsets that lead out of the file would read other memory
                for start in range(0, batch.num_rows, 2000):
                    yield batch.slice(start, 2000)

    yield from batch_records(path, batches())


def batch_records(path: Path, batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Rows of Arrow batches. Raises ValueError for what the library cannot read, and for too much from a small file."""
    from pyarrow.lib import ArrowException  # only where such a file is read

    left = FREE + EXPANSION * bytes_on_disk(path)
    try:
        for batch in batches:
            if len(set(batch.schema.names)) < len(batch.schema.names):
                raise ValueError("two columns have the same name; right is a name for each")
            left -= batch.nbytes + batch.num_rows
            if left < 0:
                raise ValueError(EXPANDS)
            yield from in_microseconds(batch).to_pylist()
    except MemoryError:
        raise
    except ArrowException as e:
        raise ValueError(str(e)) from e


def in_microseconds(batch: Any) -> Any:
    """An Arrow batch with times in nanoseconds as microseconds, the finest that Python's own know."""
    from pyarrow import lib  # only where such a file is read

    def finest(kind: Any) -> Any:
        name = str(kind)
        if name.startswith("timestamp[ns"):
            return lib.timestamp("us", kind.tz)
        return {"duration[ns]": lib.duration("us"), "time64[ns]": lib.time64("us")}.get(name, kind)

    schema = lib.schema([field.with_type(finest(field.type)) for field in batch.schema])
    return batch if schema == batch.schema else batch.cast(schema, safe=False)


def text_records(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a text as `text`; blank ones are skipped."""
    with open_text(path) as f:
        for line in f:
            if line.strip():
                yield {"text": line.rstrip("\r\n")}


def pick(record: Any, path: str) -> Any:
    """The value at a path such as `input.text`, `turns[0].value`, `turns[from=human].value` or `choices[]`; None if absent.

    `text|before|MARK` and `text|after|MARK` are the parts of a text around a mark, `steps[]|join` a list as lines.
    """
    path, *cut = path.split("|", 2)
    for name, index in STEP.findall(path):
        if record is None:
            return None
        record = record.get(name) if name and isinstance(record, dict) else inside(record, index)
    if cut == ["join"]:
        return "\n".join(map(text_of, record)) if isinstance(record, list) else record
    if cut and isinstance(record, str):
        before, mark, after = record.partition(cut[1])
        return (before if cut[0] == "before" else after) if mark else None
    return record


def inside(record: Any, index: str) -> Any:
    """One element of a list by number, by a field's value, or (no index) the list itself."""
    if not isinstance(record, list) or not index:
        return record if isinstance(record, list) else None
    if index.isdigit():
        return record[int(index)] if int(index) < len(record) else None
    name, _, value = index.partition("=")
    return next((part for part in record if isinstance(part, dict) and str(part.get(name)) == value), None)


def text_of(value: Any) -> str:
    """A value as text: the first of a list, `7` for 7.0, "" for nothing."""
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()
