"""What a training proves: read from the engine's own files, whatever its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.errors import RecipeError
from tuneloop.tools.trained import log_points, tail_slope, verified

CONFIG = {"finetuning_type": "full"}


def write(
    out: Path, losses: list[Any], step: int = 10, planned: int = 10, weights: bool = True, norm: Any = 1.0
) -> Path:
    history = [{"step": i, "loss": loss, "grad_norm": norm} for i, loss in enumerate(losses, 1)]
    state = {"global_step": step, "max_steps": planned, "log_history": history}
    (out / "trainer_state.json").write_text(json.dumps(state))
    if weights:
        (out / "model.safetensors").write_bytes(b"x")
    return out


def test_a_whole_training(tmp_path: Path) -> None:
    found = verified(write(tmp_path, [3.0, 2.0, 1.0, 0.5]), CONFIG, rows=7, seconds=12.34)
    assert (found.steps, found.rows, found.first_loss, found.last_loss, found.seconds) == (10, 7, 3.0, 0.5, 12.3)
    assert found.tail_slope < 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"losses": [1.0], "step": 9}, "ended at step 9 of 10"),
        ({"losses": []}, "logged no loss"),
        ({"losses": [1.0, float("nan")]}, "NaN, infinite or exactly 0"),
        ({"losses": [1.0, 0.0]}, "NaN, infinite or exactly 0"),
        ({"losses": [1.0, 0.5], "norm": float("inf")}, "NaN, infinite or exactly 0"),
        ({"losses": [1.0, 0.5], "weights": False}, "no weights"),
    ],
)
def test_exit_status_0_proves_nothing(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        verified(write(tmp_path, **changes), CONFIG, rows=1, seconds=1)


@pytest.mark.parametrize(("waited", "whole"), [(3, True), (2, False)])
def test_early_stopping_is_an_end_when_its_patience_is_over(tmp_path: Path, waited: int, whole: bool) -> None:
    write(tmp_path, [2.0, 1.0], step=7)
    file = tmp_path / "trainer_state.json"
    stopping = {"args": {"early_stopping_patience": 3}, "attributes": {"early_stopping_patience_counter": waited}}
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "stateful_callbacks": {"EarlyStoppingCallback": stopping}})
    )
    if whole:
        assert verified(tmp_path, CONFIG, 5, 1.0).steps == 7
    else:
        with pytest.raises(RecipeError, match="ended at step 7"):
            verified(tmp_path, CONFIG, 5, 1.0)


def test_no_state_at_all(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no trainer_state\.json"):
        verified(tmp_path, CONFIG, rows=1, seconds=1)


def test_a_resumed_log_counts_a_step_once_and_skips_a_torn_line(tmp_path: Path) -> None:
    rows = [{"current_steps": s, "loss": float(s)} for s in (5, 10, 15, 10, 15, 20)]
    text = "".join(json.dumps(r) + "\n" for r in rows) + '{"current_steps": 25, "lo'
    (tmp_path / "trainer_log.jsonl").write_text(text)
    assert [p["current_steps"] for p in log_points(tmp_path)] == [5, 10, 15, 20]


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=60))
def test_the_slope_is_always_a_number(losses: list[float]) -> None:
    assert tail_slope(losses) == tail_slope(losses)


@given(st.integers(8, 60))
def test_a_falling_loss_has_a_negative_slope(count: int) -> None:
    assert tail_slope([10.0 / (i + 1) for i in range(count)]) < 0
    assert tail_slope([1.0] * count) == 0
