"""Candidates for the sealed test: the best of all trainings of the last two promoted recipes, with written scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import prepared, wordproblems
from tests.tools.statistics.worlds import score
from tuneloop.core.directive import Directive, Finish
from tuneloop.core.directive_log import append_row
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import RecipeFailure
from tuneloop.core.experiment import Candidate, Candidates, Critique, Experiment, Feedback, Hypothesis, Training
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import PlacedBenchmark, RunSpec
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import evaluate, extra_seeds
from tuneloop.graph.nodes.evaluate import remeasure_references
from tuneloop.graph.nodes.extra_seeds import best_training, candidate_folder, choose_candidate
from tuneloop.graph.state import State
from tuneloop.tools.evaluation.cache import EvaluationPlan, write_plan
from tuneloop.tools.housekeeping.pruning import read_note
from tuneloop.tools.runs.journal import keep_score, score_file, shown_score, unseen_scores_file

N = 200
HERE, ELSEWHERE = "this device", "another device"


def right(found: Candidates) -> dict[int, list[int]]:
    """Items that each training of a recipe has right."""
    return {number: [round(value * N / 100) for value in values] for number, values in found.values.items()}


def known(right: int, benchmark: str = "wordproblems", measured_with: str = HERE) -> Score:
    """A score of which the first items are right."""
    return score([1.0] * right + [0.0] * (N - right), benchmark=benchmark, measured_with=measured_with)


def run_of(
    tmp_path: Path, experiments: Sequence[tuple[int, bool]], trainings: int, guarded: bool = False, **asked: Any
) -> Context:
    """A run whose experiments (items that are right, promoted) are over; a training took 100 s."""
    home = Home(tmp_path)
    found = wordproblems(home)
    guard = PlacedBenchmark(
        benchmark=found.benchmark.model_copy(update={"name": "task"}), root=found.root, fingerprint="-"
    )
    values = {"benchmark": "wordproblems", "base_model": "tiny", "seeds": trainings, **asked}
    spec = RunSpec.model_validate({**values, "guards": ["/my/task:-4"] if guarded else []})
    run = prepared(home.run("r"), spec, found, tmp_path, also=[guard] if guarded else [])
    ctx = Context(
        run, Settings.model_validate({"FT_FILE_PATH": tmp_path}), State(run_id="r", experiment=len(experiments))
    )
    write(ctx, Candidate(experiment=0), 20, 100)
    for number, (right, promoted) in enumerate(experiments, 1):
        write(ctx, Candidate(experiment=number), right, 100)
        folder = run.experiment(number)
        done = Experiment(
            number=number,
            hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
            score=known(right).bare,
            feedback=Feedback(promoted=promoted, critique=Critique(explanation="", lesson="")),
        )
        write_json(folder.result, done.model_dump(mode="json"))
        took = Training(steps=9, seconds=100, rows=9, first_loss=2, last_loss=1, tail_slope=0, method="full")
        write_json(folder.training, took.model_dump(mode="json"))
    return ctx


def write(ctx: Context, one: Candidate, right: int, kept: int) -> None:
    """Weights and scores, also of the guard."""
    folder = candidate_folder(ctx, one) if one.experiment else None
    if folder is not None:
        write_json(folder.model / "model.safetensors", "weights")
    keep_score(folder.scores if folder else score_file(ctx.run, 0), [known(right), known(kept, "task")])


def problems(ctx: Context) -> list[RecipeFailure]:
    """What was told."""
    return [event for event in iter_events(ctx.run.events) if isinstance(event, RecipeFailure)]


class Trainings:
    """Stands for real ones: what each further training measures, or what it raises; which were made."""

    def __init__(self, found: dict[tuple[int, int], Any], kept: int = 100) -> None:
        self.found, self.kept, self.made = found, kept, list[tuple[int, int]]()

    def __call__(self, ctx: Context) -> None:
        here = (ctx.state.experiment, ctx.run.training)
        self.made.append(here)
        found = self.found[here]
        if isinstance(found, BaseException):
            raise found
        write(ctx, Candidate(experiment=here[0], training=here[1]), found, self.kept)


@pytest.fixture(autouse=True)
def measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (evaluate, extra_seeds):
        monkeypatch.setattr(module, "measuring_conditions", lambda _: HERE)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trainings]:
    def patched(found: dict[tuple[int, int], Any], kept: int = 100) -> Trainings:
        made = Trainings(found, kept)
        monkeypatch.setattr(extra_seeds, "train_and_measure", made)
        return made

    return patched


def weights(ctx: Context) -> set[tuple[int, int]]:
    """(experiment, training) of those whose weights are there."""
    places = {
        (e, t): candidate_folder(ctx, Candidate(experiment=e, training=t)) for e in range(1, 5) for t in range(1, 5)
    }
    return {one for one, folder in places.items() if (folder.model / "model.safetensors").is_file()}


THREE = ((50, True), (60, True), (55, False))


def test_best_of_all_trainings_is_chosen(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    """Also one of the recipe before the incumbent's."""
    ctx = run_of(tmp_path, THREE, trainings=3)
    made = train({(2, 2): 58, (2, 3): 63, (1, 2): 70, (1, 3): 40})
    found = choose_candidate(ctx)
    assert found.chosen == Candidate(experiment=1, training=2)
    assert right(found) == {2: [60, 58, 63], 1: [50, 70, 40]}
    assert made.made == [(2, 2), (2, 3), (1, 2), (1, 3)], "of the last two that were promoted, the incumbent first"


