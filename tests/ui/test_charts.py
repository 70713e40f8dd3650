"""Loss curves: inside of the picture, bounded in size, with a sentence."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tuneloop.ui.charts import HEIGHT, WIDTH, loss_chart

LOSSES = st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=2, max_size=2000)


@given(LOSSES)
def test_curve_stays_in_its_picture(losses: list[float]) -> None:
    chart = loss_chart([{"current_steps": step, "loss": loss} for step, loss in enumerate(losses, 1)])
    drawn = re.search(r'<polyline class="loss" points="([^"]+)"', chart)
    assert drawn
    places = [tuple(map(float, place.split(","))) for place in drawn[1].split()]
    assert 2 <= len(places) <= 601
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert places[-1][0] == WIDTH


def test_nothing_is_drawn_of_nothing() -> None:
    assert not loss_chart([])
    assert not loss_chart([{"current_steps": 1, "loss": 2.0}])
    assert not loss_chart([{"current_steps": 1, "eval_loss": 2.0}, {"current_steps": 2, "eval_loss": 1.0}])


def test_evaluation_loss_has_its_own_line() -> None:
    points = [{"current_steps": s, "loss": 3.0 / s, "eval_loss": 4.0 / s} for s in (1, 2, 3)]
    chart = loss_chart(points)
    assert 'class="loss"' in chart and 'class="eval"' in chart
    assert "Loss from 3 at step 1 to 1 at step 3" in chart
