"""The simulation behind docs/acceptance.md: its models are as described, and it says the same every time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


def test_equal_models_are_right_and_differ_as_often_as_said() -> None:
    from climb_runs import BASE, Items

    for differ in (0.11, 0.2):
        items = Items(40_000, np.random.default_rng(1), differ)
        one, other = (np.array(items.answers(BASE)) for _ in range(2))
        assert one.mean() == pytest.approx(BASE, abs=0.01)
        assert (one != other).mean() == pytest.approx(differ, abs=0.01)
        assert np.mean(items.answers(0.7)) == pytest.approx(0.7, abs=0.01)


def test_the_incumbent_changes_only_where_the_rule_says_so() -> None:
    from climb_runs import BASE, Scenario, climb

    scenario = Scenario(1, 0, 6, 50)
    assert list(climb(scenario, np.random.default_rng(1), lambda _: False)) == [None] * 6
    every = list(climb(scenario, np.random.default_rng(1), lambda _: True))
    assert every == pytest.approx([BASE + n / 100 for n in range(1, 7)])


@pytest.mark.parametrize(("gain", "delivered"), [(-0.2, 0), (0, -3), (0.2, -3)])
def test_the_base_is_kept_only_where_the_candidate_measures_below_it(gain: float, delivered: float) -> None:
    from climb_runs import Opening

    assert Opening(-3, gain, gain - 4, gain + 4, 8, 0.9, claimed=False).delivered == delivered


def test_the_same_runs_every_time() -> None:
    from climb import ROWS, simulate

    first, again = simulate(10), simulate(10)
    assert first.runs == again.runs
    assert {len(runs) for runs in first.runs.values()} == {10}
    values = {row.name: row.value(first) for row in ROWS}
    assert len(values) == len(ROWS)
    assert all(np.isfinite(value) for value in values.values())


def test_the_same_figure_every_time(tmp_path: Path) -> None:
    from climb_figure import draw

    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, runs=2, processes=2)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
