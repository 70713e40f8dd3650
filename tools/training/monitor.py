"""The live watch of a training: what its own log, its machine and its deadline show to be wrong, while it trains.

Pure functions. A finding of level `stop` is one that waiting cannot mend; a run that learns slowly is never one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tuneloop.core.experiment import TrainingFinding
from tuneloop.core.formatting import format_duration, format_size

FEW = 5  # logged points in a row that must agree; a run has about fifty
STALL_SECONDS, STALL_STEPS = 180.0, 20.0
RATE = "the learning rate is too high"


@dataclass(frozen=True)
class LoggedStep:
    """One logged step."""

    step: int
    loss: float
    grad_norm: float | None = None
    rate: float | None = None
    moved: float | None = None


@dataclass(frozen=True)
class MonitorSigns:
    """Everything that is known of a training at one moment; bytes and seconds, None: not known, or no limit.

    `quiet`: seconds since it last gave a sign of life. `expected`: seconds of a step by the smoke run. `left`: until it has to
    be over, `reserve` of them for saving.
    """

    points: tuple[LoggedStep, ...] = ()
    step: int = 0
    of: int = 0
    quiet: float | None = None
    step_seconds: float | None = None
    expected: float = 0.0
    longest: float = 0.0
    save_seconds: float = 0.0
    save_bytes: int = 0
    free_disk: int | None = None
    memory: int | None = None
    memory_limit: int | None = None
    left: float | None = None
    reserve: float = 0.0


def monitor_findings(signs: MonitorSigns) -> tuple[TrainingFinding, ...]:
    """All that is wrong, what ends the training first."""
    points = signs.points
    found = (
        check_finite(points),
        check_zero_loss(points),
        check_divergence(points),
        check_gradients(points),
        check_flat_loss(points, signs.of),
        check_stall(signs),
        check_disk(signs),
        check_memory(signs),
        check_deadline(signs),
    )
    return tuple(sorted((f for f in found if f), key=lambda f: f.level != "stop"))


def check_finite(points: Sequence[LoggedStep]) -> TrainingFinding | None:
    """A NaN never mends; a gradient that is infinite once may be a step that mixed precision left out."""
    for i, p in enumerate(points):
        twice = i > 0 and not is_finite(p.grad_norm) and not is_finite(points[i - 1].grad_norm)
        if not math.isfinite(p.loss) or twice:
            before = points[i - 1] if i else None
            known = f", {before.loss:.3g} at step {before.step}" if before else ""
            text = f"the loss became NaN or infinite at step {p.step}{known}; gradient norm {p.grad_norm}: {RATE}"
            return TrainingFinding("nan", "stop", text, p.step, last_sound_step(points[: i - twice]))
    return None


def is_finite(value: float | None) -> bool:
    """Whether a number is one, where there is one."""
    return value is None or math.isfinite(value)


def last_sound_step(points: Sequence[LoggedStep]) -> int:
    """The last step of these, 0 when there is none."""
    return points[-1].step if points else 0


def check_zero_loss(points: Sequence[LoggedStep]) -> TrainingFinding | None:
    """A loss of exactly 0 three times: no answer token is trained on."""
    last = points[-3:]
    if len(last) < 3 or any(p.loss for p in last):
        return None
    text = f"the loss is exactly 0 since step {last[0].step}: no answer token is trained on; raise cutoff_len"
    return TrainingFinding("zero", "stop", text, last[-1].step, last_sound_step(points[:-3]))


def check_divergence(points: Sequence[LoggedStep]) -> TrainingFinding | None:
    """A loss that stays far above what it was: above its start, or back where it came from.

    How high it starts says nothing: trainings come back from far above the loss of guessing.
    """
    losses = [p.loss for p in points]
    if len(losses) < 3 or not all(map(math.isfinite, losses)):
        return None
    start, best = min(losses[:3]), lowest_median(losses)
    gain = start - best
    above, lost = max(1.25 * start, best + 1), best + max(0.5, 0.75 * gain)
    learned = gain > max(0.5, 4 * noise_below(losses, lost))
    steps = [
        (2, 10 * start + 10, "ten times its start"),
        (FEW, max(above, best + 5 * noise_below(losses, above)), "above its start"),
        (FEW + 3, lost if learned else math.inf, "most of it lost again"),
    ]
    for count, bound, words in steps:
        bad = trailing_above(losses, bound)
        if bad >= count:
            first = points[-bad]
            text = (
                f"the loss diverged: {losses[-1]:.3g} at step {points[-1].step}, above {bound:.3g} since step "
                f"{first.step} ({words}), best {best:.3g}: {RATE}"
            )
            return TrainingFinding("diverged", "stop", text, points[-1].step, last_sound_step(points[:-bad]))
    return None


def lowest_median(losses: Sequence[float]) -> float:
    """The best smoothed value: the lowest median of three in a row."""
    return min(median(losses[i : i + 3]) for i in range(len(losses) - 2))


def noise_below(losses: Sequence[float], bound: float) -> float:
    """Standard deviation of one value before the values at the end that lie above `bound`; 0 where those are too few.

    By the median step from one to the next: of normal noise that is 0.954 of it.
    """
    calm = losses[: len(losses) - trailing_above(losses, bound)]
    return median(abs(b - a) for a, b in pairwise(calm)) / 0.954 if len(calm) >= 3 else 0.0


def trailing_above(values: Sequence[float], bound: float) -> int:
    """How many values at the end lie above `bound` without a break."""
    return next((i for i, v in enumerate(reversed(values)) if v <= bound), len(values))


def check_gradients(points: Sequence[LoggedStep]) -> TrainingFinding | None:
    """Gradients a hundred times what they were; they are clipped, so only a loss that suffers ends the training."""
    known = [p for p in points if p.grad_norm is not None and math.isfinite(p.grad_norm) and math.isfinite(p.loss)]
    if len(known) < 3 * FEW:
        return None
    usual = median(p.grad_norm or 0.0 for p in known[:-FEW])
    bound = max(10.0, 100 * usual)
    bad = trailing_above([p.grad_norm or 0.0 for p in known], bound)
    if bad < FEW:
        return None
    hurt = all(p.loss > lowest_median([q.loss for q in known]) + 0.5 for p in known[-FEW:])
    text = (
        f"gradient norm {known[-1].grad_norm:.3g} at step {known[-1].step}, above {bound:.3g} since step "
        f"{known[-bad].step} (usual {usual:.3g}), loss {known[-1].loss:.3g}: {RATE}"
    )
    return TrainingFinding(
        "exploded", "stop" if hurt else "warning", text, known[-1].step, last_sound_step(known[:-bad])
    )


def check_flat_loss(points: Sequence[LoggedStep], of: int) -> TrainingFinding | None:
    """Nothing is learned. Certain, and the end, only when no weight has moved at all; a level loss alone is a warning."""
    if len(points) < FEW or points[-1].step < 0.1 * of:
        return None
    last = points[-1]
    if last.moved == 0.0 and all(p.moved == 0.0 for p in points[-FEW:]):
        text = (
            f"the loss does not move: no weight has changed up to step {last.step}, learning rate {last.rate}, "
            f"loss {points[0].loss:.3g} and {last.loss:.3g}: learning_rate is too small or nothing is trainable"
        )
        return TrainingFinding("flat", "stop", text, last.step, 0)
    losses = [p.loss for p in points]
    if len(losses) < 5 * FEW or not all(map(math.isfinite, losses)) or not is_level(losses):
        return None
    text = f"the loss is level since the first step: {losses[0]:.3g}, now {losses[-1]:.3g} at step {last.step}"
    return TrainingFinding("flat", "warning", text, last.step)


def is_level(losses: Sequence[float]) -> bool:
    """No tendency down (Mann-Kendall), no difference of the thirds beyond 2 %, no fall at the very start."""
    third = len(losses) // 3
    first, last = median(losses[:third]), median(losses[-third:])
    near = abs(last - first) < 0.02 * abs(first) and abs(median(losses[:3]) - first) < 0.02 * abs(first)
    return near and mann_kendall(losses) > -0.5


def mann_kendall(values: Sequence[float]) -> float:
    """Mann-Kendall: pairs that rise minus pairs that fall, in standard deviations of a shuffled order."""
    n = len(values)
    signs = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])
    return signs / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)


def check_stall(signs: MonitorSigns) -> TrainingFinding | None:
    """No sign of life for many times the usual, and for minutes."""
    if signs.quiet is None or signs.step >= signs.of:
        return None
    usual = max(STALL_STEPS * (signs.step_seconds or signs.expected), 5 * signs.longest, 5 * signs.save_seconds)
    limit = max(STALL_SECONDS, usual)
    if signs.quiet <= limit:
        return None
    each = "" if signs.step_seconds is None else f"; a step takes {signs.step_seconds:.2g} s"
    return TrainingFinding(
        "stalled", "stop", f"no step since {signs.quiet:.0f} s after step {signs.step}{each}", signs.step
    )


def check_disk(signs: MonitorSigns) -> TrainingFinding | None:
    """The next checkpoint will not fit."""
    need = int(1.1 * signs.save_bytes)
    if signs.free_disk is None or not need or signs.step >= signs.of or signs.free_disk >= need:
        return None
    text = f"the next checkpoint needs {format_size(need)} and {format_size(signs.free_disk)} of disk are free"
    return TrainingFinding("disk", "stop", text, signs.step)


def check_memory(signs: MonitorSigns) -> TrainingFinding | None:
    """Near the limit at which the job is ended; it may stay there, so nothing is stopped."""
    if signs.memory is None or signs.memory_limit is None or signs.memory <= 0.95 * signs.memory_limit:
        return None
    text = f"{format_size(signs.memory)} of {format_size(signs.memory_limit)} of memory are used"
    return TrainingFinding("memory", "warning", text, signs.step)


def check_deadline(signs: MonitorSigns) -> TrainingFinding | None:
    """The deadline cannot be met: said as soon as it is known, and ended when just enough time is left to save."""
    if signs.left is None or (signs.of and signs.step >= signs.of):
        return None
    pace = signs.step_seconds if len(signs.points) >= 2 else None
    need = None if pace is None else pace * (signs.of - signs.step)
    if need is not None and need <= signs.left:
        return None
    over = signs.left <= signs.reserve
    if need is None and not over:
        return None
    wanted = "" if need is None else f", {format_duration(need)} would be needed ({pace:.2g} s a step)"
    text = f"the deadline cannot be met: step {signs.step} of {signs.of}, {format_duration(max(0.0, signs.left))} are left{wanted}"
    return TrainingFinding("deadline", "stop" if over else "warning", text, signs.step)
