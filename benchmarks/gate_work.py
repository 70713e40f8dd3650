"""What the data gate's figures time, in a process of its own: `gate_work.py WHAT DATA TOKENIZER RESULT`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

from gate import rows
from tokenizers import Tokenizer

from tuneloop.core.catalog import Benchmark
from tuneloop.core.files import write_json
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem
from tuneloop.tools.data_gate.chat_template import ChatTemplate, TemplatePart
from tuneloop.tools.data_gate.duplicates import DuplicateIndex
from tuneloop.tools.data_gate.findings import GateCounts
from tuneloop.tools.data_gate.gate import check_rows, run_gate, separate_overlaps
from tuneloop.tools.data_gate.records import schema_of
from tuneloop.tools.raw_data.json_blocks import stream_blocks

ITEMS = 1000
CHATML = ChatTemplate(
    "chatml",
    TemplatePart("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
    TemplatePart("", "<|im_end|>\n"),
)
BATCH = 4000


def read(data: Path, _tokenizer: Path) -> dict[str, Any]:
    """Parse and fields alone."""

    def once() -> float:
        began, tally, schema = time.process_time(), GateCounts(data.name), schema_of()
        for block in stream_blocks(data):
            check_rows(block, schema, tally)
        return time.process_time() - began

    size = data.stat().st_size / 1e6
    spent = [once() for _ in range(3)]
    return {"MB read": size, "seconds": spent, "MB/CPU s": size / min(spent)}


def compare(data: Path, _tokenizer: Path) -> dict[str, Any]:
    """Overlap with the benchmark, and copies."""
    began, schema, tally, repeats = time.process_time(), schema_of(), GateCounts(data.name), DuplicateIndex()
    guard = guard_of(r["instruction"] + f" Item {i}." for i, r in enumerate(rows(ITEMS)))
    for block in stream_blocks(data):
        repeats.add(*separate_overlaps(*check_rows(block, schema, tally), guard, tally, drop=True))
    found = repeats.found()
    return {
        "CPU s": time.process_time() - began,
        "rows": tally.read,
        "near": found.near,
        "dropped": dict(tally.dropped),
    }


def large(data: Path, tokenizer: Path) -> dict[str, Any]:
    """A file far larger than a run takes, through the gate as a run has it."""
    began, guard = time.process_time(), guard_of(r["instruction"] for r in rows(ITEMS))
    report = run_gate(data, data.with_name("gate-out"), row_limit=2000, guard=guard, **judged_by(tokenizer))
    return {"MB read": data.stat().st_size / 1e6, "CPU s": time.process_time() - began, "errors": report.errors}


def guard_of(questions: Iterable[str]) -> Guard:
    """Knows these questions as validation items."""
    return Guard([KnownItem("b", "validation", str(i), {"prompt": text}) for i, text in enumerate(questions)])


def judged_by(tokenizer: Path) -> dict[str, Any]:
    """What does not depend on the data."""
    benchmark = Benchmark(name="b", description="d", answer="boxed")
    return {
        "benchmark": benchmark,
        "drop_overlaps": True,
        "tokenizer": tokenizer,
        "cutoff_len": 512,
        "wrapping": CHATML,
    }


def tokens(data: Path, tokenizer: Path) -> dict[str, Any]:
    """The whole gate, without a benchmark's items, against the tokenizer alone."""
    some = [row for block in stream_blocks(data) for row in check_rows(block, schema_of(), GateCounts(data.name))[0]]
    texts = [text for row in some for text in CHATML.texts(row)]
    own = Tokenizer.from_file(str(tokenizer))
    out = data.with_name("gate-out")

    def alone() -> None:
        for i in range(0, len(texts), BATCH):
            own.encode_batch(texts[i : i + BATCH], add_special_tokens=False)

    def whole() -> None:
        run_gate(data, out, row_limit=len(some), guard=Guard([]), **judged_by(tokenizer))

    wall, cpu = zip(*(timed(f) for _ in range(3) for f in (alone, whole)), strict=True)
    best = [min(wall[i::2]) for i in (0, 1)]
    return {"wall": wall, "cpu": cpu, "ratio": best[0] / best[1], "CPU ratio": min(cpu[::2]) / min(cpu[1::2])}


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    what, data, tokenizer, result = sys.argv[1:]
    kinds = {"read": read, "compare": compare, "large": large, "tokens": tokens}
    write_json(Path(result), kinds[what](Path(data), Path(tokenizer)))
