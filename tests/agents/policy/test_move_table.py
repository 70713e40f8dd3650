"""The table of moves: what is expected of each, what this run corrects, and a table that cannot be read."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuneloop.agents.policy import expected_moves, move_table
from tuneloop.agents.policy.data_moves import coverage_moves, unread_sources
from tuneloop.agents.policy.data_plan import agreement_step, plan_fingerprint
from tuneloop.agents.policy.evidence import parent_of
from tuneloop.agents.policy.move_table import (
    FEATURES,
    FILE,
    Kind,
    MoveTable,
    load_table,
    rank_moves,
    results,
)
from tuneloop.agents.policy.moves import Case, Move
from tuneloop.agents.policy.researcher import alike, find_moves, in_order
from tuneloop.core.brief import BudgetLeft, JournalRow

ZEROS = [0.0] * len(FEATURES)
POLICY = Path(move_table.__file__).parent


VOTES = {"repeated": 1.0, "disagreeing": 0.3}


def found(world: Any, journal: tuple[JournalRow, ...], **changes: Any) -> tuple[Case, list[Move]]:
    """The case after a journal, and its untried moves."""
    incumbent = parent_of(journal, "max")
    assert incumbent is not None
    return asyncio.run(find_moves(world.brief(journal=journal, **changes), world, incumbent))


def constant(gain: float, spread: float = 1.0) -> Kind:
    """A kind that gains the same under any evidence."""
    nothing = (0.0,) * (len(FEATURES) - 1)
    return Kind(weights=(gain, *nothing), improvement=(max(0.0, gain), *nothing), spread=spread, count=9)


def test_the_shipped_table_is_whole() -> None:
    table = load_table()
    assert table.features == FEATURES and table.runs, "it names the runs behind it"
    assert len(table.kinds) >= 15 and all(kind.spread >= 0.5 and kind.count >= 1 for kind in table.kinds.values())


def test_what_takes_many_labels_out_of_doubt_comes_before_what_the_table_likes_better(messy: Any) -> None:
    case, moves = found(messy, (messy.row(1, messy.hypothesis()),))
    data = [
        replace(move, kind="noise.check_labels", strength=strength)
        for move, strength in zip(moves, (0.05, 0.3), strict=False)
    ]
    rate = next(move for move in moves if move.kind == "rate.higher")
    kinds = {"rate.higher": constant(20.0), "noise.check_labels": constant(2.0)}
    found_first = [one.move for one in in_order(case, [rate, *data], MoveTable(kinds=kinds))]
    assert found_first == [data[1], rate, data[0]]
    hopeless = kinds | {"noise.check_labels": constant(0.0)}
    assert in_order(case, [rate, *data], MoveTable(kinds=hopeless))[0].move == rate


def test_of_methods_the_table_speaks_for_tiny_models_alone(messy: Any) -> None:
    table = MoveTable(kinds={"method.lora": constant(9.0), "rate.higher": constant(5.0)})
    case, moves = found(messy, (messy.row(1, messy.hypothesis()),))
    large = replace(case, situation=replace(case.situation, card=replace(case.situation.card, parameters=135_000_000)))
    by_size = [{one.move.kind: one for one in rank_moves(of, moves, table, "")} for of in (case, large)]
    assert [ranked["method.lora"].gain for ranked in by_size] == [9.0, 0.0]
    assert [ranked["rate.higher"].gain for ranked in by_size] == [5.0, 5.0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is missing"),
        ("{", "cannot be read"),
        (json.dumps({"kinds": {"rate.higher": {"weights": ["a"]}}}), "cannot be read"),
        (
            json.dumps({"kinds": {"rate.higher": {"weights": [1.0], "improvement": [1.0], "spread": 2.0}}}),
            "cannot be read",
        ),
        (
            json.dumps({"kinds": {"rate.higher": {**dict.fromkeys(("weights", "improvement"), ZEROS), "spread": 0.0}}}),
            "cannot be read",
        ),
        (
            json.dumps({"kinds": {"rate.higher": {"weights": ZEROS, "improvement": [1.0], "spread": 1.0}}}),
            "cannot be read",
        ),
        (json.dumps({"version": 9}), "has version 9; right is 2"),
        (json.dumps({"features": ["room"]}), "is of other evidence"),
    ],
)
def test_a_table_that_is_no_use_leaves_a_flat_prior(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None, says: str
) -> None:
    file = tmp_path / "move_table.json"
    if content is not None:
        file.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert load_table(file) == MoveTable()
    assert [says in record.getMessage() for record in caplog.records] == [True]


def test_the_policy_goes_on_with_a_flat_prior(messy: Any) -> None:
    messy.table = MoveTable()
    first = messy.hypothesis()
    second = messy.hypothesis(experiment=2, journal=(messy.row(1, first),))
    assert second.expected_gain == 0 and second.parent == 1 and second.move


def test_more_expected_ranks_higher_and_longer_costs(messy: Any) -> None:
    case, moves = found(messy, (messy.row(1, messy.hypothesis()),))
    table = MoveTable(kinds={"rate.lower": constant(8), "underfit.longer": constant(8), "rate.higher": constant(2)})
    ranked = rank_moves(case, moves, table, "1 2")
    kinds = list(dict.fromkeys(one.move.kind for one in ranked if one.move.kind in table.kinds))
    assert kinds[0] == "rate.lower", "as much is expected of a longer training, which takes more time"
    assert kinds.index("underfit.longer") < kinds.index("rate.higher")
    assert ranked == rank_moves(case, moves, table, "1 2")


def test_this_runs_results_weigh_against_the_tables_two(messy: Any) -> None:
    first = messy.hypothesis()
    told = first.model_copy(
        update={"move": "rate.lower", "expected_gain": 4.0, "training_plan": {"learning_rate": 9.0}}
    )
    rows = (messy.row(1, first), messy.row(2, told, outcome="not promoted", gain=-5.0), messy.row(3, first, gain=1.0))
    assert results(rows, "max") == ({"rate.lower": [-5.0]}, {"rate.lower": [-9.0]})
    case, moves = found(messy, rows[:2])
    table = MoveTable(kinds={"rate.lower": constant(4.0)})
    ranked = {one.move.kind: one for one in rank_moves(case, moves, table, "x")}
    assert ranked["rate.lower"].gain == pytest.approx(4.0 - 9.0 / 3)
    untaught = replace(case, situation=replace(case.situation, brief=messy.brief(journal=rows[:1])))
    before = {one.move.kind: one for one in rank_moves(untaught, moves, table, "x")}
    assert ranked["rate.lower"].worth == pytest.approx(before["rate.lower"].worth * 2 / 3), "4 expected twice, 0 seen"


def test_what_was_corrected_already_is_not_forgotten(messy: Any) -> None:
    """The table tells 4, every experiment brings -2: told is the mean of two 4s and of what was seen."""
    first, told = messy.hypothesis(), list[float]()
    rows: tuple[JournalRow, ...] = (messy.row(1, first),)
    table = MoveTable(kinds={"rate.lower": constant(4.0)})
    for number in range(2, 6):
        case, moves = found(messy, rows)
        told.append({one.move.kind: one.gain for one in rank_moves(case, moves, table, "x")}["rate.lower"])
        idea = first.model_copy(update={"move": "rate.lower", "expected_gain": told[-1]})
        rows = (*rows, messy.row(number, idea, outcome="not promoted", gain=-2.0))
    assert told == pytest.approx([4.0, 2.0, 1.0, 0.4])


def test_a_move_is_judged_by_its_parent(messy: Any) -> None:
    """Nothing was promoted yet: the incumbent is the untouched model, and the move made its parent better."""
    first = messy.hypothesis()
    second = first.model_copy(update={"move": "rate.lower", "expected_gain": 5.0, "parent": 1})
    rows = (messy.row(1, first, value=40.0), messy.row(2, second, value=50.0, gain=-10.0, outcome="not promoted"))
    assert results(rows, "max") == ({"rate.lower": [10.0]}, {"rate.lower": [5.0]})
    assert results(rows, "min")[0] == {"rate.lower": [-10.0]}


def test_nothing_brings_more_than_there_is_room_for(messy: Any) -> None:
    case, moves = found(messy, (messy.row(1, messy.hypothesis(), value=95.0),))
    table = MoveTable(kinds={move.kind: constant(30.0) for move in moves})
    ranked = rank_moves(case, moves, table, "x")
    assert {(one.gain, one.improvement) for one in ranked} == {(5.0, 5.0)}


def test_recipes_alike_are_not_tried_twice(messy: Any) -> None:
    first = messy.hypothesis()
    plan, values = first.data_plan, dict(first.training_plan)
    rate = float(str(values["learning_rate"]))
    near, far = {**values, "learning_rate": 1.1 * rate}, {**values, "learning_rate": 1.4 * rate}
    same, other_plan = plan_fingerprint(plan, {}), plan_fingerprint(plan[1:], {})
    assert alike((same, values), (same, near)) and not alike((same, values), (same, far))
    assert not alike((same, values), (other_plan, values))
    other = first.model_copy(update={"training_plan": {**values, "learning_rate": 2.2 * rate}, "parent": 1})
    rows = (messy.row(1, first), messy.row(2, other, outcome="not promoted", gain=-9.0, gain_low=-12.0, gain_high=-6.0))
    _, moves = found(messy, rows)
    rates = [float(str(m.training["learning_rate"])) / rate for m in moves if m.kind == "rate.higher"]
    assert rates == pytest.approx([1.4, 3.0], rel=0.05), "twice the rate is what was tried"


def test_near_misses_are_joined_with_what_helped(messy: Any) -> None:
    first = messy.hypothesis()
    data = first.model_copy(update={"data_plan": first.data_plan[:-1], "parent": 1})
    longer = first.model_copy(update={"training_plan": {**first.training_plan, "max_steps": 900}, "parent": 1})
    near = {"outcome": "not promoted", "gain": -1.0, "gain_low": -6.0, "gain_high": 4.0, "value": 49.0}
    rows = (messy.row(1, first), messy.row(2, data, **near), messy.row(3, longer, **near))
    _, moves = found(messy, rows)
    joined = [move for move in moves if move.kind == "join.both"]
    assert [(m.plan == data.data_plan, m.training == longer.training_plan) for m in joined] == [(True, True)]
    lost = {**near, "gain": -9.0, "gain_low": -14.0, "gain_high": -4.0}
    _, moves = found(messy, (rows[0], messy.row(2, data, **lost), rows[2]))
    assert not [move for move in moves if move.kind == "join.both"]


def test_each_source_can_be_left_out_or_used_alone(messy: Any) -> None:
    first = messy.hypothesis()
    _, moves = found(messy, (messy.row(1, first),))
    also = next(m for m in moves if m.kind == "coverage.also")
    both = first.model_copy(update={"data_plan": also.plan})
    case, moves = found(messy, (messy.row(1, both),))
    assert len(case.sources) == 2
    assert sum(m.kind == "noise.leave_out" for m in moves) == 2, "without one is the other alone"


def test_the_order_of_sources_makes_no_other_recipe(messy: Any) -> None:
    case, _ = found(messy, (messy.row(1, messy.hypothesis()),))
    voting = [replace(s, profile=s.profile.model_copy(update=VOTES)) for s in case.situation.sources]
    assert len(voting) > 1
    one, other = (agreement_step(some, "replies differ") for some in (voting, voting[::-1]))
    assert one == other


def test_no_bare_answers_are_added_to_steps(messy: Any) -> None:
    first = messy.hypothesis()
    case, moves = found(messy, (messy.row(1, first),))
    bare = [replace(s, profile=s.profile.model_copy(update={"worked": 0.1})) for s in unread_sources(case)]
    assert bare and all(s.profile.worked >= 0.5 for s in case.sources)
    untrusted = replace(case.situation, sources=(*case.sources, *bare))
    assert not unread_sources(replace(case, situation=untrusted))
    assert {m.kind for m in moves} & {"coverage.also", "noise.other"}


def test_a_filter_that_has_nothing_to_compare_with_is_not_left_out(messy: Any) -> None:
    case, moves = found(messy, (messy.row(1, messy.hypothesis()),))
    assert "coverage.without_drop_contradicted" in {m.kind for m in moves}
    keyless = [replace(s, profile=s.profile.model_copy(update={"key_agreement": None})) for s in case.situation.sources]
    other = replace(case, situation=replace(case.situation, sources=tuple(keyless)))
    assert "coverage.without_drop_contradicted" not in {m.kind for m in coverage_moves(other)}


def test_no_gain_of_before_lets_expect_more_than_there_is_room_for(messy: Any) -> None:
    first = messy.hypothesis()
    other = messy.hypothesis(experiment=2, journal=(messy.row(1, first, value=20.0),))
    rows = (messy.row(1, first, value=20.0), messy.row(2, other, value=95.0))
    case, moves = found(messy, rows)
    ranked = rank_moves(case, moves, load_table(), "1")
    assert ranked and max(one.improvement for one in ranked) <= 5.0


def test_filters_are_softened_only_where_rows_are_missing(messy: Any) -> None:
    case, _ = found(messy, (messy.row(1, messy.hypothesis()),))
    limit = case.situation.task.row_limit
    kinds = [
        {m.kind for m in coverage_moves(replace(case, evidence=replace(case.evidence, rows=rows)))}
        for rows in (limit - 1, limit)
    ]
    assert "coverage.without_drop_contradicted" in kinds[0]
    assert not [kind for kind in kinds[1] if kind.startswith("coverage.without")]


def test_a_run_without_an_end_is_asked_to_end_once_little_is_expected(messy: Any) -> None:
    first = messy.hypothesis()
    endless = BudgetLeft(experiments_left=None, seconds_left=None)
    messy.table = MoveTable(kinds={kind: constant(-3.0) for kind in kinds_of(messy, first)})
    rows: tuple[JournalRow, ...] = (messy.row(1, first),)
    for number in range(2, 10):
        idea = messy.hypothesis(experiment=number, journal=rows, budget=endless)
        assert not idea.stop, f"experiment {number}"
        rows = (*rows, messy.row(number, idea, outcome="not promoted", value=40.0, gain=-10.0))
    stop = messy.hypothesis(experiment=10, journal=rows, budget=endless)
    assert stop.stop and "8 experiments in a row" in stop.reason
    assert not messy.hypothesis(experiment=10, journal=rows).stop, "the user gave a number of experiments"
    again = messy.hypothesis(experiment=10, journal=rows, budget=endless, stop_refused="the user wants more")
    assert not again.stop


def kinds_of(world: Any, first: Any) -> set[str]:
    """All kinds after a first experiment."""
    return {m.kind for m in found(world, (world.row(1, first),))[1]} | {"join.both", "coverage.also", "noise.only"}


def test_others_are_told_the_best_moves(messy: Any) -> None:
    first = messy.hypothesis()
    assert asyncio.run(expected_moves(messy.brief(), messy)) == ()
    told = asyncio.run(expected_moves(messy.brief(experiment=2, journal=(messy.row(1, first),)), messy))
    second = messy.hypothesis(experiment=2, journal=(messy.row(1, first),))
    assert 3 <= len(told) <= 8 and (told[0].kind, told[0].statement) == (second.move, second.statement)
    assert all(one.low < one.gain < one.high and one.statement for one in told)


def test_nothing_of_the_embedded_benchmark_is_in_the_policy() -> None:
    names = re.compile(r"wordproblems|textbook|distilled|\bquiz|dialogues", re.I)
    text = {path.name: path.read_text() for path in (*POLICY.glob("*.py"), FILE)}
    assert not {name for name, content in text.items() if names.search(content)}
    assert math.isfinite(sum(sum(kind.weights) for kind in load_table().kinds.values()))
