"""Raw data as everyone asks for them: a sandboxed process reads, what comes back is plain JSON, bounded and checked."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.profile import DatasetProfile
from tuneloop.core.records import bytes_on_disk
from tuneloop.sandboxes.confined_process import ConfinedProcess, ProcessGoneError
from tuneloop.tools.raw_data.facts import ColumnFacts, Inspection
from tuneloop.tools.raw_data.files import record_files
from tuneloop.tools.raw_data.json_blocks import Block
from tuneloop.tools.raw_data.json_stream import StreamError
from tuneloop.tools.raw_data.wire import LONGEST_LINE, NEWLINE, load

PROCESS = "tuneloop.tools.raw_data.reader_process"
KEPT = 3  # processes that stay warm, each for the folders that it sees
Progress = Callable[[str, int, int], None]
Row = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class ReadingLimits:
    """`memory`: bytes of a process; `seconds`: of one question, and one more for every `rate` bytes that are stored."""

    memory: int = 1 << 30
    seconds: float = 120.0
    rate: int = 1 << 20


@dataclass(frozen=True)
class RowLine:
    """A row, its line (from 1), and the row as it is written; no row where `row` is None: then `text` is what stands there.

    A line that is no row and too long to be looked at has no text.
    """

    line: int
    row: Row | None
    text: bytes | None


@dataclass
class FileEnd:
    """After the rows of a file: whether it holds more than them, and why it was not read to its end."""

    partial: bool = False
    trouble: str = ""


@dataclass
class RawDataReader:
    """Asks sandboxed processes, one for each set of folders; a process that died is started again for the next question."""

    limits: ReadingLimits = field(default_factory=ReadingLimits)
    _processes: OrderedDict[tuple[Path, ...], ConfinedProcess] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def inspect(
        self, root: Path, name: str = "", tokenizer: Path | None = None, progress: Progress | None = None
    ) -> Inspection:
        """Facts about a folder or file. Raises InvalidRequestError, as all of these do."""
        asked = {
            "root": str(absolute_path(root)),
            "name": name,
            "tokenizer": tokenizer and str(absolute_path(tokenizer)),
            "progress": progress is not None,
        }
        beside = () if tokenizer is None else (absolute_path(tokenizer),)
        return self._model(Inspection, root, self._ask(root, "inspect", asked, beside, progress))

    def profile(
        self, root: Path, benchmark: Benchmark, items: Sequence[Item], overlapping: Mapping[str, str]
    ) -> DatasetProfile:
        """Facts against a benchmark's items, of which only those that agents see may be given."""
        asked = {
            "root": str(absolute_path(root)),
            "benchmark": benchmark.model_dump(mode="json"),
            "items": [item.model_dump(mode="json") for item in items],
            "overlapping": dict(overlapping),
        }
        return self._model(DatasetProfile, root, self._ask(root, "profile", asked))

    def sample(
        self, root: Path, path: Path, offset: int, count: int, longest: int
    ) -> tuple[list[tuple[int, Row]], str]:
        """Rows of a file with their lines, texts cut; and why the file was not read to its end."""
        asked = {"path": str(absolute_path(path)), "offset": offset, "count": count, "longest": longest}
        found = self._ask(root, "sample", asked)
        return [(int(line), dict(row)) for line, row in found["rows"]], str(found["trouble"])

    def column(
        self, root: Path, files: Mapping[str, Path], path: str, most: int
    ) -> tuple[ColumnFacts, list[tuple[str, int]], bool] | None:
        """A column's facts, its most frequent values, and whether these were counted; None where no row has it."""
        found = self._ask(root, "column", {"files": plain(files), "path": path, "most": most})
        if found is None:
            return None
        top = [(str(value), int(count)) for value, count in found["top"]]
        return self._model(ColumnFacts, root, found["facts"]), top, bool(found["counted"])

    def search(self, root: Path, files: Mapping[str, Path], **asked: Any) -> dict[str, Any]:
        """Rows with a text: `found`, how many there are, and a page of `rows`."""
        return dict(self._ask(root, "search", {"files": plain(files), **asked}))

    def duplicates(self, root: Path, files: Mapping[str, Path], **asked: Any) -> dict[str, Any]:
        """Repeated rows in groups, a page of them."""
        return dict(self._ask(root, "duplicates", {"files": plain(files), **asked}))

    def text(self, root: Path, path: Path, longest: int) -> str | None:
        """The text of a small file; None where it is none, or longer."""
        found = self._ask(root, "text", {"path": str(absolute_path(path)), "longest": longest})
        return None if found is None else str(found)

    def config_sample(self, path: Path) -> dict[str, Any]:
        """The first records of a file as the engine reads them: `records`, `rows` where all were read, `broken`."""
        found = self._ask(path, "config_sample", {"path": str(absolute_path(path))})
        return {"records": list(found["records"]), "rows": found["rows"], "broken": found["broken"]}

    def rows(
        self, root: Path, path: Path, end: FileEnd | None = None, *, every_value: bool = False
    ) -> Iterator[RowLine]:
        """Every row of a file, and every line that is none; `end` is filled in behind the last.

        Of a key that stands twice a row has the last value, with `every_value` the earlier ones too, as `key.1`, `key.2`.
        """
        asked = {"path": str(absolute_path(path)), "every_value": every_value}
        with self._stream(root, "rows", asked) as messages:
            for kind, text in messages:
                if kind == b"r":
                    number, _, written = text.partition(b" ")
                    row = load(written)
                    yield RowLine(int(number), row if isinstance(row, dict) else None, written)
                elif kind == b"b":
                    line, whole = load(text)
                    yield RowLine(int(line), None, None if whole is None else str(whole).encode())
                elif end is not None:
                    found = load(text)
                    end.partial, end.trouble = bool(found["partial"]), str(found["trouble"])

    def records(self, root: Path, path: Path, limit: int | None = None) -> Iterator[Row]:
        """Records as data scripts read them: the first line that is none ends it with an error."""
        with self._stream(root, "records", {"path": str(absolute_path(path)), "limit": limit}) as messages:
            yield from (load(text.partition(b" ")[2]) for kind, text in messages if kind == b"r")

    def blocks(self, path: Path, *, lines: bool = False) -> Iterator[Block]:
        """A JSON list, or with `lines` also JSON lines, in blocks of records.

        Raises StreamError with the row or line (from 1) where reading stopped.
        """
        head, rows = list[Any](), list[Any]()
        raw, broken = b"", ""
        with self._stream(path, "blocks", {"path": str(absolute_path(path)), "lines": lines}) as messages:
            for kind, text in messages:
                if kind == b"r":
                    rows.append(load(text.partition(b" ")[2]))
                    continue
                if kind in (b"h", b"d") and head:
                    yield Block(rows, head[0], head[1], head[2], raw, tuple(head[3]))
                if kind == b"h":
                    head, rows = load(text), []
                elif kind == b"w":
                    raw = text.replace(NEWLINE, b"\n")
                elif kind == b"d":
                    broken = str(load(text)["broken"])
        if broken:
            raise StreamError(broken)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._processes:
                self._processes.popitem()[1].end()

    def _model(self, kind: type[Model], root: Path, found: Any) -> Model:
        try:
            return kind.model_validate_json(orjson.dumps(found))
        except (ValidationError, TypeError) as e:
            raise InvalidRequestError(f"{root}: its reader gave no answer that can be used; {CURE}") from e

    def _ask(
        self,
        root: Path,
        operation: str,
        arguments: dict[str, Any],
        beside: tuple[Path, ...] = (),
        progress: Progress | None = None,
    ) -> Any:
        with self._stream(root, operation, arguments, beside) as messages:
            for kind, text in messages:
                if kind == b"p" and progress is not None:
                    file, done, total = load(text)
                    progress(str(file), int(done), int(total))
                elif kind == b"d":
                    return load(text)
        raise AssertionError("an answer ends with a result or an error")

    @contextmanager
    def _stream(
        self, root: Path, operation: str, arguments: dict[str, Any], beside: tuple[Path, ...] = ()
    ) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """The messages of an answer. What is left of it when the block is left early ends with its process."""
        if root.exists() and not (root.is_file() or root.is_dir()):  # a pipe would be waited for until the time is over
            raise InvalidRequestError(f"{root}: a pipe or a device; right is a plain file")
        read = (absolute_path(root), *beside)
        seconds = self.limits.seconds + sum(map(bytes_on_disk, record_files(root))) / self.limits.rate
        answer = _Answer(self._take(read), root, seconds)
        try:
            # as `json` writes it: a name of a file need not be UTF-8
            answer.process.send(json.dumps({"operation": operation, "arguments": arguments}).encode())
            yield answer.messages()
        except ProcessGoneError as e:
            limits = f"limits: {self.limits.memory >> 20} MB, {seconds:.0f} s"
            raise InvalidRequestError(f"{answer.file}: its reader {e} ({limits}); {CURE}") from e
        except (ValueError, KeyError, TypeError) as e:
            if isinstance(e, InvalidRequestError):
                raise
            raise InvalidRequestError(f"{answer.file}: its reader gave no answer that can be used; {CURE}") from e
        finally:
            if answer.over:
                self._keep(read, answer.process)
            else:
                answer.process.end()

    def _take(self, read: tuple[Path, ...]) -> ConfinedProcess:
        """A warm process that nobody uses, or a new one."""
        with self._lock:
            found = self._processes.pop(read, None)
        if found is not None and found.alive:
            return found
        if found is not None:
            found.end()
        return ConfinedProcess(PROCESS, str(self.limits.memory), read=read)

    def _keep(self, read: tuple[Path, ...], process: ConfinedProcess) -> None:
        """Keep it warm for the next question; the one that was used the longest ago ends where there are too many."""
        with self._lock:
            spare = [self._processes.pop(read)] if read in self._processes else []
            self._processes[read] = process
            while len(self._processes) > KEPT:
                spare.append(self._processes.popitem(last=False)[1])
        for one in spare:
            one.end()


