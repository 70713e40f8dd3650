"""What the counts of a data gate mean: errors that stop an experiment, warnings worth knowing, lengths."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuneloop.core.benchmark import Benchmark
from tuneloop.tools.gate.report import Lengths
from tuneloop.tools.gate.rows import Repeats

SHOWN = 5
MOST_UNPARSED = 0.2
MOST_EMPTY = 0.2
MOST_CUT = 0.05
ENDINGS = {
    "boxed": "outputs that end with \\boxed{answer}",
    "choice": "outputs that end with the letter of the choice, e.g. Answer: B",
    "number": "outputs whose last number is the answer",
    "exact": "outputs that are, or end with a line that is, the answer alone",
}


@dataclass
class Tally:
    """Counts that grow with every record."""

    read: int = 0
    kept: int = 0
    parsed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    repeats: Repeats = field(default_factory=Repeats)
    lengths: array[int] = field(default_factory=lambda: array("I"))
    wrong: int = 0
    sentences: list[str] = field(default_factory=list)
    first_empty: str = ""
    first_unparsed: str = ""
    extra_fields: Counter[str] = field(default_factory=Counter)


def lengths_of(found: array[int], cutoff_len: int | None) -> Lengths:
    """Percentiles (nearest rank) of token counts; nothing is cut where `cutoff_len` is None."""
    ordered = sorted(found)
    if not ordered:
        return Lengths(cutoff_len=cutoff_len)
    return Lengths(
        p50=ordered[len(ordered) // 2],
        p95=ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        longest=ordered[-1],
        total=sum(ordered),
        cutoff_len=cutoff_len,
        cut=sum(n > cutoff_len for n in ordered) if cutoff_len else 0,
    )


def errors_of(tally: Tally, broken: str, row_limit: int, benchmark: Benchmark) -> Iterator[str]:
    """What must be repaired before a training; `broken` says why the file could not be read to its end."""
    if broken:
        yield broken
        return
    if not tally.read:
        yield "an empty list; right is one object a record"
        return
    yield from tally.sentences
    if tally.wrong > len(tally.sentences):
        yield f"{tally.wrong} of {tally.read} rows have wrong fields; {SHOWN} are shown"
    empty = sum(n for reason, n in tally.dropped.items() if reason.startswith("empty"))
    if empty > MOST_EMPTY * tally.read:
        yield f"{empty} of {tally.read} rows are empty, first {tally.first_empty}; right is text in both fields"
    if not tally.kept and not tally.wrong:
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(tally.dropped.items()))
        yield f"no row is left ({reasons}); right is rows of the training data only"
    if tally.kept > row_limit:
        yield f"{tally.kept} rows, and the limit is {row_limit}; choose the best {row_limit} in the script"
    missing = tally.kept - tally.parsed
    if tally.kept and missing > MOST_UNPARSED * tally.kept:
        right = ENDINGS.get(benchmark.answer, f"outputs that match {benchmark.answer.removeprefix('regex:')}")
        share = f"{100 * missing / tally.kept:.0f} % of {tally.kept} outputs"
        yield f"{share} hold no answer that the scorer finds ({tally.first_unparsed}); right is {right}"


def warnings_of(tally: Tally, lengths: Lengths) -> Iterator[str]:
    """What is worth knowing and stops nothing."""
    for reason, count in sorted(tally.dropped.items()):
        yield f"{count} of {tally.read} rows dropped: {reason}"
    if tally.extra_fields:
        names = ", ".join(str(name) for name, _ in tally.extra_fields.most_common(6))
        yield f"fields that are not trained on were left out: {names}"
    if tally.repeats.exact or tally.repeats.near:
        yield f"{tally.repeats.exact} rows repeat an earlier one, {tally.repeats.near} nearly; drop them in the script"
    if tally.repeats.reasked:
        yield f"{tally.repeats.reasked} rows ask an earlier question again with another output; keep the right one"
    if lengths.cut:
        much = f"{100 * lengths.cut / max(1, tally.kept):.1f} %"
        cure = (
            f"; raise cutoff_len towards {lengths.longest} or drop them" if lengths.cut > MOST_CUT * tally.kept else ""
        )
        yield f"{lengths.cut} rows ({much}) exceed cutoff_len, {lengths.cutoff_len} tokens, and lose their end{cure}"
