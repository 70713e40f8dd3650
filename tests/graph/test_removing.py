"""What a user asked to delete goes after a yes; what the run stands on does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuneloop.core.directive_log import read_directives
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import hear
from tuneloop.graph.removing import numbers
from tuneloop.graph.state import State
from tuneloop.tools.pruning import check_there, read_note
from tuneloop.tools.runs.manifest import write_manifest


@pytest.fixture
def ctx(make_long_run: Callable[..., RunFolder]) -> Context:
    """Nine experiments, of which the seventh was promoted; every model holds a little."""
    settings = load_settings()
    run = settings.home.run("d")
    run.root.mkdir(parents=True)
    make_long_run(run, experiments=9, progress=1)
    write_manifest(run, RunSpec(benchmark="b", base_model="m", loop_n=12))
    for number in range(1, 10):
        write_json(run.experiment(number).model / "model.safetensors", "weights of " + str(number))
    run.setup.unlink()
    return Context(run, settings, State(run_id="d", experiment=10))


def weights(ctx: Context, number: int) -> bool:
    return (ctx.run.experiment(number).model / "model.safetensors").is_file()


def test_weights_go_after_a_yes_and_evidence_stays(ctx: Context) -> None:
    assert "say yes" in hear(ctx, "1", "delete the weights of experiment 2").text
    assert weights(ctx, 2)
    assert "weights are removed" in hear(ctx, "2", "yes").text
    assert not weights(ctx, 2)
    assert ctx.run.experiment(2).result.is_file()
    assert [d.state for d in read_directives(ctx.run.directives)] == ["done"]
    with pytest.raises(RecipeError, match="the user's wish"):
        check_there(ctx.run.experiment(2))


def test_a_no_and_silence_remove_nothing(ctx: Context) -> None:
    hear(ctx, "1", "delete experiment 2")
    hear(ctx, "2", "no")
    hear(ctx, "3", "delete experiment 3")
    assert weights(ctx, 2) and weights(ctx, 3)


@pytest.mark.parametrize(
    ("said", "why"),
    [("delete experiment 7", "the best so far"), ("delete experiment 12", "no experiment 12")],
)
def test_what_is_needed_or_not_there_is_refused_at_once(ctx: Context, said: str, why: str) -> None:
    assert why in hear(ctx, "1", said).text
    assert not read_directives(ctx.run.directives)
    assert weights(ctx, 7)


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("the weights of experiment 2", (2,)),
        ("experiments 2, 3 and 5", (2, 3, 5)),
        ("experiment 4's weights", (4,)),
        ("all weights except experiment 2", ()),
        ("everything but experiments 2 and 3", ()),
        ("experiment 2 unless it is the best", ()),
    ],
)
def test_experiments_are_named_and_nothing_else_is_said(what: str, named: tuple[int, ...]) -> None:
    assert numbers(what) == named


def test_what_became_the_best_before_the_yes_stays(ctx: Context) -> None:
    hear(ctx, "1", "delete experiment 2")
    better = ctx.run.experiment(7).result.read_text().replace('"number":7', '"number":2')
    ctx.run.experiment(2).result.write_text(better)
    for number in range(3, 10):
        ctx.run.experiment(number).result.unlink()
    assert "Nothing was removed" in hear(ctx, "2", "yes").text
    assert weights(ctx, 2)
    assert not read_note(ctx.run.experiment(2)).weights


def test_what_a_run_does_not_remove_is_told_how(ctx: Context) -> None:
    hear(ctx, "1", "delete the run")
    assert "tuneloop clean d" in hear(ctx, "2", "yes").text
