"""Other evidence, other recipe: the researcher changes what the evidence blames and never repeats itself."""

from __future__ import annotations

import random

import pytest

from tuneloop.agents.policy.data_plan import find_step, plan_fingerprint, with_step
from tuneloop.agents.policy.script_composer import FORM
from tuneloop.core.brief import BudgetLeft, IdeaUnderWay, JournalRow
from tuneloop.core.directive import Bound
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import EarlyStop, Training


def training(**changes):
    values = {"steps": 640, "seconds": 60.0, "rows": 1500, "first_loss": 3.0, "last_loss": 0.4, "tail_slope": -0.01}
    return Training(**{**values, "method": "full", **changes})


def does(hypothesis):
    return [step.do for step in hypothesis.data_plan]


def failures(count, prediction, parsed):
    row = {"prompt": "p", "prediction": prediction, "parsed": parsed, "answer": "7"}
    return {"items": [{"id": str(i), **row} for i in range(count)]}


def next_after(world, first, row=None, prefer=None, **answers):
    world.answers.update(answers)
    if prefer:
        world.prefer(prefer)
    row = row or world.row(1, first)
    return world.hypothesis(experiment=2, journal=(row,))


def test_first_recipe_checks_labels_and_speaks_the_benchmarks_form(messy):
    first = messy.hypothesis()
    assert first.aspect == "first" and first.parent is None
    assert {"drop_contradicted", "dedupe", "rewrite_equations", FORM} <= set(does(first))
    assert [s.options["file"] for s in first.data_plan if s.do == "use_source"] == ["book.csv"]
    assert first.training_plan["finetuning_type"] == "full"
    assert 400 <= first.training_plan["max_steps"] <= 640
    assert all(step.why for step in first.data_plan)


def test_unreadable_answers_are_answered_with_form(messy):
    first = messy.hypothesis()
    plan = tuple(s for s in first.data_plan if s.do != FORM)
    row = messy.row(1, first.model_copy(update={"data_plan": plan}), parsed=20.0, value=5.0)
    said = failures(20, "35 + 2 = 37", None)
    found = next_after(messy, first, row, "format.ask", evaluation_explain_failures=said)
    assert found.aspect == "format" and FORM in does(found) and found.parent == 1
    assert found.training_plan == first.training_plan


def test_replies_that_never_end_are_answered_with_shorter_solutions(messy):
    first = messy.hypothesis()
    capped = with_step(first.data_plan, "cap_length", "replies are short", question=400, solution=200)
    row = messy.row(1, first.model_copy(update={"data_plan": capped}), parsed=40.0, value=20.0)
    long = "and then we go on and on " * 60
    found = next_after(messy, first, row, "format.shorter", evaluation_explain_failures=failures(20, long, None))
    assert found.move == "format.shorter" and "never end" in found.reason
    cap = find_step(found.data_plan, "cap_length")
    assert cap is not None and cap.options["solution"] == 120
    short = with_step(first.data_plan, "cap_length", "replies are short", question=400, solution=40)
    moves = all_moves(messy, first.model_copy(update={"data_plan": short}), parsed=40.0, value=20.0)
    assert moves and "format.shorter" not in {move.kind for move in moves}


def test_noise_is_answered_with_stricter_filters(messy):
    first = messy.hypothesis()
    plan = tuple(s for s in first.data_plan if s.do not in ("drop_contradicted", "repair_from_key", "keep_agreed"))
    row = messy.row(1, first.model_copy(update={"data_plan": plan}), value=35.0, parsed=100.0)
    found = next_after(messy, first, row, "noise.check_labels")
    assert found.aspect == "noise" and "drop_contradicted" in does(found)


def test_an_unchecked_source_is_dropped_when_answers_are_wrong(messy):
    first = messy.hypothesis()
    forum = next(
        m for m in all_moves(messy, first) if m.aspect == "coverage" and any("forum" in str(s.options) for s in m.plan)
    )
    both = first.model_copy(update={"data_plan": forum.plan})
    row = messy.row(1, both, value=45.0, parsed=100.0, training=training(last_loss=0.3))
    found = next_after(messy, first, row, "noise.leave_out")
    assert found.aspect == "noise"
    assert all(s.options["file"] == "book.csv" for s in found.data_plan if s.do == "use_source") or any(
        "raw/forum.jsonl" in s.options.get("need_votes", []) for s in found.data_plan
    )


