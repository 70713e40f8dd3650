"""The decision on an experiment, made from what lies in the run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prepared import prepared, wordproblems
from tests.tools.statistics.worlds import score
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import PlacedBenchmark, RunSpec
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.promotion import (
    decide_candidate,
    describe_validation,
    estimate_power,
    guard_specs,
    incumbent,
)
from tuneloop.graph.state import State
from tuneloop.tools.benchmark_items.folder import ValidationSize
from tuneloop.tools.evaluation.run_evaluation import validation_sets
from tuneloop.tools.runs.journal import keep_score

N = 1000


def known(name: str, right: int) -> Score:
    """A score of which the first items are right."""
    return score([1.0] * right + [0.0] * (N - right), benchmark=name)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A run of two planned experiments whose guard is called otherwise than its folder; the base model is measured."""
    home = Home(tmp_path)
    found = wordproblems(home)
    spec = RunSpec.model_validate(
        {
            "benchmark": "wordproblems",
            "base_model": "tiny",
            "loop_n": 2,
            "guards": ["/my/task:-4"],
            "sandbox": "bubblewrap",
        }
    )
    own = found.benchmark.model_copy(update={"name": "task"})
    placed = PlacedBenchmark(benchmark=own, root=found.root, fingerprint="-")
    run = prepared(home.run("r"), spec, found, tmp_path, also=[placed])
    keep_score(run.baseline / "scores.json", [known("wordproblems", 100), known("task", 500)])
    return Context(run, Settings.model_validate({"FT_FILE_PATH": tmp_path}), State(run_id="r", experiment=1))


def close(ctx: Context, number: int, right: int, *, promoted: bool) -> None:
    """An experiment that is over."""
    folder = ctx.run.experiment(number)
    keep_score(folder.scores, [known("wordproblems", right), known("task", 480)])
    closed = Experiment(
        number=number,
        hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
        score=known("wordproblems", right).bare,
        feedback=Feedback(promoted=promoted, critique=Critique(explanation="", lesson="")),
    )
    write_json(folder.result, closed.model_dump(mode="json"))


def test_better_and_nothing_forgotten(ctx: Context) -> None:
    found = decide_candidate(ctx, known("wordproblems", 150), {"task": known("task", 495)})
    assert found.promoted
    assert found.comparison.gain == pytest.approx(5)
    assert [check.benchmark for check in found.guards] == ["task"]


def test_one_item_more_is_promoted_and_a_tie_is_not(ctx: Context) -> None:
    same = {"task": known("task", 500)}
    assert decide_candidate(ctx, known("wordproblems", 101), same).promoted
    tie = decide_candidate(ctx, known("wordproblems", 100), same)
    assert not tie.promoted
    assert tie.reasons[0].startswith("no better than the incumbent: +0.0 points (95 %: ")
    other = score([0.0] * 900 + [1.0] * 100, benchmark="wordproblems")
    assert not decide_candidate(ctx, other, same).promoted, "as many items, but others: a tie too"


def test_better_at_the_cost_of_another_skill(ctx: Context) -> None:
    found = decide_candidate(ctx, known("wordproblems", 150), {"task": known("task", 440)})
    assert found.comparison.better
    assert not found.promoted
    assert found.reasons[0].startswith("task: lost 6.0 points on 1,000 items")


def test_gain_is_against_incumbent_and_regression_against_base(ctx: Context) -> None:
    assert incumbent(ctx) == 0
    close(ctx, 1, 150, promoted=True)
    found = decide_candidate(ctx, known("wordproblems", 150), {"task": known("task", 440)})
    assert [reason.partition(":")[0] for reason in found.reasons] == ["no better than the incumbent", "task"]
    assert found.guards[0].loss == pytest.approx(6)


def test_what_a_guard_turned_down_is_not_the_incumbent(ctx: Context) -> None:
    close(ctx, 1, 150, promoted=True)
    close(ctx, 2, 300, promoted=False)
    assert incumbent(ctx) == 1
    assert decide_candidate(ctx, known("wordproblems", 151), {"task": known("task", 500)}).promoted


def test_number_of_experiments_changes_no_decision(ctx: Context) -> None:
    """No share of alpha: the twentieth candidate needs no more than the first."""
    for number in range(1, 20):
        close(ctx, number, 50, promoted=False)
    assert decide_candidate(ctx, known("wordproblems", 101), {"task": known("task", 500)}).promoted


def test_power_of_sealed_test_is_told_first(ctx: Context) -> None:
    said = estimate_power(ctx).sealed
    assert (said.benchmark, said.n, said.units) == ("wordproblems", 500, 500)
    assert 4 < said.smallest < 9
    assert [str(guard) for guard in guard_specs(ctx)] == ["task:-4"]


def test_chosen_validation_tells_halves_and_what_guards_can_rule_out(ctx: Context) -> None:
    for limit in (100, 400):
        said = describe_validation(ctx, ValidationSize(limit, "as asked"), validation_sets(ctx.run_tools, limit))
        assert (said.benchmark, said.n, said.units, said.why) == ("wordproblems", limit, limit, "as asked")
        assert 0.35 * limit < said.unseen < 0.65 * limit
        assert [(seen.benchmark, seen.n, seen.allowed) for seen in said.guards] == [("task", limit, 4)]
        assert said.guards[0].smallest > 4, "so few items cannot show it"
    assert describe_validation(ctx, ValidationSize(99, "as asked"), validation_sets(ctx.run_tools, 99)).unseen == 0
