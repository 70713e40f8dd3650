"""Scores on disk: results on unseen validation items lie beside the others, in `sealed/` only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.layout import RunFolder
from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.runs.journal import (
    baseline_score,
    experiment_score,
    further_scores_file,
    keep_score,
    other_scores,
    score_file,
    shown_score,
    unseen_scores_file,
    whole_score,
    whole_scores,
)
from tuneloop.tools.statistics import compare

SECRET = "only evaluation jobs read this"


def result(name: str, text: str, *, correct: bool) -> ItemResult:
    return ItemResult(id=name, prediction=text, parsed="1", answer="1", correct=correct)


def halved(benchmark: str, right: int = 4, n: int = 10) -> Score:
    """Half of the items is unseen; the first of both halves are right."""
    seen = tuple(result(f"seen-{i}", "shown", correct=i < right) for i in range(n // 2))
    hidden = tuple(result(f"hidden-{i}", SECRET, correct=i < right) for i in range(n // 2))
    return Score(
        benchmark=benchmark, split="validation", metric="accuracy", value=200 * right / n, low=0, high=100, n=n, parsed=100,
        measured_with="here", items=seen, unseen=hidden,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "r")


def test_unseen_items_are_in_sealed_only(run: RunFolder) -> None:
    file = run.experiment(1).scores
    kept = keep_score(file, [halved("first"), halved("second", right=1)])
    assert kept == halved("first")
    sealed = {unseen_scores_file(file, name) for name in ("first", "second")}
    assert {path.parent.name for path in sealed} == {"sealed"}
    for path in run.root.rglob("*.json"):
        text = path.read_text()
        assert (SECRET in text, "hidden-" in text) == (path in sealed,) * 2, path
    assert all(path.is_file() for path in sealed)


def test_whole_score_has_every_item_and_shown_score_has_not(run: RunFolder) -> None:
    file = run.experiment(1).scores
    keep_score(file, [halved("first"), halved("second", right=1)])
    assert whole_score(file) == halved("first")
    assert whole_score(further_scores_file(file, "second"), file) == halved("second", right=1)
    assert whole_scores(file, ["second"]) == {"second": halved("second", right=1)}
    assert other_scores(file, ["second"]) == {"second": halved("second", right=1).bare}
    seen = shown_score(file)
    assert [item.id for item in seen.items] == [f"seen-{i}" for i in range(5)]
    assert seen.unseen == ()
    assert (seen.n, seen.value) == (10, 80), "the numbers are those of all items"


def test_shown_score_cannot_be_compared(run: RunFolder) -> None:
    """What agents see is no ground for a decision: half of the items would be missing silently."""
    for number, right in ((0, 2), (1, 4)):
        keep_score(score_file(run, number), [halved("first", right=right)])
    seen, whole = shown_score(score_file(run, 1)), experiment_score(run, 0)
    for pair in ((seen, whole), (whole, seen), (seen, seen), (seen, baseline_score(run))):
        with pytest.raises(ValueError, match="not of the same items"):
            compare(*pair)  # type: ignore[arg-type]
    assert compare(experiment_score(run, 1), whole).gain == pytest.approx(40)


def test_a_dump_never_holds_unseen_items() -> None:
    score = halved("first")
    for dumped in (score.model_dump_json(), str(score.model_dump()), str(score.model_dump(mode="json"))):
        assert SECRET not in dumped and "hidden-" not in dumped
    assert score.bare.every == ()
    assert len(score.every) == 10


def test_without_unseen_items_nothing_is_sealed(run: RunFolder) -> None:
    score = halved("first")
    every = score.model_copy(update={"items": score.every, "unseen": ()})
    file = run.experiment(1).scores
    keep_score(file, [every])
    assert not unseen_scores_file(file, "first").exists()
    assert whole_score(file) == shown_score(file) == every


def test_sealed_results_are_written_before_the_proof(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scores.json` says that a measurement is whole: a kill before it leaves no half of one that counts."""
    from tuneloop.tools.runs import journal

    written: list[Path] = []
    monkeypatch.setattr(journal, "write_json", lambda path, _: written.append(path))
    file = run.experiment(1).scores
    keep_score(file, [halved("first"), halved("second")])
    assert written[-1] == file
    assert set(written[:-1]) == {
        unseen_scores_file(file, "first"),
        unseen_scores_file(file, "second"),
        further_scores_file(file, "second"),
    }
