from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tuneloop.core.run_spec import Guard, RunSpec, parse_seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12h", 43200.0), ("90m", 5400.0), ("3600", 3600.0), (3600, 3600.0), ("2d", 172800.0), ("1.5h", 5400.0)],
)
def test_times_as_people_write_them(text: object, expected: float) -> None:
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", [None, "", "0", 0, "unlimited", "None"])
def test_no_limit(text: object) -> None:
    assert parse_seconds(text) is None


@pytest.mark.parametrize("text", ["-5", "12 hours", "h", "1e9999x", "12h30"])
def test_nonsense_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="right is"):
        parse_seconds(text)


@given(st.integers(1, 10**6), st.sampled_from("smhd"))
def test_units_scale(count: int, unit: str) -> None:
    assert parse_seconds(f"{count}{unit}") == count * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]


@pytest.mark.parametrize(
    "bad",
    [{"loop_n": -1}, {"loop_n": 0}, {"timeout": "-3h"}, {"upper_data_size_limit": 0}, {"benchmark": ""}, {"oops": 1}],
)
def test_a_bad_spec_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RunSpec.model_validate({"benchmark": "b", "base_model": "m", **bad})


@pytest.mark.parametrize(
    "bad",
    [
        {"benchmark": "a\0"},
        {"also": ["a\0"]},
        {"base_model": "\0m"},
        {"datasets": ["d", "a\0b"]},
        {"benchmark_description": "\0"},
        {"guards": ["a\0:-2"]},
    ],
)
def test_a_nul_in_a_text_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="NUL"):
        RunSpec.model_validate({"benchmark": "b", "base_model": "m", **bad})


@pytest.mark.parametrize("asked", [{"loop_n": 2}, {"seeds": 2}, {"parallel": 2}])
def test_what_compares_scores_needs_a_benchmark(asked: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="compares nothing"):
        RunSpec.model_validate({"benchmark": "none", "base_model": "m", **asked})


def test_a_spec_survives_yaml_and_back() -> None:
    spec = RunSpec(benchmark="b", base_model="m", datasets=("d",), timeout=43200.0, loop_n=3)
    assert RunSpec.model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("text", "benchmark", "points"),
    [("mmlu:-2", "mmlu", 2), (" opencompass:hellaswag:-0.5", "opencompass:hellaswag", 0.5)],
)
def test_a_guard_as_people_write_it(text: str, benchmark: str, points: float) -> None:
    found = Guard.model_validate(text)
    assert found == Guard(benchmark=benchmark, points=points)
    assert Guard.model_validate(str(found)) == found
    assert Guard.model_validate(found.model_dump()) == found


@pytest.mark.parametrize("text", ["mmlu", "mmlu:2", "mmlu:-", "mmlu:-0", "mmlu:-100", ":-2", "mmlu:-2%"])
def test_no_guard_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValidationError, match=r"right is BENCHMARK:-POINTS, e\.g\. mmlu:-2"):
        Guard.model_validate(text)


@pytest.mark.parametrize(
    ("given", "found"), [("200000", 200_000), ("200k", 200_000), ("1.5M", 1_500_000), (7, 7), (None, None)]
)
def test_tokens(given: object, found: int | None) -> None:
    assert RunSpec(benchmark="b", base_model="m", max_tokens=given).max_tokens == found


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("max_tokens", "many", "e.g. 200000, 200k or 1.5M"),
        ("max_tokens", "-5", "e.g. 200000"),
        ("max_tokens", "0", "greater than 0"),
        ("max_cost", "5$", "no number of US dollars; right is a number above 0"),
        ("max_cost", "nan", "right is a number above 0"),
        ("max_cost", -1, "right is a number above 0"),
        ("max_cost", "0", "right is a number above 0"),
        ("max_cost", "1e9999", "right is a number above 0"),
        ("max_cost", True, "right is a number above 0"),
        ("max_gpu_hours", "2h", "no number of GPU-hours"),
        ("max_gpu_hours", float("inf"), "no number of GPU-hours"),
    ],
)
def test_limits_that_are_none(name: str, wrong: object, right: str) -> None:
    with pytest.raises(ValidationError, match=right):
        RunSpec.model_validate({"benchmark": "b", "base_model": "m", name: wrong})


@pytest.mark.parametrize(
    ("parallel", "window"), [(1, 1), (2, 3), (4, 6), (8, 12), (9, 18), (32, 64), (33, 99), (100, 300)]
)
def test_window_grows_faster_than_what_runs_at_once(parallel: int, window: int) -> None:
    assert RunSpec(benchmark="b", base_model="m", parallel=parallel).window == window
