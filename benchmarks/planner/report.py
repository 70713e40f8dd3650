"""What came out: rows as in `results.json`, a page with tables, a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from planner.made_task import family
from planner.play import Extent, Fitted, Played
from planner.real import Real, shipped
from planner.regret import BUDGET, Curve, bootstrap, by_surface, joined, ratio
from planner.short import ENOUGH, Agreement

MARK, END = "<!-- measured -->", "<!-- end -->"
RANDOM, POLICY = "random search", "offline policy"
DECIDES = 4  # experiments
AFTER = (1, 2, DECIDES, 8, BUDGET)
UNIT = "of the gain"
COLOURS = ("#888888", "#2a7f3f", "#2b6cb0", "#b7791f")


def together(played: Sequence[Played]) -> dict[str, dict[str, Curve]]:
    """Family → player → the trials of all its seeds as one curve."""
    found: dict[str, dict[str, list[Curve]]] = {}
    for one in played:
        for c in one.curves:
            found.setdefault(family(one.task), {}).setdefault(c.player, []).append(c)
    return {name: {player: joined(many, name) for player, many in of.items()} for name, of in found.items()}


def rows(played: Sequence[Played], fitted: Fitted) -> list[dict[str, Any]]:
    """Every row has name, value, unit, goal, ok; what is only told has a goal that it cannot miss."""
    found = [
        row("regret surface, R² on real runs held out", fitted.r2, "", ">= 0.5"),
        row("regret surface, error on real runs held out", 100 * fitted.error, "points", "<= 15"),
    ]
    for name, curves in together(played).items():
        random, policy = curves[RANDOM], curves[POLICY]
        value = ratio(policy.regrets[:, DECIDES - 1], random.regrets[:, DECIDES - 1])[0]
        found.append(row(f"regret after {DECIDES} experiments, {POLICY} / {RANDOM}, {name}", value, "", "<= 0.5"))
        for player, c in curves.items():
            for k in AFTER:
                goal = f"<= {random.mean(k):.3g}" if player == POLICY else "<= 1"
                found.append(row(f"regret after {k} experiments, {player}, {name}", c.mean(k), UNIT, goal))
    return found


def row(name: str, value: float, unit: str, goal: str) -> dict[str, Any]:
    """As `benchmarks/figures.py` writes it."""
    relation, number = goal.split()
    good = math.isfinite(value) and (value <= float(number) if relation == "<=" else value >= float(number))
    return {"name": name, "value": float(f"{value:.4g}"), "unit": unit, "goal": goal, "ok": good}


def table(played: Sequence[Played]) -> Iterator[str]:
    """Regret in percent with its interval, a line a player."""
    for name, curves in together(played).items():
        yield f"### {name}\n"
        yield "| after | " + " | ".join(map(str, AFTER)) + " |"
        yield "|---|" + "---|" * len(AFTER)
        for player, c in curves.items():
            cells = [f"{100 * c.mean(k):.0f} ({interval(c, k)})" for k in AFTER]
            yield f"| {player}, {len(c.regrets)} trials | " + " | ".join(cells) + " |"
        a, b = curves[POLICY].regrets, curves[RANDOM].regrets
        cells = [f"{ratio(a[:, k - 1], b[:, k - 1])[0]:.2f}" for k in AFTER]
        yield f"| {POLICY} / {RANDOM} | " + " | ".join(cells) + " |"
        value, low, high = ratio(a[:, DECIDES - 1], b[:, DECIDES - 1])
        each = ", ".join(f"{v:.2f}" for v in by_surface(curves[POLICY], curves[RANDOM], DECIDES))
        yield f"\nAfter {DECIDES} experiments {value:.2f} (95 %: {low:.2f} to {high:.2f}); by surface {each}.\n"


def interval(c: Curve, after: int) -> str:
    """In percent."""
    low, high = bootstrap(c.regrets[:, after - 1], lambda drawn: drawn.mean(-1))
    return f"{100 * low:.0f}-{100 * high:.0f}"


def told(
    played: Sequence[Played], fitted: Fitted, real: Real | None, extent: Extent, short: Sequence[Agreement] = ()
) -> str:
    """The measured part of the page."""
    lines = [
        f"Real runs behind the surface: {fitted.runs}. Predicted by a fit to the others, ten folds: R² {fitted.r2:.2f}, mean error "
        f"{100 * fitted.error:.1f} points of recipes that were drawn, {100 * fitted.beside:.1f} of those about the policy's first, "
        f"{100 * fitted.best:.1f} of those that a surface called best. Trials on each seed: {extent.random} of random search, "
        f"{extent.policy} of the policy and of TPE, shared by "
        f"{len(fitted.surfaces)} surfaces, each without another fifth of the runs.\n",
        "Regret in percent of what there is to gain, mean (95 % interval):\n",
        *table(played),
        "| seed | best of the surface | untouched | the best recipe |",
        "|---|---|---|---|",
    ]
    for one in played:
        p = one.recipe
        how = f"{', '.join(p.sources)}; {p.style}; {', '.join(p.does)}; {p.method} {p.rate:g}, {p.steps} steps"
        lines.append(f"| {one.task} | {100 * one.best:.1f} | {100 * one.base:.1f} | {how} |")
    lines += [*real_table(real)] if real else []
    lines += [*short_table(short)] if short else []
    return "\n".join(lines) + "\n"


def real_table(real: Real) -> Iterator[str]:
    """Real experiments, measured on validation."""
    yield f"\nReal experiments on {real.task}, validation score:\n"
    yield "| experiment | offline policy | random search |"
    yield "|---|---|---|"
    policy = [e.score.value if e.score else None for e in real.policy]
    random = [r.get("value") for r in real.random]
    best = [shipped(policy, 0.0), shipped(random, 0.0)]
    for i, (a, b) in enumerate(zip(policy, random, strict=False)):
        yield f"| {i + 1} | {shown(a)} (best {best[0][i]:.1f}) | {shown(b)} (best {best[1][i]:.1f}) |"


def short_table(short: Sequence[Agreement]) -> Iterator[str]:
    """Whether a quarter of the steps could choose."""
    yield "\nRecipes that were also run with a quarter of their steps: rank correlation of the two scores (95 % interval); "
    yield f"from {ENOUGH} on short experiments could choose:\n"
    yield "| family | recipes | rank correlation |"
    yield "|---|---|---|"
    for one in short:
        yield f"| {one.family} | {one.runs} | {one.rho:.2f} ({one.low:.2f} to {one.high:.2f}) |"


def shown(value: float | None) -> str:
    """A score or that there is none."""
    return "failed" if value is None else f"{value:.1f}"


def write_page(page: Path, measured: str) -> None:
    """Put the measured part between its marks; what people wrote around it stays."""
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(MARK)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"{page} has no {MARK} … {END}")
    page.write_text(f"{before}{MARK}\n{measured}{END}{after}", encoding="utf-8")


def draw(path: Path, played: Sequence[Played]) -> None:
    """Regret over experiments, a panel a task, a band of 95 %."""
    import matplotlib as mpl  # half a second to import
    from matplotlib.figure import Figure

    found = together(played)
    figure = Figure(figsize=(4.2 * len(found), 3.6), layout="constrained")
    for place, (name, curves) in enumerate(found.items(), 1):
        axes = figure.add_subplot(1, len(found), place)
        axes.set(title=name, xlabel="experiments", ylabel="regret, % of the gain", ylim=(0, 100))
        axes.grid(visible=True, alpha=0.25)
        for colour, (player, c) in zip(COLOURS, curves.items(), strict=False):
            x = list(range(1, BUDGET + 1))
            bands = [bootstrap(c.regrets[:, k], lambda drawn: drawn.mean(-1)) for k in range(BUDGET)]
            axes.plot(x, [100 * c.mean(k) for k in x], marker="o", color=colour, label=player)
            low, high = ([100 * band[side] for band in bands] for side in (0, 1))
            axes.fill_between(x, low, high, color=colour, alpha=0.2)
        axes.legend(fontsize=8)
    with mpl.rc_context({"svg.hashsalt": "regret"}):
        figure.savefig(path, metadata={"Date": None})