def all_moves(world, first, **changes):
    """Every move from a first experiment."""
    import asyncio

    from tuneloop.agents.policy.evidence import read_evidence
    from tuneloop.agents.policy.moves import Case
    from tuneloop.agents.policy.parameter_map import read_parameter_map
    from tuneloop.agents.policy.researcher import rule_moves
    from tuneloop.agents.policy.situation import read_situation

    async def find():
        row = world.row(1, first, **changes)
        situation = await read_situation(world.brief(journal=(row,)), world)
        return rule_moves(
            Case(situation, await read_evidence(situation.task, row, world), await read_parameter_map(world))
        )

    return asyncio.run(find())


def test_a_falling_loss_is_answered_with_more_steps(messy):
    first = messy.hypothesis()
    row = messy.row(1, first, value=60.0, training=training(tail_slope=-0.12, last_loss=0.8))
    found = next_after(messy, first, row, "underfit.longer")
    assert found.aspect == "underfit"
    assert found.training_plan["max_steps"] > 1.15 * first.training_plan["max_steps"]
    assert found.data_plan == first.data_plan


def test_no_time_for_more_steps_means_none(messy):
    first = messy.hypothesis()
    row = messy.row(1, first, value=60.0, training=training(tail_slope=-0.2, last_loss=0.8))
    budget = BudgetLeft(experiments_left=2, seconds_left=150, seconds_per_experiment=70, training_seconds=60)
    messy.prefer("underfit.longer")
    found = messy.hypothesis(experiment=2, journal=(row,), budget=budget)
    assert found.training_plan["max_steps"] <= first.training_plan["max_steps"]


def test_learned_by_heart_is_answered_with_less(messy):
    first = messy.hypothesis()
    row = messy.row(1, first, value=30.0, rows=500, training=training(last_loss=0.01, rows=500, tail_slope=0.0))
    found = next_after(messy, first, row, "overfit.fewer")
    assert found.aspect == "overfit"
    assert found.training_plan["max_steps"] < first.training_plan["max_steps"]


def test_few_rows_are_answered_with_coverage(messy):
    first = messy.hypothesis()
    row = messy.row(1, first, value=40.0, rows=60, training=training(rows=60, last_loss=0.8))
    found = next_after(messy, first, row, "coverage.also")
    assert found.aspect == "coverage"
    more = sum(s.do == "use_source" for s in found.data_plan) > sum(s.do == "use_source" for s in first.data_plan)
    assert more or len(found.data_plan) < len(first.data_plan)


def test_style_is_changed_when_the_base_cannot_write_it(messy):
    first = messy.hypothesis()
    plan = tuple(s for s in first.data_plan if s.do != "rewrite_equations")
    row = messy.row(1, first.model_copy(update={"data_plan": plan}), value=2.0, parsed=98.0)
    found = next_after(messy, first, row, "style.equations")
    assert found.aspect == "style" and "rewrite_equations" in does(found)
    back = messy.row(2, found, value=1.0, parsed=98.0, outcome="not promoted")
    other = messy.hypothesis(experiment=3, journal=(row.model_copy(update={"value": 0.5}), back))
    assert plan_fingerprint(other.data_plan, dict(other.training_plan)) != plan_fingerprint(
        plan, dict(first.training_plan)
    )


@pytest.mark.parametrize(
    ("replies", "spacing"),
    [
        (["3+4=7\n7+1=8", "9-2=7, 5+5=10 and 1 + 1 = 2"], "compact"),
        (["3 + 4 = 7, 7 + 1 = 8", "9 - 2 = 7 and 5 + 5 = 10, 1+1=2"], "spaced"),
        (["3 + 4 = 7"], "compact"),
        (["Ann has seven pens."], "compact"),
        ([], "compact"),
    ],
)
def test_all_solutions_are_written_in_one_way_the_base_models_where_it_shows_one(messy, replies, spacing):
    base = {"items": [{"id": str(i), "prediction": said} for i, said in enumerate(replies)]}
    messy.answers["evaluation_explain_failures"] = base
    first = messy.hypothesis()
    step = find_step(first.data_plan, "rewrite_equations")
    assert step is not None and step.options["spacing"] == spacing


def test_divergence_without_a_score_lowers_the_rate(messy):
    first = messy.hypothesis()
    dead = messy.row(1, first, value=None, outcome="failed", training=None, failure="smoke_run: the loss is NaN")
    found = messy.hypothesis(experiment=2, journal=(dead,))
    assert found.training_plan["learning_rate"] < first.training_plan["learning_rate"]
    assert found.data_plan == first.data_plan


