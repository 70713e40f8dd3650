"""GPUs are promised once, by count and memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.tasks import BatchTask


def task(run_id: str, **more: Any) -> BatchTask:
    return BatchTask(run_id=run_id, benchmark="b", model="m", options={}, **more)


def test_whole_gpus_and_shared_ones() -> None:
    devices = Devices({0: 80, 1: 80, 2: 24})
    assert devices.take(task("a", device_memory=40)) == (0,)
    assert devices.take(task("b", device_memory=30)) == (0,), "the fullest that fits"
    assert devices.take(task("d", gpus=(2,))) == (2,)
    assert devices.take(task("c", gpus=2)) is None
    devices.give_back(task("a"))
    devices.give_back(task("b"))
    assert devices.take(task("c", gpus=2)) == (0, 1)
    assert devices.take(task("e")) is None


def test_without_gpus_everything_starts() -> None:
    devices = Devices({})
    devices.check(task("a", gpus=(0, 1)))
    assert devices.take(task("a", gpus=(0, 1))) == ()


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"gpus": (7,)}, "no GPU 7; right are 0, 1"),
        ({"gpus": 3}, "wants 3 GPUs, and this machine has 2"),
        ({"device_memory": 50}, r"wants 1 GPUs of .*, and this machine has 0 \(its largest has .*\)"),
    ],
)
def test_what_could_never_start_is_refused(more: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidRequestError, match=refusal):
        Devices({0: 40, 1: 24}).check(task("a", **more))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, 10, 25, 40]), st.integers(1, 2)), max_size=30))
def test_nothing_is_promised_twice(moves: list[tuple[int, int | None, int]]) -> None:
    memory = {0: 40, 1: 40, 2: 25}
    devices, held = Devices(memory), set[str]()
    for number, size, count in moves:
        one = task(str(number), device_memory=size, gpus=count)
        if one.run_id in held:
            devices.give_back(one)
            held.discard(one.run_id)
        elif (got := devices.take(one)) is not None:
            assert len(set(got)) == count
            held.add(one.run_id)
        assert all(0 <= devices.free[gpu] <= memory[gpu] for gpu in memory)
    for run_id in held:
        devices.give_back(task(run_id))
    assert devices.free == memory
