"""What the counts of a data gate mean: errors that stop an experiment, warnings worth knowing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.data_gate.duplicates import DuplicateCounts
from tuneloop.tools.data_gate.report import Lengths, Overlap
from tuneloop.tools.raw_data.languages import script_shares

SHOWN = 5
MOST_UNPARSED = 0.2
MOST_BARE, BARE_WORDS, BARE_LENGTH = (
    0.5,
    6,
    200,
)  # share of outputs; words and characters of one that is an answer alone
ASKS_STEPS = re.compile(r"step by step|(?<!may )reason|think|思考", re.IGNORECASE)
MOST_EMPTY = 0.2
MOST_CUT = 0.05
MOST_OVERLAPS = 1000
REFUSED = re.compile(r"(\d+) of \d+ rows overlap with validation items")
ENDINGS = {
    "boxed": "outputs that end with \\boxed{answer}",
    "choice": "outputs that end with the letter of the choice, e.g. Answer: B",
    "number": "outputs whose last number is the answer",
    "verifier": "outputs that are the answer alone, or have it in <answer>...</answer>",
    "exact": "outputs that are, or end with a line that is, the answer alone",
}


@dataclass
class GateCounts:
    """Counts that grow with every record of the file `name`; `examined` rows are those kept that lie within the limit.

    `strict`: nothing may be left out, so that each row that would be makes a sentence.
    """

    name: str
    strict: bool = False
    read: int = 0
    kept: int = 0
    examined: int = 0
    parsed: int = 0
    bare: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    sentences: list[str] = field(default_factory=list)
    first_empty: str = ""
    first_unparsed: str = ""
    extra_fields: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    first_of_script: dict[str, str] = field(default_factory=dict)
    judged: Counter[bool] = field(default_factory=Counter)
    overlapping: int = 0
    overlaps: list[Overlap] = field(default_factory=list)

    def overlap(self, found: Overlap) -> None:
        """Count a row that is refused; the first are kept to be shown."""
        self.overlapping += 1
        if len(self.overlaps) < MOST_OVERLAPS:
            self.overlaps.append(found)

    def found_wrong(self, line: int, row: int, field: str, sentence: str) -> None:
        """Count a row that stops a training; the first are kept to be shown, with line and row (both from 1)."""
        self.wrong += 1
        if len(self.sentences) < SHOWN:
            where = f' field "{field}"' if field else ""
            self.sentences.append(f"{self.name}:{line}: row {row}{where} {sentence}")


def gate_errors(
    tally: GateCounts, broken: str, row_limit: int, benchmark: Benchmark | None, lengths: Lengths
) -> Iterator[str]:
    """What must be repaired before a training; `broken` says why the file could not be read to its end."""
    if broken:
        yield f"{tally.name}: {broken}"
        return
    if not tally.read:
        yield f"{tally.name}: an empty list; right is one object a record"
        return
    yield from tally.sentences
    if tally.wrong > len(tally.sentences):
        yield f"{tally.name}: {tally.wrong} of {tally.read} rows have wrong fields; {SHOWN} are shown"
    empty = sum(n for reason, n in tally.dropped.items() if reason.startswith("empty"))
    if empty > MOST_EMPTY * tally.read:
        yield (
            f"{tally.name}: {empty} of {tally.read} rows are empty, first {tally.first_empty}; right is text in both fields"
        )
    if tally.overlapping:
        yield _overlap_error(tally)
    if not tally.kept and not tally.wrong and not tally.overlapping:
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(tally.dropped.items()))
        yield f"{tally.name}: no row is left ({reasons}); right is rows of the training data only"
    if tally.kept > row_limit:
        yield f"{tally.name}: {tally.kept} rows, and the limit is {row_limit}; choose the best {row_limit} in the script"
    missing = tally.examined - tally.parsed
    if benchmark and missing > MOST_UNPARSED * tally.examined:
        right = ENDINGS.get(benchmark.answer.partition(":")[0]) or (
            f"outputs that end with {benchmark.final or benchmark.description}"
            if benchmark.scorer
            else f"outputs that match {benchmark.answer.removeprefix('regex:')}"
        )
        share = f"{100 * missing / tally.examined:.0f} % of {tally.examined} outputs"
        yield f"{tally.name}: {share} hold no answer that the scorer finds ({tally.first_unparsed}); right is {right}"
    if lengths.unanswered > MOST_UNPARSED * tally.examined:
        share = f"{100 * lengths.unanswered / tally.examined:.0f} % of {tally.examined} outputs"
        yield (
            f"{tally.name}: {share} are cut before their end, where the answer is: the longest record has {lengths.longest} "
            f"tokens, cutoff_len is {lengths.cutoff_len}; right is shorter rows, or a cutoff_len that holds them"
        )


def _overlap_error(tally: GateCounts) -> str:
    """Rows with validation items, the first named; of the test and the unseen half a count."""
    shown = "; ".join(f"row {o.row} holds {o.benchmark} {o.item}: {o.text[:80]!r}" for o in tally.overlaps[:SHOWN])
    splits = {"the test": tally.dropped["overlap with test"], "unseen items": tally.dropped["overlap with unseen"]}
    named = " and ".join(f"{count} that overlap with {what}" for what, count in splits.items() if count)
    others = f" ({named} are dropped already)" if named else ""
    return (
        f"{tally.name}: {tally.overlapping} of {tally.read} rows overlap with validation items{others}: {shown}; drop them in the "
        "script, or start the run without --refuse-overlaps"
    )


def refused_overlaps(error: str) -> int:
    """How many rows an error of the gate refused because they hold validation items."""
    found = REFUSED.search(error)
    return int(found[1]) if found else 0


def is_bare_answer(output: str) -> bool:
    """Whether an output can be no more than an answer: nothing shows how it was found."""
    return len(output) <= BARE_LENGTH and len(output.split()) <= BARE_WORDS


def gate_warnings(
    tally: GateCounts, lengths: Lengths, repeats: DuplicateCounts, usual: str, benchmark: Benchmark | None
) -> Iterator[str]:
    """What is worth knowing and stops nothing; `usual` is the script of the benchmark's prompts, "" if unknown."""
    if benchmark and ASKS_STEPS.search(benchmark.prompt) and tally.bare > MOST_BARE * tally.examined:
        share = f"{100 * tally.bare / tally.examined:.0f} % of {tally.examined} outputs"
        yield f"{tally.name}: {share} are an answer alone, and the benchmark's prompt asks for reasoning before it"
    for reason, count in sorted(tally.dropped.items()):
        yield f"{tally.name}: {count} of {tally.read} rows dropped: {reason}"
    if tally.extra_fields:
        names = ", ".join(str(name) for name, _ in tally.extra_fields.most_common(6))
        yield f"{tally.name}: fields that are not trained on were left out: {names}"
    if repeats.exact or repeats.near:
        first = f" (first: row {repeats.first[0]} is like row {repeats.first[1]})" if repeats.first else ""
        counts = {"repeat": repeats.exact, "nearly repeat": repeats.near}
        said = " and ".join(f"{count} rows {how} an earlier one" for how, count in counts.items() if count)
        yield f"{tally.name}: {said}{first}; the script should drop them"
    if repeats.reasked:
        yield (
            f"{tally.name}: {repeats.reasked} rows ask an earlier question again with another output; keep the right one"
        )
    yield from _cut_warning(tally, lengths)
    yield from _script_warning(tally, usual)
    if len(tally.judged) == 1:
        only = "true" if True in tally.judged else "false"
        yield f"{tally.name}: every judgement is {only}; right is some of both, kto learns from the difference"