@pytest.mark.parametrize(
    "said", ["smoke_run failed. smoke_run.1: timeout", "train: the forecast does not fit the time"]
)
def test_what_took_too_long_gets_half_the_steps(messy, said):
    first = messy.hypothesis()
    found = messy.hypothesis(experiment=2, journal=(messy.row(1, first, value=None, outcome="failed", failure=said),))
    assert found.training_plan["max_steps"] == first.training_plan["max_steps"] // 2
    assert found.data_plan == first.data_plan


@pytest.mark.parametrize("said", ["train: no space left on device: /data/home", "nccl error: unhandled system error"])
def test_what_the_machine_ended_is_tried_once_more(messy, said):
    first = messy.hypothesis()
    dead = messy.row(1, first, value=None, outcome="failed", failure=said)
    found = messy.hypothesis(experiment=2, journal=(dead,))
    assert (found.data_plan, found.training_plan) == (first.data_plan, first.training_plan)
    assert "not the recipe" in found.statement and said in found.reason


def test_what_a_guard_turned_down_is_named(messy):
    first = messy.hypothesis()
    row = messy.row(1, first, outcome="not promoted", value=40.0, gain=5.0, lesson="it forgot too much: arc -9.0")
    found = messy.hypothesis(experiment=2, journal=(row,))
    assert "forgot too much" in found.reason and "failure" not in found.statement
    assert found.training_plan["learning_rate"] < first.training_plan["learning_rate"]


def test_too_few_rows_without_a_score_soften_a_filter(messy):
    first = messy.hypothesis()
    dead = messy.row(1, first, value=None, outcome="failed", failure="build_data: data.json: no row is left")
    found = messy.hypothesis(experiment=2, journal=(dead,))
    assert len(found.data_plan) < len(first.data_plan)


@pytest.mark.parametrize(
    ("kind", "factor", "steps"),
    [("diverged", 0.3, 1.0), ("nan", 0.3, 1.0), ("flat", 5.0, 1.0), ("deadline", 1.0, 0.56)],
)
def test_a_stopped_training_is_answered_by_what_stopped_it(messy, kind, factor, steps):
    first = messy.hypothesis()
    stopped = EarlyStop(kind=kind, text="the loss diverged", at=460, step=400, of=640)
    row = messy.row(1, first, training=training(steps=400, stopped=stopped))
    found = next_after(messy, first, row)
    assert found.aspect == "rate" and "step 460 of 640" in found.reason
    assert found.training_plan["learning_rate"] == pytest.approx(
        first.training_plan["learning_rate"] * factor, rel=0.02
    )
    assert found.training_plan["max_steps"] == pytest.approx(640 * steps, rel=0.02)


def test_a_loss_that_does_not_move_raises_the_rate(messy):
    first = messy.hypothesis()
    said = "training stopped at step 40 of 320: the loss does not move: learning_rate is too small"
    found = next_after(messy, first, messy.row(1, first, outcome="failed", value=None, training=None, failure=said))
    assert found.training_plan["learning_rate"] == pytest.approx(5 * first.training_plan["learning_rate"])


def test_incumbent_is_parent_despite_higher_guarded_value(messy):
    first = messy.hypothesis()
    rows = (
        messy.row(1, first, value=40.0),
        messy.row(2, first.model_copy(update={"training_plan": {"max_steps": 1}}), value=55.0),
        messy.row(3, first.model_copy(update={"training_plan": {"max_steps": 2}}), value=60.0, outcome="not promoted"),
        messy.row(4, first.model_copy(update={"training_plan": {"max_steps": 3}}), value=45.0, outcome="not promoted"),
    )
    assert messy.hypothesis(experiment=5, journal=rows).parent == 2


def test_parent_is_best_measured_while_none_is_promoted(messy):
    first = messy.hypothesis()
    other = first.model_copy(update={"training_plan": {"max_steps": 1}})
    rows = (
        messy.row(1, first, value=3.0, outcome="not promoted"),
        messy.row(2, other, value=4.0, outcome="not promoted"),
        messy.row(3, other, value=None, outcome="failed", training=None, failure="train: out of memory"),
        messy.row(4, other, value=70.0, outcome="not promoted", gain=60.0),  # a guard refused it
    )
    assert messy.hypothesis(experiment=5, journal=rows).parent == 2


