"""What a training proves: read from the engine's own files, whatever its exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.errors import RecipeError
from tuneloop.tools.training.metrics import grace_seconds, read_pulse
from tuneloop.tools.training.result import device_memory, log_points, tail_slope, trainer_state, verify_state

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
    found = verify_state(write(tmp_path, [3.0, 2.0, 1.0, 0.5]), CONFIG, rows=7, seconds=12.34)
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
        verify_state(write(tmp_path, **changes), CONFIG, rows=1, seconds=1)


def test_a_step_that_mixed_precision_left_out_spoils_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, [3.0, 2.0, 1.0]) / "trainer_state.json"
    state = json.loads(file.read_text())
    state["log_history"][0]["grad_norm"] = float("inf")
    file.write_text(json.dumps(state))
    assert verify_state(tmp_path, CONFIG, rows=7, seconds=1).steps == 10


@pytest.mark.parametrize(("waited", "whole"), [(3, True), (2, False)])
def test_early_stopping_is_an_end_when_its_patience_is_over(tmp_path: Path, waited: int, whole: bool) -> None:
    write(tmp_path, [2.0, 1.0], step=7)
    file = tmp_path / "trainer_state.json"
    stopping = {"args": {"early_stopping_patience": 3}, "attributes": {"early_stopping_patience_counter": waited}}
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "stateful_callbacks": {"EarlyStoppingCallback": stopping}})
    )
    if whole:
        assert verify_state(tmp_path, CONFIG, 5, 1.0).steps == 7
    else:
        with pytest.raises(RecipeError, match="ended at step 7"):
            verify_state(tmp_path, CONFIG, 5, 1.0)


def test_no_state_at_all(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no trainer_state\.json"):
        verify_state(tmp_path, CONFIG, rows=1, seconds=1)


STRANGE = [
    "[]", "{", "null", "[" * 100_000, '{"global_step": 1}', '{"global_step": "1", "max_steps": "1", "log_history": []}',
    '{"global_step": 1, "max_steps": 1, "log_history": [1]}', '{"global_step": 1, "max_steps": 1, "log_history": 1}',
    json.dumps({"global_step": 10**4000, "max_steps": 10**4000, "log_history": []}),
]  # fmt: skip


@pytest.mark.parametrize("text", STRANGE)
def test_a_state_that_is_none_fails_the_recipe(text: str, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(text)
    with pytest.raises(RecipeError, match=r"trainer_state\.json (that is none|whose steps)"):
        verify_state(tmp_path, CONFIG, rows=1, seconds=1)
    with pytest.raises(RecipeError, match=r"trainer_state\.json (that is none|whose steps)"):
        trainer_state(tmp_path)


def test_losses_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    write(tmp_path, ["1", None, [1], 10**4000, 2.0, 1.0])
    assert verify_state(tmp_path, CONFIG, rows=1, seconds=1).first_loss == 2.0


def test_a_state_is_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", [2.0, 1.0])
    (tmp_path / "trainer_state.json").symlink_to("elsewhere/trainer_state.json")
    with pytest.raises(RecipeError, match="no plain file"):
        verify_state(tmp_path, CONFIG, rows=1, seconds=1)


@pytest.mark.parametrize("told", ["{", "[]", '{"device_memory": {"reserved": "1"}}', '{"device_memory": null}', "1"])
def test_a_strange_account_of_a_gpu_is_none(told: str, tmp_path: Path) -> None:
    (tmp_path / "cost.json").write_text(told)
    assert device_memory(tmp_path / "cost.json") is None
    (tmp_path / "cost.json").write_text('{"device_memory": {"reserved": 5}}')
    assert device_memory(tmp_path / "cost.json") == 5


@pytest.mark.parametrize(
    "told", ["{", "[]", '{"at": 1}', '{"at": "x", "began": 1, "step": 1, "of": 1}', " " * (1 << 17), "[" * 60_000]
)
def test_a_strange_pulse_is_none_and_grace_has_an_end(told: str, tmp_path: Path) -> None:
    (tmp_path / "pulse.json").write_text(told)
    assert (read_pulse(tmp_path), grace_seconds(tmp_path)) == ({}, 30)
    (tmp_path / "pulse.json").write_text('{"at": 1, "began": 1, "step": 1, "of": 1, "save_seconds": 1e300}')
    assert grace_seconds(tmp_path) == 3600


def test_log_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trainer_log.jsonl")
    assert log_points(tmp_path) == []


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