def _cut_warning(tally: GateCounts, lengths: Lengths) -> Iterator[str]:
    if not lengths.cut:
        return
    much = f"{100 * lengths.cut / max(1, tally.examined):.1f} %"
    cure = (
        f"; raise cutoff_len towards {lengths.longest} or drop them" if lengths.cut > MOST_CUT * tally.examined else ""
    )
    lost = f", {lengths.lost} tokens in all, of {lengths.unanswered} the answer's end"
    yield f"{tally.name}: {lengths.cut} rows ({much}) exceed cutoff_len, {lengths.cutoff_len} tokens, and are cut{lost}{cure}"


def _script_warning(tally: GateCounts, usual: str) -> Iterator[str]:
    """Rows in another script than the benchmark's, or, where that is unknown, than most rows."""
    found = Counter({name: n for name, n in tally.scripts.items() if name != "none"})
    if not found:
        return
    asked = "which the benchmark asks in" if usual not in ("", "none") else "which most are in"
    usual = usual if usual not in ("", "none") else found.most_common(1)[0][0]
    others = {name: n for name, n in found.items() if name != usual and {name, usual} != {"han", "kana"}}
    if others:
        named = ", ".join(f"{script_shares(tally.scripts)[name]:g} % {name}" for name in others)
        first = tally.first_of_script[next(iter(others))]
        yield f"{tally.name}: rows in other letters than {usual}, {asked}: {named}, first {first}"
