"""Made-up contest problems with a whole number from 0 to 999 as the answer."""

from __future__ import annotations

from math import comb, gcd


def problems(seed: int) -> list[tuple[str, int]]:
    """Thirty of them, others for each seed."""
    return [KINDS[i % 3](seed * 10 + i) for i in range(30)]


def pairs(k: int) -> tuple[str, int]:
    n = 12 * (k + 3)
    count = sum(n % d == 0 for d in range(1, n + 1))
    return f"Find the number of ordered pairs $(a,b)$ of positive integers such that $ab = {n}$.", count


def fraction(k: int) -> tuple[str, int]:
    top, bottom = 2 * k + 3, k * k + 5
    common = gcd(top, bottom)
    text = (
        f"The sum of ${top}$ copies of $\\frac{{1}}{{{bottom}}}$ is $\\tfrac mn$ in lowest terms. Find the remainder of $m+n$ "
        "when divided by $1000$."
    )
    return text, (top // common + bottom // common) % 1000


def paths(k: int) -> tuple[str, int]:
    right = k % 7 + 3
    text = f"Let $N$ be the number of lattice paths from $(0,0)$ to $({right},{k + 2})$. Find $N \\bmod 1000$."
    return text, comb(right + k + 2, right) % 1000


KINDS = (pairs, fraction, paths)
