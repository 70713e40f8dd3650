"""Counts tokens of rows in the background, in large batches, and what of them the engine would cut."""

from __future__ import annotations

from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.data_gate.chat_template import ChatTemplate
from tuneloop.tools.data_gate.records import TrainingRow
from tuneloop.tools.data_gate.report import Lengths

WAITING = 2
# Texts a call: the tokenizer keeps every token's text until the call is over.
CHARACTERS = 1 << 19


class TokenCounter:
    """`add` gives rows to one thread; the tokenizer works without the interpreter's lock, on all cores."""

    def __init__(self, tokenizer: Path, wrapping: ChatTemplate, cutoff_len: int | None) -> None:
        """`tokenizer` is a tokenizer.json."""
        self._tokenizer = load_tokenizer(tokenizer)
        self._tokenizer.add_special_tokens(list(wrapping.stops))
        self._wrapping, self._cutoff = wrapping, cutoff_len
        self._thread = ThreadPoolExecutor(1, "tokens")
        self._waiting: deque[Future[list[tuple[int, int]]]] = deque()
        self.lengths: array[int] = array("I")
        self.unanswered = self.lost = 0

    def __enter__(self) -> TokenCounter:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, rows: list[TrainingRow]) -> None:
        """Count these rows; waits while two batches are ahead."""
        while len(self._waiting) >= WAITING:
            self._take()
        self._waiting.append(self._thread.submit(self._count, rows))

    def finish(self) -> Lengths:
        """All of them."""
        while self._waiting:
            self._take()
        ordered = np.sort(np.frombuffer(self.lengths, np.uint32)) if self.lengths else np.zeros(0, np.uint32)
        if not len(ordered):
            return Lengths(cutoff_len=self._cutoff)
        return Lengths(
            p50=_at(ordered, 50),
            p95=_at(ordered, 95),
            p99=_at(ordered, 99),
            longest=int(ordered[-1]),
            total=int(ordered.sum(dtype=np.int64)),
            cutoff_len=self._cutoff,
            cut=int((ordered > self._cutoff).sum()) if self._cutoff else 0,
            unanswered=self.unanswered,
            lost=self.lost,
        )

    def _take(self) -> None:
        for length, answer_lost in self._waiting.popleft().result():
            self.lengths.append(length)
            if self._cutoff and length > self._cutoff:
                self.lost += length - self._cutoff
                self.unanswered += answer_lost

    def _count(self, rows: list[TrainingRow]) -> list[tuple[int, int]]:
        """Of each row its tokens (of pairs the longer side) and whether a cut would take from its last answer."""
        wrapping, texts = self._wrapping, []
        ends = []
        for row in rows:
            texts += wrapping.texts(row)
            ends.append(len(texts))
        codes = self._encode(texts)
        found, start = [], 0
        for row, end in zip(rows, ends, strict=True):
            counts, start = codes[start:end], end
            if len(row.answers) > 1:
                counts = max(counts[:2], counts[2:], key=sum)
            total = sum(counts) + wrapping.added(len(counts) // 2, row.system)
            cutoff = self._cutoff
            found.append((total, int(bool(cutoff) and total > (cutoff or 0) and _answer_cut(counts, cutoff or 0))))
        return found

    def _encode(self, texts: list[str]) -> list[int]:
        counts: list[int] = []
        start = size = 0
        for i, text in enumerate(texts):
            size += len(text)
            if size >= CHARACTERS or i + 1 == len(texts):
                codes = self._tokenizer.encode_batch_fast(texts[start : i + 1], add_special_tokens=False)
                counts += map(len, codes)
                start, size = i + 1, 0
        return counts


def _at(ordered: npt.NDArray[np.uint32], percent: int) -> int:
    """The percentile, nearest rank."""
    return int(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)])


def _answer_cut(counts: list[int], cutoff: int) -> bool:
    """Whether the last answer loses tokens, by the engine's own rule of sharing what is left between both sides."""
    for source, target in zip(counts[:-2:2], counts[1:-2:2], strict=True):
        kept_source, kept_target = infer_seqlen(source, target, cutoff)
        cutoff -= kept_source + kept_target
    source, target = counts[-2:]
    return cutoff <= 0 or infer_seqlen(source, target, cutoff)[1] < target


def infer_seqlen(source: int, target: int, room: int) -> tuple[int, int]:
    """Tokens kept of a question and its answer (`infer_seqlen` of LLaMA-Factory)."""
    if target * 2 < room:
        most = room
    elif source * 2 < room:
        most = room - source
    else:
        most = int(room * (target / (source + target)))
    kept = min(most, target)
    return min(max(room - kept, 0), source), kept
