"""The table of moves, learned: what a regression says of gains and of improvements, and moves that simulated ways see."""

from __future__ import annotations

from random import Random

import numpy as np
from planner.table import Row, Seen, gain_of, regressed, walk

from tuneloop.agents.policy.move_table import FEATURES, MoveTable, predicted

PLACE = FEATURES.index("strength")


def row(way: int, strength: float, gain: float) -> Row:
    """A move of a way."""
    evidence = [0.0] * len(FEATURES)
    evidence[0], evidence[PLACE] = 1.0, strength
    return Row(f"way {way}", tuple(evidence), gain)


def test_a_kind_is_known_where_it_was_seen() -> None:
    rng = np.random.default_rng(0)
    rows = [row(i, s, 2 + 12 * s + rng.normal(0, 1.5)) for i, s in enumerate(rng.uniform(0, 0.5, 120))]
    kind, near = regressed(rows), row(0, 0.25, 0).evidence
    assert abs(predicted(kind.weights, near) - 5) < 0.8 and 1.2 < kind.spread < 2.0
    assert abs(predicted(kind.improvement, near) - 5) < 0.8 and kind.count == 120


def test_a_kind_that_loses_as_a_rule_may_be_worth_a_try() -> None:
    rows = [row(way, 0.1, 12.0 if way % 4 == 0 else -20.0) for way in range(80)]
    kind = regressed(rows)
    assert predicted(kind.weights, rows[0].evidence) < -10
    assert abs(predicted(kind.improvement, rows[0].evidence) - 3) < 0.5, "losses are not kept"


def test_doubt_that_is_spared_never_speaks_against_a_move() -> None:
    rows = [row(way, 0.1 * (way % 3), 9.0 - 4 * (way % 3)) for way in range(60)]
    assert regressed(rows).weights[PLACE] < 0 and regressed(rows).improvement[PLACE] < 0
    spared = regressed(rows, spares=True)
    assert (spared.weights[PLACE], spared.improvement[PLACE]) == (0.0, 0.0)
    assert abs(predicted(spared.weights, rows[0].evidence) - 5) < 0.5
    up = [row(way, 0.1 * (way % 3), 4.0 * (way % 3)) for way in range(60)]
    assert regressed(up, spares=True).weights[PLACE] >= regressed(up).weights[PLACE] > 0


def test_doubt_that_no_way_has_shown_costs_as_usual() -> None:
    rows = [row(way, 0.0, 6.0) for way in range(60)]
    lifted = row(0, -0.3, 0).evidence
    assert predicted(regressed(rows).weights, lifted) > 5
    assert predicted(regressed(rows, spares=True).weights, lifted) < 0


def test_many_moves_of_one_way_count_as_one() -> None:
    rows = [row(0, 0.1, 30.0) for _ in range(200)] + [row(way, 0.1, 0.0) for way in range(1, 6)]
    assert abs(predicted(regressed(rows).weights, rows[0].evidence) - 5) < 2


def test_of_kinds_that_bring_now_this_now_that_little_is_expected() -> None:
    seen = Seen()
    seen.rows["rate.higher"] = [row(i, 0.1, 9.0) for i in range(30)]
    seen.rows["rate.lower"] = [row(0, 0.1, 9.0), row(1, 0.1, -9.0)]
    table = seen.table({"till3": 40})
    often, hardly = (
        predicted(table.kinds[f"rate.{end}"].improvement, row(0, 0.1, 0).evidence) for end in ("higher", "lower")
    )
    assert often > 8 > 6 > hardly >= 0 and table.runs == {"till3": 40}
    assert MoveTable.model_validate_json(table.model_dump_json()) == table


def test_ways_see_moves_and_what_the_surface_gives_them(simulated) -> None:
    seen, starts = Seen(), [simulated.arena.space.draw(Random(n)) for n in range(4)]
    walk(simulated, starts, range(2), seen)
    rows = [one for rows in seen.rows.values() for one in rows]
    assert len(rows) > 20 and len({one.way for one in rows}) == 2
    assert all(-100 <= one.gain <= 100 and len(one.evidence) == len(FEATURES) for one in rows)
    point = starts[0]
    assert gain_of(simulated, point, simulated.arena.space.hypothesis(point)) is None, "no move at all"
