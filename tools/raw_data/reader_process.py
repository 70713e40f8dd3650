"""What runs in the sandbox and reads raw data: one request a line on its input, answers as lines on its output.

The first letter of a line says what it is: `f` a file that is read now, `p` progress, `r` a row with its number, `b` a line
that is no row, `h` and `w` the head and the text of a block of rows, `d` the result (the last line), `e` why there is none
(the last line).
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.untrusted import DEEPEST
from tuneloop.tools.raw_data import reader
from tuneloop.tools.raw_data.reader import RawFile
from tuneloop.tools.raw_data.sample import bound_value
from tuneloop.tools.raw_data.wire import LONGEST_LINE, NEWLINE, dump_row

Arguments = dict[str, Any]
Say = Callable[[str, bytes], None]
RECURSION = 3000
HELD = 100_000  # characters of a broken line that are told


def main(memory: str) -> None:
    """Answer until the input ends; `memory`: bytes that the process may have."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = resource.getrlimit(resource.RLIMIT_DATA)[1]  # a lower one of the user's holds
    most = int(memory) if allowed == resource.RLIM_INFINITY else min(int(memory), allowed)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    sys.setrecursionlimit(RECURSION)
    out = os.fdopen(os.dup(1), "wb", 1 << 20)
    os.dup2(2, 1)  # what a library prints is no answer
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=take_requests, args=(asked,), daemon=True).start()
    while True:
        answer(json.loads(asked.get()), out)


def take_requests(asked: queue.SimpleQueue[bytes]) -> None:
    """Hand requests on; end the process, whatever it is at, when nobody is left who could ask."""
    for line in sys.stdin.buffer:
        asked.put(line)
    os._exit(0)


def answer(request: Arguments, out: BinaryIO) -> None:
    """Carry out one request."""

    def opened(path: Path) -> None:
        write(out, "f", str(path).encode("utf-8", "surrogateescape").replace(b"\n", b" "))
        out.flush()

    reader.on_open = opened
    gc.collect()
    gc.disable()  # millions of rows come and go, none of them in a circle

    def say(kind: str, text: bytes) -> None:
        write(out, kind, text)
        if kind == "p":
            out.flush()

    try:
        OPERATIONS[request["operation"]](request["arguments"], say)
    except InvalidRequestError as e:
        write(out, "e", result({"invalid": str(e)}))
    except MemoryError:
        write(out, "e", result({"memory": True}))
        out.flush()
        os._exit(1)  # what is left of it cannot be relied on
    except Exception as e:  # noqa: BLE001 - of any library, on any bytes: the other side raises it with the file's name
        write(out, "e", result({"failed": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}))
    finally:
        gc.enable()
    out.flush()


def write(out: BinaryIO, kind: str, text: bytes) -> None:
    """One line."""
    if len(text) > LONGEST_LINE:
        raise InvalidRequestError(f"an answer of more than {LONGEST_LINE >> 20} MB")
    out.write(kind.encode() + text + b"\n")


def result(value: Any) -> bytes:
    """A result as JSON; halves of characters, which names of columns and files may hold, are replaced."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


def paths(files: dict[str, str]) -> dict[str, Path]:
    """Files by name."""
    return {name: Path(path) for name, path in files.items()}


def inspect(asked: Arguments, say: Say) -> None:
    """Facts about a folder or file, with progress."""
    from tuneloop.tools.raw_data.inspection import inspect_dataset

    def progress(file: str, at: int, whole: int) -> None:
        say("p", result([file, at, whole]))

    tokenizer = Path(asked["tokenizer"]) if asked["tokenizer"] else None
    found = inspect_dataset(Path(asked["root"]), asked["name"], tokenizer, progress if asked["progress"] else None)
    say("d", result(found.model_dump(mode="json")))


def profile(asked: Arguments, say: Say) -> None:
    """Facts against a benchmark."""
    from tuneloop.core.catalog import Benchmark, Item
    from tuneloop.tools.raw_data.profile import profile_dataset

    benchmark = Benchmark.model_validate(asked["benchmark"])
    items = [Item.model_validate(item) for item in asked["items"]]
    found = profile_dataset(Path(asked["root"]), benchmark, items, overlapping=asked["overlapping"])
    say("d", result(found.model_dump(mode="json")))


def sample(asked: Arguments, say: Say) -> None:
    """Some rows that follow each other."""
    file = RawFile(Path(asked["path"]))
    pairs = (pair for numbers, rows in file.batches() for pair in zip(numbers, rows, strict=True))
    chosen = itertools.islice(pairs, asked["offset"], asked["offset"] + asked["count"])
    rows = [(number, bound_value(row, asked["longest"])) for number, row in chosen]
    say("d", result({"rows": rows, "trouble": file.read_error}))


def column(asked: Arguments, say: Say) -> None:
    """A column's facts and values."""
    from tuneloop.tools.raw_data.row_queries import column_values

    found = column_values(paths(asked["files"]), asked["path"], asked["most"])
    facts = found and {"facts": found.facts.model_dump(mode="json"), "top": found.top, "counted": found.counted}
    say("d", result(facts))


