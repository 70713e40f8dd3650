"""The surface goes through the runs, up to their noise, and says how it does on others."""

from __future__ import annotations

import numpy as np


def test_runs_are_reproduced_and_others_predicted() -> None:
    from planner.surface import FEATURES, explained, fit, held_out

    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (120, len(FEATURES)))
    wrong, compact = (x[:, FEATURES.index(name)] for name in ("wrong", "compact"))
    y = 0.5 + 0.3 * np.sin(2 * wrong) - 0.1 * compact
    noisy = np.clip(y + 0.02 * rng.standard_normal(120), 0, 1)
    found = fit(x, noisy)
    assert np.abs(found.at(x) - noisy).max() < 0.1
    said = held_out(x, noisy)
    r2, error = explained(said, noisy)
    assert r2 > 0.5
    assert error < 0.1
    assert ((said >= 0) & (said <= 1)).all()


def test_far_from_every_run_the_mean_is_said() -> None:
    from planner.surface import FEATURES, fit

    x = np.zeros((8, len(FEATURES)))
    x[:, 2] = np.linspace(0, 1, 8)
    y = np.linspace(0.2, 0.8, 8)
    found = fit(x, y)
    far = np.full((1, len(FEATURES)), 50.0)
    assert abs(found.at(far)[0] - float(np.sin(found.centre) ** 2)) < 1e-6


def test_every_feature_has_a_value_and_a_usual_width() -> None:
    from planner.rows import Made
    from planner.space import Point
    from planner.surface import FEATURES, KNOWN, USUAL, features
    from planner.tasks import FAMILIES

    assert {*KNOWN, "stories"} == set(FAMILIES)
    made = Made(10, 0.1, 0, 1, 0, 0, 0, 0, 1, 0.5, 0.2, 0.3)
    x = features("choice", made, Point(("a",), "compact", "none", (), "full", 1e-3, 100, 0))
    assert len(x) == len(FEATURES) == len(USUAL)
    found = dict(zip(FEATURES, x, strict=True))
    assert [found[name] for name in (*KNOWN, "lean", "overlong")] == [0, 1, 0, 0.2, 0.3]
