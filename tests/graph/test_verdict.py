"""The decision on an experiment, made from what lies in the run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prepared import prepared
from tests.tools.compare.worlds import score
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.core.run import RunSpec
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.core.setup import Placed
from tuneloop.graph.context import Context
from tuneloop.graph.foresight import foreseen, visible
from tuneloop.graph.state import State
from tuneloop.graph.verdict import divisor, guards, verdict
from tuneloop.tools.benchmarks import resolve
from tuneloop.tools.runs.journal import keep

N = 1000


def known(name: str, right: int) -> Score:
    """A score of which the first items are right."""
    return score([1.0] * right + [0.0] * (N - right), benchmark=name)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A run of two planned experiments whose guard is called otherwise than its folder; the base model is measured."""
    home = Home(tmp_path)
    found = resolve("wordproblems", home, None)
    spec = RunSpec.model_validate(
        {
            "benchmark": "wordproblems",
            "base_model": "tiny",
            "loop_n": 2,
            "guards": ["/my/task:-4"],
            "sandbox": "process",
        }
    )
    own = found.benchmark.model_copy(update={"name": "task"})
    placed = Placed(benchmark=own, root=found.root, fingerprint="-")
    run = prepared(home.run("r"), spec, found, tmp_path, also=[placed])
    keep(run.baseline / "scores.json", [known("wordproblems", 100), known("task", 500)])
    return Context(run, Settings.model_validate({"FT_FILE_PATH": tmp_path}), State(run_id="r", experiment=1))


def test_better_and_nothing_forgotten(ctx: Context) -> None:
    found = verdict(ctx, known("wordproblems", 150), {"task": known("task", 495)})
    assert found.accepted
    assert found.comparison.candidates == 2
    assert [check.benchmark for check in found.guards] == ["task"]


def test_better_at_the_cost_of_another_skill(ctx: Context) -> None:
    found = verdict(ctx, known("wordproblems", 150), {"task": known("task", 440)})
    assert found.comparison.accepted
    assert not found.accepted
    assert found.reasons[0].startswith("task: lost 6.0 points on 1000 items")


def test_the_next_candidate_is_held_against_the_incumbent_but_its_losses_against_the_base(ctx: Context) -> None:
    folder = ctx.run.experiment(1)
    keep(folder.scores, [known("wordproblems", 150), known("task", 480)])
    critic = Critique(explanation="", lesson="")
    idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="first")
    closed = Experiment(
        number=1, hypothesis=idea, score=known("wordproblems", 150), feedback=Feedback(accepted=True, critique=critic)
    )
    write_json(folder.result, closed.model_dump(mode="json"))
    found = verdict(ctx, known("wordproblems", 150), {"task": known("task", 440)})
    assert [reason.partition(":")[0] for reason in found.reasons] == ["no better than the incumbent", "task"]
    assert found.guards[0].loss == pytest.approx(6)


def test_what_can_be_shown_is_said_before_anything_is_measured(ctx: Context) -> None:
    said = foreseen(ctx)
    assert (said.decides.benchmark, said.decides.n, said.decides.units) == ("wordproblems", 200, 200)
    assert [(seen.benchmark, seen.allowed) for seen in said.guards] == [("task", 4)]
    assert said.guards[0].smallest > 4, "200 items cannot show it"
    assert 0 < visible(ctx, known("wordproblems", 100)) < said.decides.smallest
    assert divisor(ctx) == 2
    assert [str(guard) for guard in guards(ctx)] == ["task:-4"]
