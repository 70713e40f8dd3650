"""Raw data files as text, however packed and encoded; standard library only (pyarrow for zstd), data scripts carry these."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zlib
from pathlib import Path
from typing import BinaryIO, TextIO

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
UNREADABLE = (OSError, EOFError, ValueError, ImportError, zlib.error, lzma.LZMAError, csv.Error)


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


def open_raw(path: Path) -> BinaryIO:
    """The bytes inside, unpacked while they are read."""
    packing = packing_of(path)
    if packing == "gz":
        return gzip.open(path)  # type: ignore[return-value]
    if packing == "bz2":
        return bz2.open(path)  # type: ignore[return-value]
    if packing == "xz":
        return lzma.open(path)  # type: ignore[return-value]
    if packing == "zst":
        import pyarrow as pa  # only where such a file is read

        stream = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")  # type: ignore[attr-defined]
        return io.BufferedReader(stream, HEAD)
    return path.open("rb", HEAD)


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
