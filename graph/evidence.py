"""Failures of single validation items for who explains and plans: a few of each kind, short, quoted where they give orders."""

from __future__ import annotations

from collections import Counter

from tuneloop.core.brief import Failed, Failures
from tuneloop.core.quoting import shortened
from tuneloop.core.score import ItemResult, Score
from tuneloop.graph.context import Context
from tuneloop.mcp_servers.marking import plain
from tuneloop.tools.benchmarks import prompt
from tuneloop.tools.failures import KINDS, MEANING, Kind, kind_of
from tuneloop.tools.runs.journal import baseline, load_journal, score_file, shown_score

ITEMS = 4
ASKED, RIGHT, SAID = 240, 80, 300  # letters


def of_journal(ctx: Context) -> tuple[Failures, ...]:
    """Of the best and of the last experiment that was measured; before any, of the untouched model."""
    journal = load_journal(ctx.run)
    measured = [e.number for e in journal.experiments if e.score is not None]
    numbers = dict.fromkeys([*([journal.best.number] if journal.best else []), *measured[-1:]])
    if numbers:
        return tuple(of_score(ctx, number, shown_score(score_file(ctx.run, number))) for number in numbers)
    base = baseline(ctx.run)
    return (of_score(ctx, 0, base),) if base and base.items else ()


def of_score(ctx: Context, experiment: int, score: Score) -> Failures:
    """Counts of all failures on items that agents see, and the first of each kind, the commonest kinds first."""
    longest = ctx.bench.setup.benchmark.max_new_tokens
    failed = [(kind, item) for item in score.items if (kind := kind_of(item, longest))]
    counts = Counter(kind for kind, _ in failed)
    some = [
        pair for kind, _ in counts.most_common() for pair in [p for p in failed if p[0] == kind][: _share(len(counts))]
    ]
    asked = _asked(ctx)
    return Failures(
        experiment=experiment,
        n=len(score.items),
        kinds={kind: (counts[kind], MEANING[kind]) for kind in KINDS if counts[kind]},
        items=tuple(_failed(kind, item, asked) for kind, item in some[:ITEMS]),
    )


def _share(kinds: int) -> int:
    return -(-ITEMS // max(1, kinds))


def _asked(ctx: Context) -> dict[str, str]:
    """Item → what was asked."""
    first = ctx.bench.benchmark
    return {item.id: prompt(first.benchmark, item) for item in ctx.bench.validation(first).shown}


def _failed(kind: Kind, item: ItemResult, asked: dict[str, str]) -> Failed:
    """Whole texts are looked at for orders, then shortened."""
    question = asked.get(item.id) or asked.get(item.id.rpartition("~")[0], "")
    said = plain({"asked": question, "right": item.answer, "said": item.prediction, "found": item.parsed})
    most = {"asked": ASKED, "right": RIGHT, "said": SAID, "found": RIGHT}
    return Failed(kind=kind, **{name: text and shortened(text, most[name]) for name, text in said.items()})
