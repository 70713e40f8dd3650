"""The live watch's rules: what real and made-up curves show, and what they must never show."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.experiment import TrainingFinding
from tuneloop.tools.training.metrics import logged_steps
from tuneloop.tools.training.monitor import LoggedStep, MonitorSigns, monitor_findings

CURVES = Path(__file__).parent / "curves"


def curve(losses: list[float], norms: list[float] | None = None, moved: float | None = 0.01) -> tuple[LoggedStep, ...]:
    norms = norms or [1.0] * len(losses)
    return tuple(LoggedStep(2 * i, x, n, 1e-3, moved) for i, (x, n) in enumerate(zip(losses, norms, strict=True), 1))


def found(losses: list[float], norms: list[float] | None = None, **more: object) -> list[TrainingFinding]:
    moved = more.pop("moved", 0.01)
    seen = curve(losses, norms, moved)  # type: ignore[arg-type]
    return list(monitor_findings(MonitorSigns(points=seen, step=seen[-1].step, of=100, **more)))  # type: ignore[arg-type]


def stops(losses: list[float], norms: list[float] | None = None, **more: object) -> list[str]:
    return [f.kind for f in found(losses, norms, **more) if f.level == "stop"]


def falling(count: int, start: float, end: float, noise: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [
        max(1e-4, end + (start - end) * math.exp(-4 * i / count) + chance.gauss(0, noise * start)) for i in range(count)
    ]


@given(st.integers(1, 60), st.floats(0.05, 6.5), st.floats(0, 1), st.floats(0, 0.12), st.integers(0, 10_000))
def test_no_run_that_learns_is_stopped(count: int, start: float, part: float, noise: float, seed: int) -> None:
    """Also when it learns slowly, or nothing that shows above its noise."""
    losses = falling(count, start, start * part, noise, seed)
    for n in {count, *range(1, count, 7)}:
        assert stops(losses[:n]) == []


@pytest.mark.parametrize("part", [0.9, 1.0])
def test_noise_is_no_divergence_and_hides_none(part: float) -> None:
    for seed in range(60):
        losses = falling(60, 6.5, 6.5 * part, 0.12, seed)
        assert [n for n in range(3, 60, 4) if stops(losses[:n])] == []
    learned = falling(25, 6.5, 1, 0.08, 3)
    assert stops([*learned, *(x + 5 for x in falling(8, 1, 1, 0.3, 4))]) == ["diverged"]


@given(st.lists(st.floats(0.5, 4), min_size=30, max_size=60), st.integers(5, 25), st.floats(5, 1000))
def test_a_spike_of_a_few_points_mends(losses: list[float], at: int, height: float) -> None:
    losses = [2 + 0.02 * x for x in losses]
    spiked = [*losses[:at], min(30.0, height), *losses[at:]]
    assert stops(spiked) == []


@given(st.integers(3, 40), st.integers(0, 3), st.sampled_from([math.nan, math.inf]))
def test_a_nan_stops_at_once_and_the_point_before_it_is_good(before: int, after: int, bad: float) -> None:
    losses = [*falling(before, 6, 1, 0.05, before), bad, *[bad] * after]
    (finding,) = [f for f in found(losses) if f.kind == "nan"]
    assert (finding.level, finding.good) == ("stop", 2 * before)
    assert str(2 * (before + 1)) in finding.text


@given(st.integers(4, 30), st.floats(10, 1e6))
def test_a_loss_far_above_its_start_stops_within_five_points(before: int, height: float) -> None:
    losses = falling(before, 6, 1, 0.02, before)
    assert stops([*losses, *[height] * 5]) == ["diverged"]
    (finding,) = [f for f in found([*losses, *[height] * 5]) if f.kind == "diverged"]
    assert finding.good == 2 * before


def test_what_was_learned_and_lost_again_stops() -> None:
    assert stops([*falling(20, 6, 0.3, 0.01, 1), *[5.6] * 8]) == ["diverged"]
    assert stops([*falling(20, 6, 0.3, 0.01, 1), *[5.6] * 4, 3.0, 2.0, 1.5, 1.0]) == []


def test_gradients_end_a_training_only_when_its_loss_suffers() -> None:
    norms = [1.0] * 15 + [5000.0] * 5
    assert [(f.kind, f.level) for f in found(falling(20, 6, 1, 0, 1), norms)] == [("exploded", "warning")]
    assert stops([*falling(15, 4, 1, 0, 1), *[2.2] * 5], norms) == ["exploded"]


def test_one_infinite_gradient_is_a_skipped_step() -> None:
    norms = [1.0] * 10
    norms[4] = math.inf
    assert stops(falling(10, 6, 1, 0, 1), norms) == []
    norms[5] = math.nan
    assert stops(falling(10, 6, 1, 0, 1), norms) == ["nan"]


def test_flat_is_certain_only_when_no_weight_moves() -> None:
    level = [3 + 0.001 * (i % 3) for i in range(30)]
    assert stops(level, moved=0.0) == ["flat"]
    assert [(f.kind, f.level) for f in found(level)] == [("flat", "warning")]
    assert stops(level[:5], moved=0.0) == ["flat"]
    assert found(level[:4], moved=0.0) == []


def test_zero_three_times() -> None:
    assert stops([1.0, 0.0, 0.0]) == []
    assert stops([1.0, 0.0, 0.0, 0.0]) == ["zero"]


@pytest.mark.parametrize(
    ("signs", "kinds"),
    [
        (MonitorSigns(step=5, of=10, quiet=170, step_seconds=1), []),
        (MonitorSigns(step=5, of=10, quiet=190, step_seconds=1), ["stalled"]),
        (MonitorSigns(step=0, of=10, quiet=190), ["stalled"]),
        (MonitorSigns(step=0, of=10, quiet=3000, expected=200), []),
        (MonitorSigns(step=1, of=10, quiet=4001, expected=200), ["stalled"]),
        (MonitorSigns(step=5, of=10, quiet=190, step_seconds=30), []),
        (MonitorSigns(step=5, of=10, quiet=601, step_seconds=30), ["stalled"]),
        (MonitorSigns(step=5, of=10, quiet=400, step_seconds=1, longest=90), []),
        (MonitorSigns(step=10, of=10, quiet=4000, step_seconds=1), []),
        (MonitorSigns(quiet=None), []),
    ],
)
def test_a_stall_is_many_steps_and_minutes(signs: MonitorSigns, kinds: list[str]) -> None:
    assert [f.kind for f in monitor_findings(signs)] == kinds


def test_disk_for_the_next_checkpoint() -> None:
    assert [f.kind for f in monitor_findings(MonitorSigns(step=5, of=10, save_bytes=100, free_disk=109))] == ["disk"]
    assert monitor_findings(MonitorSigns(step=5, of=10, save_bytes=100, free_disk=111)) == ()
    assert monitor_findings(MonitorSigns(step=10, of=10, save_bytes=100, free_disk=1)) == ()
    assert monitor_findings(MonitorSigns(step=5, of=10, save_bytes=0, free_disk=1)) == ()


def test_memory_near_its_limit_is_only_said() -> None:
    (finding,) = monitor_findings(MonitorSigns(step=5, of=10, memory=96, memory_limit=100))
    assert (finding.kind, finding.level) == ("memory", "warning")
    assert monitor_findings(MonitorSigns(step=5, of=10, memory=90, memory_limit=100)) == ()


def test_a_deadline_is_said_early_and_kept_just_in_time() -> None:
    seen = curve([3.0, 2.0])

    def at(left: float | None, step: int = 20, pace: float | None = 1.0) -> list[tuple[str, str]]:
        now = MonitorSigns(points=seen, step=step, of=100, step_seconds=pace, left=left, reserve=6)
        return [(f.kind, f.level) for f in monitor_findings(now)]

    assert at(None) == at(80) == []
    assert at(79) == at(6.5) == [("deadline", "warning")]
    assert at(5.9) == at(-3) == [("deadline", "stop")]
    assert at(5.0, step=96) == []
    assert at(5.0, step=100) == []
    assert at(100, pace=None) == [] and at(5.9, pace=None) == [("deadline", "stop")]


@given(
    st.lists(st.tuples(st.floats(), st.floats(), st.one_of(st.none(), st.floats(0, 1))), max_size=30),
    st.floats(0, 1e6),
    st.one_of(st.none(), st.floats(-1e3, 1e6)),
)
def test_any_log_gives_findings_in_words(rows: list[Any], quiet: float, left: float | None) -> None:
    seen = tuple(LoggedStep(i, loss, norm, 1e-3, moved) for i, (loss, norm, moved) in enumerate(rows, 1))
    found = monitor_findings(MonitorSigns(points=seen, step=len(rows), of=50, quiet=quiet, step_seconds=0.1, left=left))
    assert all(f.text and "\n" not in f.text for f in found)
    levels = [f.level for f in found]
    assert levels == sorted(levels, key=lambda level: level != "stop")


RECORDED = sorted(CURVES.glob("*.jsonl"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_trainings(file: Path) -> None:
    """Logs of real trainings of the embedded model, `<stop or none>_<what was done>.jsonl`: watched point by point."""
    seen = logged_steps([json.loads(line) for line in file.read_text().splitlines()])
    wanted = file.stem.split("_")[0]
    said: list[TrainingFinding] = []
    for n in range(1, len(seen) + 1):
        signs = MonitorSigns(points=seen[:n], step=seen[n - 1].step, of=seen[-1].step)
        said = [f for f in monitor_findings(signs) if f.level == "stop"]
        if said:
            break
    if wanted == "none":
        assert said == []
    else:
        assert said[0].kind == wanted
        assert said[0].step <= 0.5 * seen[-1].step


def test_there_are_recordings_of_both_sorts() -> None:
    assert {file.stem.split("_")[0] for file in RECORDED} >= {"none", "nan", "diverged", "flat"}
