"""The journal of a run, read from its experiments' folders: derived, never stored twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from pydantic import BaseModel

from tuneloop.core.experiment import Experiment, Hypothesis, Journal
from tuneloop.core.files import read_field, read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import ItemResult, Score


def load_journal(run: RunFolder) -> Journal:
    """Experiments that are over, in order."""
    files = sorted(run.experiments.glob("[0-9]*/experiment.json"), key=lambda f: int(f.parent.name))
    return Journal(experiments=tuple(_parsed(f, f.stat().st_mtime_ns) for f in files))


def known_journal(run: RunFolder, journal: Journal, last: int) -> Journal:
    """The experiments up to number `last`, and those that a fork began with."""
    inherited = read_field(run.fork, "at", int) if run.fork.is_file() else 0
    return Journal(experiments=journal.experiments[: max(0, last, inherited)])


def open_hypotheses(run: RunFolder) -> dict[int, Hypothesis]:
    """Number → idea of each experiment that is not over."""
    begun = sorted(run.experiments.glob("[0-9]*/hypothesis.json"), key=lambda f: int(f.parent.name), reverse=True)
    still = takewhile(lambda f: not f.with_name("experiment.json").is_file(), begun)
    return {int(f.parent.name): read_model(f, Hypothesis) for f in still}


def planned_from(run: RunFolder, journal: Journal, window: int) -> frozenset[int]:
    """Closed experiments from whose weights open and coming ones begin: parents, and incumbents of plans still to be made.

    `window`: that of the run's spec; of one experiment after another the parents are enough, the incumbent is the best.
    """
    closed = len(journal.experiments)
    plans = range(closed + 1 - window, closed + 1) if window > 1 else ()
    views = (known_journal(run, journal, last).best for last in plans)
    parents = (idea.parent for idea in open_hypotheses(run).values())
    return frozenset([*(best.number for best in views if best), *(number for number in parents if number)])


# An experiment that is over never changes, and every node asks for all of them.
@lru_cache(maxsize=10_000)
def _parsed(file: Path, written: int) -> Experiment:  # noqa: ARG001
    return read_model(file, Experiment)


def baseline_score(run: RunFolder) -> Score | None:
    """The untouched model's validation score, with the items that agents see; None before `prepare` is over."""
    file = score_file(run, 0)
    return shown_score(file) if file.is_file() else None


def score_file(run: RunFolder, number: int) -> Path:
    """Where the score of an experiment lies, of the untouched model for 0."""
    return run.experiment(number).scores if number else run.baseline / "scores.json"


def further_scores_file(file: Path, benchmark: str) -> Path:
    """Where the score on a further benchmark lies, beside the `file` of the one that decides."""
    return file.with_name("scores") / f"{benchmark}.json"


def unseen_scores_file(file: Path, benchmark: str) -> Path:
    """Where results on the validation items that agents do not see lie; no tool of an agent reads there."""
    return file.with_name("sealed") / f"{benchmark}.json"


def keep_score(file: Path, found: Sequence[Score]) -> Score:
    """Write the score that decides into `file`, after the others beside it and what agents do not see; the one that decides."""
    for score in found:
        if score.unseen:
            items = [item.model_dump(mode="json") for item in score.unseen]
            write_json(
                unseen_scores_file(file, score.benchmark), {"measured_with": score.measured_with, "items": items}
            )
    for other in found[1:]:
        write_json(further_scores_file(file, other.benchmark), other.model_dump(mode="json"))
    write_json(file, found[0].model_dump(mode="json"))
    return found[0]


class UnseenItems(BaseModel):
    """Results on the validation items that agents do not see, and the conditions of that measurement."""

    measured_with: str
    items: tuple[ItemResult, ...]


def shown_score(file: Path) -> Score:
    """A kept score with the items that agents may see."""
    return read_model(file, Score)


def whole_score(file: Path, beside: Path | None = None) -> Score:
    """A kept score with every item: for code that compares. `beside`: the file of the score that decides."""
    score = shown_score(file)
    hidden = unseen_scores_file(beside or file, score.benchmark)
    found = read_model(hidden, UnseenItems) if len(score.items) < score.n and hidden.is_file() else None
    if found is None or found.measured_with != score.measured_with:  # a kill may leave one half of two measurements
        return score
    return score.model_copy(update={"unseen": found.items})


def whole_scores(file: Path, names: Iterable[str]) -> dict[str, Score]:
    """Scores on further benchmarks, with every item."""
    return {name: whole_score(further_scores_file(file, name), file) for name in names}


def other_scores(file: Path, names: Iterable[str]) -> dict[str, Score]:
    """Scores on further benchmarks, without items."""
    return {name: shown_score(further_scores_file(file, name)).bare for name in names}


def experiment_score(run: RunFolder, number: int) -> Score:
    """An experiment's validation score, the untouched model's for 0, with every item: for code that compares."""
    return whole_score(score_file(run, number))
