"""Quantiles of t against a table."""

import pytest

from tuneloop.tools.statistics.intervals import MANY, NORMAL, t_quantile

TABLE = {  # df: 0.95, 0.975, 0.995
    1: (6.3138, 12.7062, 63.6567),
    2: (2.9200, 4.3027, 9.9248),
    3: (2.3534, 3.1824, 5.8409),
    4: (2.1318, 2.7764, 4.6041),
    7: (1.8946, 2.3646, 3.4995),
    10: (1.8125, 2.2281, 3.1693),
    29: (1.6991, 2.0452, 2.7564),
    120: (1.6577, 1.9799, 2.6174),
}


@pytest.mark.parametrize("df", TABLE)
def test_the_table(df: int) -> None:
    assert [t_quantile(p, df) for p in (0.95, 0.975, 0.995)] == pytest.approx(TABLE[df], abs=6e-5)


def test_expansion_is_continuous_and_ends_at_normal() -> None:
    assert t_quantile(0.999, MANY - 1) == pytest.approx(t_quantile(0.999, MANY), abs=1e-5)
    assert t_quantile(0.999, MANY - 1) > t_quantile(0.999, MANY) > NORMAL.inv_cdf(0.999)
    assert t_quantile(0.975, 10**9) == pytest.approx(1.959964, abs=1e-6)
    assert t_quantile(0.5, 5) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("p", "df"), [(1.0, 5), (0.4, 5), (0.9, 0)])
def test_nonsense_is_refused(p: float, df: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(p, df)