def search(asked: Arguments, say: Say) -> None:
    """Rows that hold a text."""
    from tuneloop.tools.raw_data.row_queries import search_rows

    where = (asked["text"], asked["column"], asked["offset"], asked["count"])
    hits, total = search_rows(paths(asked["files"]), *where)
    rows = [{**vars(hit), "row": bound_value(hit.row, asked["longest"])} for hit in hits]
    say("d", result({"found": total, "rows": rows}))


def duplicates(asked: Arguments, say: Say) -> None:
    """Rows that repeat."""
    from tuneloop.tools.raw_data.row_queries import find_duplicates

    found = vars(find_duplicates(paths(asked["files"]), asked["column"]))
    repeats = found.pop("repeats")
    page = repeats[asked["offset"] : asked["offset"] + asked["count"]]
    groups = [
        {"rows": r.count, "where": list(r.where), "shared": bound_value(r.shared, asked["longest"])} for r in page
    ]
    say("d", result({**found, "groups": groups, "groups_in_all": len(repeats)}))


def rows(asked: Arguments, say: Say) -> None:
    """Every row of a file with its line; lines that are none; whether there is more in the file than was told."""

    def refused(line: int, text: str) -> None:
        # A longer one is told as nothing: nobody could look at its end.
        say("b", result([line, text.encode("utf-8", "replace").decode() if len(text) < HELD else None]))

    file = RawFile(Path(asked["path"]), refused=refused, whole_only=True, every_value=asked["every_value"])
    for numbers, batch in file.batches():
        for number, row in zip(numbers, batch, strict=True):
            text = dump_row(row)
            say(*(("b", result([number, None])) if text is None else ("r", b"%d %s" % (number, text))))
    say("d", result({"partial": file.partial or bool(file.read_error), "trouble": file.read_error}))


def records(asked: Arguments, say: Say) -> None:
    """Records of a file as data scripts read them. Raises InvalidRequestError where there is none."""
    from tuneloop.tools.raw_data.files import iter_records

    for number, row in enumerate(iter_records(Path(asked["path"]), asked["limit"]), 1):
        text = dump_row(row)
        if text is None:
            raise InvalidRequestError(
                f"{asked['path']}: row {number} is nested deeper than {DEEPEST} levels or larger than {LONGEST_LINE >> 20} MB, "
                "and is not looked at; right is a file without it"
            )
        say("r", b"%d %s" % (number, text))
    say("d", b"null")


def blocks(asked: Arguments, say: Say) -> None:
    """A JSON list in blocks: where each begins, the text of it, its records; `broken`: why it was not read to its end."""
    from tuneloop.tools.raw_data.json_blocks import StreamError, stream_blocks, stream_list_or_lines

    broken = ""
    try:
        for block in (stream_list_or_lines if asked["lines"] else stream_blocks)(Path(asked["path"])):
            texts = [dump_row(row) for row in block.rows]
            whole = next((i for i, text in enumerate(texts) if text is None), len(texts))
            say("h", result([block.first, block.strict, block.line, block.lines]))
            say("w", block.raw.replace(b"\n", NEWLINE))
            for number, written in enumerate(texts[:whole], block.first):
                say("r", b"%d %s" % (number, written))
            if whole < len(texts):
                raise StreamError(f"row {block.first + whole}: nested too deeply, or too large")
    except StreamError as e:
        broken = str(e)
    say("d", result({"broken": broken}))


def text(asked: Arguments, say: Say) -> None:
    """A file's text; null where it is none, or longer."""
    with Path(asked["path"]).open("rb") as f:
        data = f.read(asked["longest"] + 1)
    whole = data.decode("utf-8", "replace")
    say("d", result(None if len(data) > asked["longest"] or "\0" in whole else whole))


def config_sample(asked: Arguments, say: Say) -> None:
    """The first records of a file, as the engine reads them."""
    from tuneloop.tools.config.data_records import read_first

    found = read_first(Path(asked["path"]))
    records = b",".join(dump_row(record) or b"null" for record in found.records)
    say("d", b'{"rows":%s,"broken":%s,"records":[%s]}' % (result(found.rows), result(found.broken), records))


OPERATIONS: dict[str, Callable[[Arguments, Say], None]] = {
    "inspect": inspect,
    "profile": profile,
    "sample": sample,
    "column": column,
    "search": search,
    "duplicates": duplicates,
    "rows": rows,
    "records": records,
    "blocks": blocks,
    "text": text,
    "config_sample": config_sample,
}
