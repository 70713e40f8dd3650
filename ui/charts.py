"""Loss curves as SVG, drawn by the server: no script, sharp on every screen, and a sentence for who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 200, 48, 22, 8
MOST = 600  # points; more than there are pixels say nothing


def loss_chart(points: Sequence[dict[str, Any]]) -> Markup:
    """The curve of `loss`, with `eval_loss` where it was measured; nothing for fewer than two points."""
    train, evaluated = (series(points, name) for name in ("loss", "eval_loss"))
    if len(train) < 2:
        return Markup("")
    steps = [step for step, _ in (*train, *evaluated)]
    losses = [loss for _, loss in (*train, *evaluated)]
    box = (min(steps), max(steps), min(0.0, *losses), max(*losses, 1e-9))
    said = f"Loss from {train[0][1]:.3g} at step {train[0][0]} to {train[-1][1]:.3g} at step {train[-1][0]}"
    lines = [Markup('<polyline class="{}" points="{}"/>').format(kind, path(found, box))
             for kind, found in (("loss", train), ("eval", evaluated)) if found]  # fmt: skip
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
        '<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/><line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>{}'
        '<text x="{}" y="{}">{}</text><text x="{}" y="{}" text-anchor="end">step {}</text>'
        '<text x="{}" y="{}" text-anchor="end">{}</text><text x="{}" y="{}" text-anchor="end">{}</text></svg>'
    ).format(
        WIDTH, HEIGHT, said, said,
        LEFT, HEIGHT - BOTTOM, WIDTH, HEIGHT - BOTTOM, LEFT, TOP, LEFT, HEIGHT - BOTTOM, Markup("").join(lines),
        LEFT, HEIGHT - 6, box[0], WIDTH, HEIGHT - 6, box[1],
        LEFT - 6, TOP + 10, f"{box[3]:.3g}", LEFT - 6, HEIGHT - BOTTOM, f"{box[2]:.3g}",
    )  # fmt: skip


def series(points: Sequence[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """Step and value of each point that has one, thinned out evenly; the last always stays."""
    found = [(int(p["current_steps"]), float(p[name])) for p in points if isinstance(p.get(name), int | float)]
    every = max(1, -(-len(found) // MOST))
    return [point for i, point in enumerate(found) if i % every == 0 or i == len(found) - 1]


def path(points: Sequence[tuple[int, float]], box: tuple[int, int, float, float]) -> str:
    """Points of a polyline."""
    left, right, low, high = box
    across, up = max(1, right - left), max(1e-9, high - low)
    places = (
        (LEFT + (WIDTH - LEFT) * (step - left) / across, TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / up)
        for step, value in points
    )
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
