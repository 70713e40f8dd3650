"""The journal of a run, read from its experiments' folders: derived, never stored twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from tuneloop.core.experiment import Experiment, Journal
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score


def load_journal(run: RunFolder) -> Journal:
    """Experiments that are over, in order."""
    files = sorted(run.experiments.glob("[0-9]*/experiment.json"), key=lambda f: int(f.parent.name))
    return Journal(experiments=tuple(_parsed(f, f.stat().st_mtime_ns) for f in files))


# An experiment that is over never changes, and every node asks for all of them.
@lru_cache(maxsize=10_000)
def _parsed(file: Path, written: int) -> Experiment:  # noqa: ARG001
    return Experiment.model_validate_json(file.read_bytes())


def baseline(run: RunFolder) -> Score | None:
    """The untouched model's validation score, per item; None before `prepare` is over."""
    file = run.baseline / "scores.json"
    return Score.model_validate(read_json(file)) if file.is_file() else None


def others(file: Path, benchmark: str) -> Path:
    """Where the score on a further benchmark lies, beside the `file` of the one that decides."""
    return file.with_name("scores") / f"{benchmark}.json"


def keep(file: Path, found: Sequence[Score]) -> Score:
    """Write the score that decides into `file`, after the others beside it; the one that decides."""
    for other in found[1:]:
        write_json(others(file, other.benchmark), other.model_dump(mode="json"))
    write_json(file, found[0].model_dump(mode="json"))
    return found[0]


def all_scores(file: Path, names: Iterable[str]) -> list[Score]:
    """What was kept, per item: the score that decides, and those on the further benchmarks `names`."""
    return [Score.model_validate(read_json(file)), *whole_scores(file, names).values()]


def whole_scores(file: Path, names: Iterable[str]) -> dict[str, Score]:
    """Scores on further benchmarks, per item."""
    return {name: Score.model_validate(read_json(others(file, name))) for name in names}


def other_scores(file: Path, names: Iterable[str]) -> dict[str, Score]:
    """Scores on further benchmarks, without items."""
    return {name: score.model_copy(update={"items": ()}) for name, score in whole_scores(file, names).items()}


def scores(run: RunFolder, number: int) -> Score:
    """An experiment's validation score, per item."""
    return Score.model_validate(read_json(run.experiment(number).scores))
