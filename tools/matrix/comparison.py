"""Cells of the matrix side by side: accuracies with intervals, paired tests of every two cells, corrected together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import fmean

from tuneloop.core.errors import DamagedFileError, InvalidRequestError
from tuneloop.core.files import read_model
from tuneloop.tools.matrix.evaluation import RESULTS, SUMMARY, Sample, Summary
from tuneloop.tools.matrix.experiments import EXPERIMENTS, FORMATS
from tuneloop.tools.statistics import Paired, holm, interval
from tuneloop.tools.statistics.power import ALPHA
from tuneloop.tools.training.tokens import Format


@dataclass(frozen=True)
class Cell:
    """One training in one evaluation format, with one or several seeds. `values`: mean over the seeds, by item; 1 is right."""

    experiment: str
    asked: Format
    summaries: tuple[Summary, ...]
    values: dict[str, float]
    clusters: dict[str, str]

    @property
    def name(self) -> str:
        """As tables and plots call it."""
        return f"{self.experiment} / {self.asked}"

    @property
    def accuracy(self) -> float:
        """Percent, mean over items and seeds."""
        return 100 * fmean(self.counted)

    @property
    def counted(self) -> list[float]:
        """What the task's score counts of each item: where less is better, what is wrong."""
        less = self.summaries[0].direction == "min"
        return [1 - value if less else value for value in self.values.values()]

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """95 % interval over items; what another seed would change is not in it."""
        return interval(self.counted, list(self.clusters.values()))

    @property
    def by_seed(self) -> list[float]:
        """Accuracy of each seed."""
        return [one.accuracy for one in self.summaries]

    @property
    def trained(self) -> tuple[str, str, str]:
        """Format, method and masking of the training, "" where the matrix does not know the model."""
        known = next((one for one in EXPERIMENTS if one.name == self.experiment), None)
        if known is None:
            return "", "", ""
        masked = "answer only" if known.mask_question else "question and answer"
        masking = "" if known.chat or known.method == "grpo" else masked
        return "chat template" if known.chat else "no chat template", known.method.upper(), masking


@dataclass(frozen=True)
class Pair:
    """One cell against another on the same items. `p_value` is corrected for all pairs of the report."""

    one: Cell
    other: Cell
    gain: float
    low: float
    high: float
    p_value: float
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def real(self) -> bool:
        """Whether the difference is more than chance, all tests together."""
        return self.p_value <= ALPHA


def read_cells(folders: Sequence[Path]) -> list[Cell]:
    """The cells that lie in these folders, seeds together, in the matrix' order.

    Raises InvalidRequestError where a folder is none, or where they are not of the same items.
    """
    found: dict[tuple[str, Format], list[tuple[Summary, list[Sample]]]] = defaultdict(list)
    for folder in folders:
        summary, samples = read_cell(folder)
        found[summary.experiment, summary.eval_format].append((summary, samples))
    if not found:
        raise InvalidRequestError(f"no results to report on; right are folders with {SUMMARY} and {RESULTS}")
    order = [one.name for one in EXPERIMENTS]
    names = sorted(
        {name for name, _ in found}, key=lambda name: (order.index(name) if name in order else len(order), name)
    )
    cells = [
        make_cell(name, asked, found[name, asked]) for name in names for asked in FORMATS if (name, asked) in found
    ]
    for cell in cells[1:]:
        if cell.values.keys() != cells[0].values.keys() or cell.summaries[0].task != cells[0].summaries[0].task:
            raise InvalidRequestError(
                f"{cell.name} and {cells[0].name} are not of the same items; evaluate both again under one eval.yaml"
            )
    return cells


def read_cell(folder: Path) -> tuple[Summary, list[Sample]]:
    """One folder below `eval/`. Raises InvalidRequestError."""
    try:
        summary, samples = read_model(folder / SUMMARY, Summary), read_model(folder / RESULTS, list[Sample])
    except (FileNotFoundError, NotADirectoryError) as e:
        raise InvalidRequestError(
            f"results {folder}: {SUMMARY} or {RESULTS} is missing; right is a folder of an evaluation"
        ) from e
    except DamagedFileError as e:
        raise InvalidRequestError(f"results {folder}: {e}") from e
    if not samples:
        raise InvalidRequestError(f"results {folder}: {RESULTS} is empty")
    return summary, samples


def make_cell(name: str, asked: Format, seeds: Sequence[tuple[Summary, list[Sample]]]) -> Cell:
    """Seeds together. Raises InvalidRequestError where they are not of the same items, or one is there twice."""
    ordered = sorted(seeds, key=lambda one: one[0].seed)
    ids = [{sample.id for sample in samples} for _, samples in ordered]
    numbers = [summary.seed for summary, _ in ordered]
    if len(set(numbers)) < len(numbers):
        raise InvalidRequestError(f"{name} / {asked} is there twice with one seed; name each folder once")
    if any(one != ids[0] for one in ids):
        raise InvalidRequestError(f"{name} / {asked}: its seeds are not of the same items; evaluate them again")
    by_id = [{sample.id: sample for sample in samples} for _, samples in ordered]
    first = by_id[0]
    values = {i: fmean(one[i].value for one in by_id) for i in sorted(first)}
    return Cell(name, asked, tuple(summary for summary, _ in ordered), values, {i: first[i].cluster for i in values})


def compare_cells(cells: Sequence[Cell]) -> list[Pair]:
    """Every two cells."""
    pairs = list(combinations(cells, 2))
    found = [Paired(list(a.values.values()), list(b.values.values()), list(a.clusters.values())) for a, b in pairs]
    corrected = holm([one.p_value for one in found])
    return [
        Pair(
            a,
            b,
            one.gain,
            *one.bounds,
            p,
            tuple(i for i in a.values if a.values[i] > b.values[i]),
            tuple(i for i in a.values if a.values[i] < b.values[i]),
        )
        for (a, b), one, p in zip(pairs, found, corrected, strict=True)
    ]