CURE = "right is a file that other programs can read"


@dataclass
class _Answer:
    """Reads one answer; `over`: its last message was read; `file`: what the process said last that it reads."""

    process: ConfinedProcess
    root: Path
    seconds: float
    over: bool = False

    def __post_init__(self) -> None:
        self.file = str(self.root)

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        """Kind and text of each, the result last. Raises InvalidRequestError, ProcessGoneError."""
        left = self.seconds
        while not self.over:
            line, waited = self.process.line(left, LONGEST_LINE)
            left -= waited
            kind, text = line[:1], line[1:]
            if kind == b"f":
                self.file = text.decode("utf-8", "replace")[:4096]
                continue
            if kind == b"e":
                self._fail(load(text))
            self.over = kind == b"d"
            yield kind, text

    def _fail(self, why: dict[str, Any]) -> None:
        """Raise what an error says."""
        if why.get("memory"):
            raise ProcessGoneError("needed more than the memory limit")
        self.over = True
        if "invalid" in why:
            raise InvalidRequestError(str(why["invalid"])[:2000])
        raise InvalidRequestError(f"{self.file}: cannot be read ({str(why.get('failed'))[:400]}); {CURE}")


def plain(files: Mapping[str, Path]) -> dict[str, str]:
    """Files by name, as JSON."""
    return {name: str(absolute_path(path)) for name, path in files.items()}


@cache
def shared_reader() -> RawDataReader:
    """The reader of this process: its processes stay warm for every run and server in it."""
    return RawDataReader()
