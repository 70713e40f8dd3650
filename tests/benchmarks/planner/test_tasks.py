"""Tasks of the bench: the same bytes from the same seed, other problems from another, faults where they are meant to be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tuneloop.core.text import equations, normalise
from tuneloop.tools.benchmark_items.user_folder import read_user_benchmark

NAMES = ("stories", "till", "choice", "chains")


def written(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_every_family_has_its_test() -> None:
    from planner.tasks import FAMILIES

    assert set(FAMILIES) == set(NAMES)
    with pytest.raises(KeyError):
        FAMILIES["chess"]


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_same_bytes(name: str, tmp_path: Path) -> None:
    from planner.tasks import make

    for folder in ("a", "b"):
        make(f"{name}5").write(tmp_path / folder)
    assert written(tmp_path / "a") == written(tmp_path / "b")
    assert not {row["question" if name != "stories" else "prompt"] for row in make(f"{name}5").validation} & {
        row["question" if name != "stories" else "prompt"] for row in make(f"{name}6").validation
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_benchmark_is_a_valid_folder(name: str, tmp_path: Path) -> None:
    from planner.tasks import make

    made = make(f"{name}5")
    benchmark, _ = made.write(tmp_path)
    read = read_user_benchmark(benchmark)
    assert (len(read.validation), len(read.test)) == (200, 200)
    assert all(made.truth[normalise(row["question"])] == row["answer"] for row in made.validation if "question" in row)


def test_letters_are_balanced_in_the_benchmark_and_one_sided_in_the_exam() -> None:
    from planner.tasks import make

    made = make("choice5")
    right = Counter(row["answer"] for row in made.validation)
    assert max(right[c] for c in "ABC") - min(right[c] for c in "ABC") <= 2
    exam = Counter(row["correct"] for row in made.files["exam.csv"])
    assert exam["A"] / exam.total() > 0.55
    wrong = sum(made.truth[normalise(row["exercise"])] != row["key"] for row in made.files["workbook.jsonl"])
    assert wrong == 0


def test_replies_of_the_panel_disagree() -> None:
    from planner.tasks import make

    said: dict[str, set[str]] = {}
    for row in make("choice5").files["panel.jsonl"]:
        said.setdefault(row["messages"][0]["content"], set()).add(row["messages"][1]["content"][-1])
    assert 0.2 < sum(len(letters) > 1 for letters in said.values()) / len(said) < 0.7


def test_journals_are_too_long_and_notes_leave_changes_out() -> None:
    from planner.tasks import make

    made = make("chains5")
    lengths = sorted(len(row["completion"]) for row in made.files["journal.jsonl"])
    assert lengths[0] > 2 * 64, "more characters than 64 tokens of prose have"
    notes = made.files["notes.csv"]
    found = [equations(row["working"]) for row in notes]
    assert all(holds for row in found for _, _, holds in row)
    wrong = [row["working"].rpartition("=")[2] != made.truth[normalise(row["task"])] for row in notes]
    assert 0.4 < sum(wrong) / len(wrong) < 0.9
