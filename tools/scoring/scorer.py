"""Where the scorer of a benchmark lies: judged here and in the engine, or in the engine alone."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import PATTERN, Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.registry import unknown_entry
from tuneloop.tools.scoring import answer_matching, scorer_loader
from tuneloop.tools.scoring.scorer_loader import Verdict
from tuneloop.tools.weights.fingerprints import cached_digest

OURS, THEIRS = Path(__file__).parent.resolve() / "scorers", ENGINES / "opencompass" / "scorers"
SCORING = Path(answer_matching.__file__).resolve()
GOLDS = 6
JUDGING = Path(scorer_loader.__file__).resolve()


def scorer_file(benchmark: Benchmark) -> Path | None:
    """The file of its own scorer, None for a plain kind. Raises InvalidRequestError when there is none of that name."""
    if not benchmark.scorer:
        return None
    for folder in (OURS, THEIRS):
        if benchmark.scorer in folder_scorers(folder):
            return folder / f"{benchmark.scorer}.py"
    raise unknown_entry("scorer", benchmark.scorer, scorer_names(), "benchmark.yaml: answer: scorer:NAME")


def scorer_names() -> list[str]:
    """Names of all scorers."""
    return sorted(name for folder in (OURS, THEIRS) for name in folder_scorers(folder))


def folder_scorers(folder: Path) -> list[str]:
    """Names of a folder's scorers; modules that they share begin with a line."""
    return [path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")]


def is_judged_here(benchmark: Benchmark) -> bool:
    """Whether every verdict is made again outside the engine; the others need libraries that only it has."""
    file = scorer_file(benchmark)
    return file is None or file.parent == OURS


def scorer_reads(benchmark: Benchmark) -> str:
    """What of a reply its scorer reads, in a sentence; every scorer says it itself, with an example in backquotes."""
    if benchmark.answer.startswith(PATTERN):
        return f"the first group, or all, of the last match of `{benchmark.answer.removeprefix(PATTERN)}`"
    file = scorer_file(benchmark)
    return str(_declared(file, "READS")) if file else answer_matching.READS[benchmark.answer.partition(":")[0]]


def scorer_files(benchmark: Benchmark) -> dict[str, str]:
    """Files that its scorer cannot do without: path in the user's folder, and SHA-256, "" for any content."""
    return _declared(scorer_file(benchmark), "FILES") or {}


def _declared(file: Path | None, name: str) -> Any:
    """A constant of a scorer, which may lie where it cannot be imported."""
    for line in ast.parse(file.read_bytes()).body if file else ():
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id == name:
            return ast.literal_eval(line.value)
    return None


def check_needs(benchmark: Benchmark, folder: Path | None) -> None:
    """Raises InvalidRequestError in one line where a file that its scorer needs is not in the folder, or is another."""
    try:
        scorer_loader.check_files(scorer_files(benchmark), folder)
    except (ValueError, OSError) as e:
        raise InvalidRequestError(f"benchmark {benchmark.name} cannot be judged: {e}") from e


def unpinned_files(benchmark: Benchmark, folder: Path | None, memory: Path | None) -> list[str]:
    """What the scorer's files hold where they are not pinned: path and SHA-256 of each."""
    places = [folder / name for name, right in scorer_files(benchmark).items() if folder and not right]
    files = sorted(file for place in places for file in (place, *place.rglob("*")) if file.is_file())
    return [f"{file.relative_to(folder)}:{cached_digest(file, memory)}" for file in files if folder]


def judge_reply(benchmark: Benchmark, gold: str, reply: str) -> Verdict:
    """The verdict on a reply, made here."""
    file = scorer_file(benchmark)
    return scorer_loader.judged(scorer_loader.judge_of(str(SCORING), benchmark.answer, str(file or "")), gold, reply)


def answer_reader(benchmark: Benchmark, golds: Iterable[str]) -> Callable[[str], bool]:
    """Tells of a reply whether the scorer finds an answer in it, whatever that is.

    `golds`: right answers of some items, whose kinds a scorer may tell apart. A scorer that reads an item's own choices says
    with `readable(reply)` what has the form. Where only the engine can judge, every reply that is not empty counts as readable.
    """
    if not benchmark.scorer:
        return lambda reply: answer_matching.extract(benchmark.answer, reply) is not None
    if not is_judged_here(benchmark):
        return lambda reply: bool(reply.strip())
    own: Callable[[str], bool] | None = getattr(scorer_loader.load(scorer_file(benchmark) or SCORING), "readable", None)
    if own is not None:
        return own
    some = sorted(set(golds), key=digest)[:GOLDS]
    return lambda reply: any(judge_reply(benchmark, gold, reply)["parsed"] is not None for gold in some)


def summarize_verdicts(benchmark: Benchmark, verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Further metrics, made here."""
    return scorer_loader.summary(str(scorer_file(benchmark) or ""), verdicts)


@lru_cache(maxsize=64)
def scorer_hash(file: Path | None) -> str:
    """Hash of a scorer and of all that it may share with others of its folder."""
    return digest(*(digest_file(path) for path in sorted(file.parent.glob("*.py")))) if file else ""
