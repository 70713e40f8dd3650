"""`delete` removes weights after a yes, never those that the run stands on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.steering.message_handler import handle
from tuneloop.tools.housekeeping.pruning import check_there, read_note
from tuneloop.tools.runs.journal import open_hypotheses
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


def has_weights(ctx: Context, number: int) -> bool:
    return (ctx.run.experiment(number).model / "model.safetensors").is_file()


def test_weights_are_removed_after_a_yes_and_evidence_stays(ctx: Context) -> None:
    assert "say yes" in handle(ctx, "1", "delete 2").text.lower()
    assert has_weights(ctx, 2)
    assert "weights are removed" in handle(ctx, "2", "yes").text
    assert not has_weights(ctx, 2)
    assert ctx.run.experiment(2).result.is_file()
    with pytest.raises(RecipeError, match="the user's command"):
        check_there(ctx.run.experiment(2))


def test_no_and_silence_remove_nothing(ctx: Context) -> None:
    handle(ctx, "1", "delete 2")
    handle(ctx, "2", "no")
    handle(ctx, "3", "delete 3")
    assert has_weights(ctx, 2) and has_weights(ctx, 3)


@pytest.mark.parametrize(("text", "reason"), [("delete 7", "the best so far"), ("delete 2,12", "experiment 12 is not")])
def test_needed_or_missing_experiments_are_refused(ctx: Context, text: str, reason: str) -> None:
    assert reason in handle(ctx, "1", text).text
    assert read_conversation(ctx.run.conversation)[-1].refused
    assert has_weights(ctx, 7) and has_weights(ctx, 2)


def test_what_the_open_experiment_builds_on_stays_until_it_is_over(ctx: Context) -> None:
    idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="method", parent=2)
    write_json(ctx.folder.hypothesis, idea.model_dump(mode="json"))
    assert "experiment 10, which is open, builds on experiment 2" in handle(ctx, "1", "delete 2").text
    assert "say yes" in handle(ctx, "2", "delete 3").text.lower()
    write_json(ctx.folder.result, {})
    assert open_hypotheses(ctx.run) == {}


def test_what_coming_experiments_may_build_on_stays(ctx: Context) -> None:
    """Beside others the next idea does not know that the seventh was promoted."""
    better = ctx.run.experiment(7).result.read_text().replace('"number":7', '"number":2')
    ctx.run.experiment(2).result.write_text(better)
    write_manifest(ctx.run, RunSpec(benchmark="b", base_model="m", loop_n=12, parallel=2))
    found = Context(ctx.run, ctx.settings, ctx.state)
    assert "say yes" in handle(found, "1", "delete 2").text.lower(), "the next idea knows 1 to 7"
    write_manifest(ctx.run, RunSpec(benchmark="b", base_model="m", loop_n=12, parallel=3))
    found = Context(ctx.run, ctx.settings, ctx.state)
    assert "may build on experiment 2" in handle(found, "2", "delete 2").text
    assert has_weights(ctx, 2)


def test_experiment_that_became_the_best_before_the_yes_stays(ctx: Context) -> None:
    handle(ctx, "1", "delete 2")
    better = ctx.run.experiment(7).result.read_text().replace('"number":7', '"number":2')
    ctx.run.experiment(2).result.write_text(better)
    for number in range(3, 10):
        ctx.run.experiment(number).result.unlink()
    assert "Nothing was removed" in handle(ctx, "2", "yes").text
    assert has_weights(ctx, 2)
    assert not read_note(ctx.run.experiment(2)).weights