def test_only_the_last_two_promoted_recipes_are_trained_again(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, ((40, True), (50, True), (45, False), (60, True)), trainings=2)
    made = train({(4, 2): 1, (2, 2): 1})
    assert choose_candidate(ctx).chosen == Candidate(experiment=4)
    assert made.made == [(4, 2), (2, 2)]


def test_tie_stays_with_the_incumbent(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=3)
    train({(2, 2): 60, (2, 3): 60, (1, 2): 60, (1, 3): 59})
    assert choose_candidate(ctx).chosen == Candidate(experiment=2)


def test_weights_of_losers_go_and_those_of_the_chosen_stay(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=4)
    train({(2, 2): 61, (2, 3): 59, (2, 4): 64, (1, 2): 62, (1, 3): 66, (1, 4): 66})
    assert choose_candidate(ctx).chosen == Candidate(experiment=1, training=3)
    own = {(1, 1), (2, 1), (3, 1)}
    assert weights(ctx) == {*own, (1, 3)}, (
        "what one beat goes when a better one is there; experiments have their own rule"
    )
    assert read_note(candidate_folder(ctx, Candidate(experiment=2, training=4))).rule == "seeds"


def test_one_training_each_is_the_incumbent_alone(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    made = train({})
    assert choose_candidate(ctx) == Candidates(chosen=Candidate(experiment=2), values={})
    assert made.made == []


def test_nothing_promoted_is_no_candidate(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, ((10, False),), trainings=3)
    made = train({})
    assert choose_candidate(ctx) == Candidates()
    assert made.made == []


def test_second_call_finds_the_decision(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2)
    made = train({(2, 2): 58, (1, 2): 70})
    first = choose_candidate(ctx)
    assert read_json(ctx.run.candidates)["chosen"] == {"experiment": 1, "training": 2}
    made.found = {}
    assert choose_candidate(ctx) == first
    assert made.made == [(2, 2), (1, 2)]


def test_interrupted_contest_decides_alike_and_trains_once(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    """A kill in the last training: earlier ones are there, weights of losers are gone."""
    found = {(2, 2): 61, (2, 3): 64, (1, 2): 62, (1, 3): 63}
    ctx = run_of(tmp_path, THREE, trainings=3)
    made = train({**found, (1, 3): KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        choose_candidate(ctx)
    assert not ctx.run.candidates.is_file()
    assert weights(ctx) == {(1, 1), (2, 1), (3, 1), (2, 3)}
    made.found, made.made = {(1, 3): 63}, []
    again = choose_candidate(ctx)
    assert made.made == [(1, 3)]
    assert again.chosen == Candidate(experiment=2, training=3)
    assert right(again) == {2: [60, 61, 64], 1: [50, 62, 63]}


def test_training_whose_weights_are_gone_is_not_chosen(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    """Something else removed them: there would be nothing to deliver."""
    ctx = run_of(tmp_path, THREE, trainings=2)
    write(ctx, Candidate(experiment=2, training=2), 90, 100)
    (candidate_folder(ctx, Candidate(experiment=2, training=2)).model / "model.safetensors").unlink()
    train({(1, 2): 61})
    found = choose_candidate(ctx)
    assert found.chosen == Candidate(experiment=1, training=2)
    assert right(found) == {2: [60, 90], 1: [50, 61]}


def test_guard_holds_for_further_trainings(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2, guarded=True)
    train({(2, 2): 90, (1, 2): 95}, kept=80)
    found = choose_candidate(ctx)
    assert found.chosen == Candidate(experiment=2), "both lost ten points of the guard"
    assert right(found) == {2: [60, 90], 1: [50, 95]}


def test_time_that_is_over_ends_it(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    """Another training takes 100 s as the first did; a margin is kept."""
    ctx = run_of(tmp_path, THREE, trainings=2, timeout=119)
    made = train({})
    assert choose_candidate(ctx) == Candidates(chosen=Candidate(experiment=2), values={2: (30,), 1: (25,)})
    assert made.made == []


def test_time_of_the_first_recipe_is_not_given_to_the_second_again(
    tmp_path: Path, train: Callable[..., Trainings], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    ctx = replace(run_of(tmp_path, THREE, trainings=2, timeout=200), began=now[0])
    monkeypatch.setattr("tuneloop.graph.context.time.monotonic", lambda: now[0])
    left: list[float | None] = []

    def training(here: Context) -> None:
        left.append(here.seconds_left(here.worked))
        now[0] += 100
        write(here, Candidate(experiment=here.state.experiment, training=2), 10, 100)

    monkeypatch.setattr(extra_seeds, "train_and_measure", training)
    assert right(choose_candidate(ctx)) == {2: [60, 10], 1: [50]}, "100 s are left for it, 120 s are wanted"
    assert left == [200]


@pytest.mark.parametrize(
    ("culprit", "made"), [("environment", [(2, 2), (1, 2)]), ("config", [(2, 2), (2, 3), (1, 2), (1, 3)])]
)
def test_training_that_fails_costs_no_candidate(
    tmp_path: Path, train: Callable[..., Trainings], culprit: Any, made: list[tuple[int, int]]
) -> None:
    ctx = run_of(tmp_path, THREE, trainings=3)
    failed = RecipeError("loss is NaN", culprit=culprit)
    trainings = train({(2, 2): failed, (2, 3): 59, (1, 2): 66, (1, 3): 61})
    found = choose_candidate(ctx)
    assert found.chosen == Candidate(experiment=1, training=2)
    (said,) = problems(ctx)
    assert (said.experiment, said.node, said.culprit, said.text) == (2, "finish", culprit, "loss is NaN")
    assert trainings.made == ([(2, 2), (1, 2), (1, 3)] if culprit == "environment" else made)


def test_finish_request_stops_further_trainings(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=3)
    append_row(ctx.run.directives, Directive(id="1", text="finish", command=Finish()))
    made = train({})
    assert choose_candidate(ctx).chosen == Candidate(experiment=2)
    assert made.made == []


def test_training_that_time_cut_short_keeps_no_weights(tmp_path: Path, train: Callable[..., Trainings]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2)
    cut = candidate_folder(ctx, Candidate(experiment=2, training=2))
    write_json(cut.model / "model.safetensors", "half of a training")
    train({(2, 2): RecipeError("the run's time was over during train", culprit="environment"), (1, 2): 1})
    assert choose_candidate(ctx).chosen == Candidate(experiment=2)
    assert weights(ctx) == {(1, 1), (2, 1), (3, 1)}


# --- measured alike ------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of what was measured, here, and found one item better than written."""
    asked: list[int] = []

    def measure(ctx: Context, number: int) -> list[Score]:
        asked.append(number)
        before = shown_score(score_file(ctx.run, number))
        return [known(round(before.value * N / 100) + 1), known(100, "task")]

    monkeypatch.setattr(evaluate, "measure_experiment", measure)
    return asked


def elsewhere(ctx: Context, *numbers: int) -> None:
    """These were measured under other conditions."""
    for number in numbers:
        before = shown_score(score_file(ctx.run, number))
        keep_score(score_file(ctx.run, number), [before.model_copy(update={"measured_with": ELSEWHERE})])


def test_same_conditions_measure_nothing_again(tmp_path: Path, measured: list[int]) -> None:
    remeasure_references(run_of(tmp_path, THREE, trainings=1))
    assert measured == []


def test_incumbent_and_base_are_measured_again_under_other_conditions(tmp_path: Path, measured: list[int]) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    elsewhere(ctx, 0, 1, 2, 3)
    remeasure_references(ctx)
    assert measured == [0, 2], "experiments 1 and 3 are compared with nothing any more"
    assert [shown_score(score_file(ctx.run, n)).measured_with for n in range(4)] == [HERE, ELSEWHERE, HERE, ELSEWHERE]
    remeasure_references(ctx)
    assert measured == [0, 2]


def test_only_what_was_measured_elsewhere_is_measured_again(tmp_path: Path, measured: list[int]) -> None:
    """A kill between both: the base is done."""
    ctx = run_of(tmp_path, THREE, trainings=1)
    elsewhere(ctx, 2)
    remeasure_references(ctx)
    assert measured == [2]


def test_base_alone_is_measured_again_while_nothing_was_promoted(tmp_path: Path, measured: list[int]) -> None:
    ctx = run_of(tmp_path, ((10, False),), trainings=1)
    elsewhere(ctx, 0, 1)
    remeasure_references(ctx)
    assert measured == [0]


def test_candidate_is_measured_after_what_it_is_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, asked = run_of(tmp_path, THREE, trainings=1), list[int]()
    ctx.folder.scores.unlink()
    write_plan(ctx.folder.root, EvaluationPlan({}, {}))
    elsewhere(ctx, 0, 2)
    found = {0: 20, 2: 60, 3: 77}

    def measure(_: Context, number: int) -> list[Score]:
        asked.append(number)
        return [known(found[number]), known(100, "task")]

    monkeypatch.setattr(evaluate, "measure_experiment", measure)
    for _ in range(2):
        assert evaluate.evaluate(ctx) == {"stage": "critique"}
    assert asked == [0, 2, 3], "what is measured stays as it is"
    assert shown_score(ctx.folder.scores).value == 38.5


def test_incumbent_is_measured_again_before_further_seeds(
    tmp_path: Path, measured: list[int], train: Callable[..., Trainings]
) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2)
    elsewhere(ctx, 0, 2)
    train({(2, 2): 61, (1, 2): 5})
    assert best_training(ctx).chosen == Candidate(experiment=2), "61 items are no more than the incumbent's own here"
    assert measured == [0, 2]


def test_no_time_to_measure_alike_leaves_the_incumbent(
    tmp_path: Path, train: Callable[..., Trainings], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2)
    elsewhere(ctx, 2)

    def over(*_: object) -> list[Score]:
        raise RecipeError("the run's time was over during evaluate", culprit="environment")

    monkeypatch.setattr(evaluate, "measure_experiment", over)
    made = train({})
    assert best_training(ctx) == Candidates(chosen=Candidate(experiment=2))
    assert made.made == []
    again, over_now = problems(ctx)
    assert again.text == "experiment 2 is measured again: the engine or device changed"
    assert (over_now.culprit, over_now.text) == ("environment", "the run's time was over during evaluate")


def test_unmeasurable_incumbent_does_not_blame_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses the run; time that is over ends it instead, or it would pause for ever."""
    ctx = run_of(tmp_path, THREE, trainings=1)
    elsewhere(ctx, 2)

    def fail(*_: object) -> list[Score]:
        raise RecipeError("the model does not load", culprit="config")

    monkeypatch.setattr(evaluate, "measure_experiment", fail)
    with pytest.raises(InfrastructureError, match="experiment 2 could not be measured again: the model does not load"):
        remeasure_references(ctx)

    def over(*_: object) -> list[Score]:
        raise RecipeError("the run's time was over during evaluate", culprit="environment")

    monkeypatch.setattr(evaluate, "measure_experiment", over)
    with pytest.raises(RecipeError, match="time was over"):
        remeasure_references(ctx)


def test_score_without_its_unseen_half_is_measured_again(tmp_path: Path, measured: list[int]) -> None:
    """A kill between both files of a second measurement."""
    ctx = run_of(tmp_path, THREE, trainings=1)
    whole = known(60)
    half = whole.model_copy(update={"items": whole.items[:100], "unseen": whole.items[100:]})
    keep_score(score_file(ctx.run, 2), [half])
    remeasure_references(ctx)
    assert measured == []
    write_json(unseen_scores_file(score_file(ctx.run, 2), "wordproblems"), {"measured_with": ELSEWHERE, "items": []})
    remeasure_references(ctx)
    assert measured == [2]


def test_training_that_was_measured_elsewhere_is_measured_again(
    tmp_path: Path, measured: list[int], train: Callable[..., Trainings]
) -> None:
    ctx = run_of(tmp_path, THREE, trainings=2)
    for one in (Candidate(experiment=2, training=2), Candidate(experiment=1, training=2)):
        write(ctx, one, 90, 100)
        keep_score(candidate_folder(ctx, one).scores, [known(90, measured_with=ELSEWHERE)])
    (candidate_folder(ctx, Candidate(experiment=1, training=2)).model / "model.safetensors").unlink()
    made = train({(2, 2): 55})
    found = choose_candidate(ctx)
    assert made.made == [(2, 2)], "what has no weights cannot be measured"
    assert found.chosen == Candidate(experiment=2)
    assert right(found) == {2: [60, 55], 1: [50]}, "a score under other conditions is left out"