def test_forty_experiments_never_repeat_a_plan(messy):
    rng = random.Random(4)
    journal: tuple[JournalRow, ...] = ()
    seen: set[str] = set()
    for number in range(1, 41):
        try:
            found = messy.hypothesis(experiment=number, journal=journal)
        except RecipeError as e:
            assert "every change" in str(e)
            break
        mark = plan_fingerprint(found.data_plan, dict(found.training_plan))
        assert mark not in seen
        seen.add(mark)
        value = None if rng.random() < 0.1 else rng.uniform(20, 80)
        row = messy.row(
            number,
            found,
            value=value,
            outcome="failed" if value is None else rng.choice(["promoted", "not promoted"]),
            parsed=rng.uniform(50, 100),
            rows=rng.randint(50, 2000),
            failure=None if value else "train: out of memory",
            training=training(tail_slope=rng.uniform(-0.2, 0.1), last_loss=rng.uniform(0.01, 2)) if value else None,
        )
        journal = (*journal, row)
    assert len(seen) >= 25


def test_ideas_of_a_batch_differ_before_any_result_and_after_some(messy):
    for journal in ((), (messy.row(1, messy.hypothesis(), value=40.0),)):
        beside: tuple[IdeaUnderWay, ...] = ()
        for number in range(2, 8):
            found = messy.hypothesis(experiment=number, journal=journal, under_way=beside)
            beside = (*beside, IdeaUnderWay(number=number, hypothesis=found))
        ideas = [one.hypothesis for one in beside] + [row.hypothesis for row in journal]
        assert len({plan_fingerprint(i.data_plan, dict(i.training_plan)) for i in ideas}) == len(ideas)


def test_ideas_of_a_batch_differ_within_a_directive(messy):
    steps = (Bound(parameter="max_steps", at_most=60),)
    first = messy.hypothesis(directives=steps)
    beside = (IdeaUnderWay(number=1, hypothesis=first),)
    second = messy.hypothesis(experiment=2, under_way=beside, directives=steps)
    assert second.training_plan["max_steps"] == first.training_plan["max_steps"] == 60
    assert second.training_plan["learning_rate"] == 2 * first.training_plan["learning_rate"]


def test_the_same_evidence_gives_the_same_idea(messy):
    first = messy.hypothesis()
    assert first == messy.hypothesis()
    row = messy.row(1, first, value=33.0)
    assert messy.hypothesis(journal=(row,)) == messy.hypothesis(journal=(row,))


def test_only_brief_and_named_tools_are_read(messy, monkeypatch):
    messy.hypothesis()
    messy.asked.clear()
    monkeypatch.setattr("pathlib.Path.open", lambda *a, **k: pytest.fail("a file was opened"))
    monkeypatch.setattr("builtins.open", lambda *a, **k: pytest.fail("a file was opened"))
    first = messy.hypothesis()
    messy.script(first)
    messy.config(first)
    allowed = ("data_", "params_", "training_", "evaluation_")
    assert messy.asked and all(name.startswith(allowed) for name in messy.asked)


def test_data_without_questions_is_refused_in_one_sentence(world):
    rows = [{"x": i, "y": i * 2} for i in range(50)]
    w = world("number", [(f"How many pens are {i} pens?", str(i)) for i in range(30)], {"plain.csv": rows})
    with pytest.raises(RecipeError, match="no source holds questions"):
        w.hypothesis()


def test_a_real_model_gets_lora_epochs_and_its_sources_own_words(messy):
    messy.card |= {"parameters": 1_500_000_000, "device": "cuda", "max_positions": 32768, "template": "qwen"}
    first = messy.hypothesis()
    assert first.training_plan["finetuning_type"] == "lora"
    assert 1e-4 <= first.training_plan["learning_rate"] <= 2e-4
    assert first.training_plan["num_train_epochs"] == 3
    assert "rewrite_equations" not in does(first)


def test_a_rate_of_zero_is_none(messy):
    first = messy.hypothesis()
    zero = first.model_copy(update={"training_plan": {**first.training_plan, "learning_rate": 0.0}})
    failed = messy.row(1, zero, outcome="failed", value=None, failure="something broke")
    found = messy.hypothesis(experiment=2, journal=(failed,))
    assert found.training_plan["learning_rate"] == 0.0005 and found.data_plan == first.data_plan
