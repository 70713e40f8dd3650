r"""Mathematical answers by math-verify: the last box of a reply against a LaTeX gold answer, however it is written.

A comparison may take `SECONDS` of CPU time. Numbers like 9^{9^{9}} cannot be interrupted inside Python, so comparisons are made
in a child process, which the kernel ends; the answer is then wrong, and `error` says so.
"""

from __future__ import annotations

import logging
import multiprocessing
import re
import resource
from multiprocessing.connection import Connection
from typing import Any

from ..answer_matching import box, without_thoughts

READS = (
    r"what stands in the last box as LaTeX, e.g. `\boxed{\frac{1}{2}}`, else in 'the final answer is "
    r"$...$'; compared by value"
)

SECONDS = 5
MEMORY = 2 << 30
TAIL = 20_000  # characters of a reply that are searched


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when the reply's answer is equal to the gold one."""
    answer = stated(reply)
    if answer is None:
        return {"parsed": None, "value": 0.0}
    found = CHILD.ask(gold, answer)
    if found is None:
        return {"parsed": answer, "value": 0.0, "note": f"the comparison took more than {SECONDS} s or too much memory"}
    read, right = found
    return {"parsed": answer if read else None, "value": float(right)}


def stated(reply: str) -> str | None:
    """What stands in the last box, else in "the final answer is $...$"; None without either."""
    text = without_thoughts(reply)
    if text is None:
        return None
    text = text[-TAIL:]
    inside = box(text)
    if inside is not None:
        return re.sub(r"(?<=[\w})\]])\.\s*\Z", "", inside).strip() or None
    found = re.findall(r"(?i)final answer is:?\s*\$([^$]+)\$", text)
    return found[-1].strip() or None if found else None


def compare(gold: str, answer: str) -> tuple[bool, bool]:
    """Whether the answer can be read, and whether it is equal to the gold one."""
    if same_text(gold, answer):
        return True, True
    # imported in the child alone: sympy is large, and most jobs compare no mathematics
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    plain = NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="last", equations=False
    )
    how = [LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False, normalization_config=plain)]
    wanted, found = (
        parse(f"\\boxed{{{text}}}", extraction_config=how, parsing_timeout=None) for text in (gold, answer)
    )
    return bool(found), bool(wanted and found and verify(wanted, found, timeout_seconds=None))


def same_text(gold: str, answer: str) -> bool:
    """Equal but for white space: an answer that mathematics cannot read is still an answer."""
    return re.sub(r"\s+", "", gold) == re.sub(r"\s+", "", answer)


class Child:
    """A process that compares, started when it is needed and again when it was ended."""

    def __init__(self) -> None:
        self.process: Any = None
        self.pipe: Any = None

    def ask(self, gold: str, answer: str) -> tuple[bool, bool] | None:
        """The comparison's result; None when it was ended. Raises RuntimeError with what it raised."""
        if self.process is None:
            self.start()
        try:
            self.pipe.send((gold, answer))
            kind, value = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            self.process = None
            return None
        if kind == "error":
            raise RuntimeError(value)
        return value

    def start(self) -> None:
        """A fork: what is imported already is not imported again."""
        forked = multiprocessing.get_context("fork")
        self.pipe, theirs = forked.Pipe()
        self.process = forked.Process(target=serve, args=(theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()


def serve(pipe: Connection, others: Connection) -> None:
    """Compare until nobody asks any more, each time with CPU time and memory of its own."""
    others.close()
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # that time is the caller's affair, and so it is
    while True:
        try:
            gold, answer = pipe.recv()
        except EOFError:
            return
        limit()
        try:
            pipe.send(("found", compare(gold, answer)))
        except Exception as e:  # noqa: BLE001 - a parser on a stranger's text: the item is wrong and listed
            pipe.send(("error", f"{type(e).__name__}: {e}"[:200]))


def limit() -> None:
    """The kernel ends this process when the next comparison takes more than `SECONDS`."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + SECONDS + 1, hard))
    with open("/proc/self/statm") as f:  # noqa: PTH123 - one line of the kernel's
        pages = int(f.read().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))


CHILD = Child()
