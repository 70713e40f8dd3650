"""The benchmarks of a run, and the stand-in of a run that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import NO_BENCHMARK, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import sealed_count, select_validation
from tuneloop.tools.benchmark_items.of_run import declared_benchmarks, resolve_benchmarks
from tuneloop.tools.benchmark_items.resolve import check_benchmark, registered_names
from tuneloop.tools.contamination.splits import make_guard


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(FT_FILE_PATH=tmp_path / "home")


def unevaluated(**more: str) -> RunSpec:
    return RunSpec.model_validate({"benchmark": NO_BENCHMARK, "base_model": "tiny", **more})


def test_stand_in_has_no_items(settings: Settings) -> None:
    (folder,) = resolve_benchmarks(unevaluated(), settings)
    assert (select_validation(folder, 9).every, sealed_count(folder)) == ((), 0)
    guard = make_guard((folder,), None)
    assert list(guard.find([{"prompt": "What is 2 + 2?"}])) == [None]
    assert resolve_benchmarks(unevaluated(), settings) == [folder]


def test_stand_in_takes_the_users_words(settings: Settings) -> None:
    (declared,) = declared_benchmarks(unevaluated(), settings)
    (folder,) = resolve_benchmarks(unevaluated(benchmark_description="Be polite."), settings)
    assert (declared.name, folder.benchmark.description) == ("none", "Be polite.")


def test_stand_in_is_no_benchmark_that_anything_else_knows(settings: Settings) -> None:
    assert NO_BENCHMARK not in registered_names()
    with pytest.raises(InvalidRequestError, match="'none' is unknown"):
        check_benchmark(NO_BENCHMARK, settings)


def test_all_that_is_measured_is_declared_the_decider_first(settings: Settings) -> None:
    spec = RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "tiny", "guards": ["gsm8k:-2"]})
    assert [one.name for one in declared_benchmarks(spec, settings)] == ["wordproblems", "gsm8k"]
    (found,) = resolve_benchmarks(spec.model_copy(update={"guards": (), "benchmark_description": "Count."}), settings)
    assert (found.benchmark.name, found.benchmark.description) == ("wordproblems", "Count.")
    assert sealed_count(found) > 100
