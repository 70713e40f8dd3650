"""Any generating configuration of OpenCompass by name: its own items, its own verdicts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.benchmark_answers import measured
from tests.conftest import COMMAND, linked_home
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import sealed_items, select_validation
from tuneloop.tools.benchmark_items.resolve import check_benchmark, resolve_benchmark
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet

NAME = "opencompass:gsm8k.gsm8k_gen"


def write_data(home: Home) -> None:
    """Sums, as OpenCompass lays out gsm8k."""
    data = home.root / "opencompass_data" / "data" / "gsm8k"
    data.mkdir(parents=True)
    for split, count in (("train", 3), ("test", 24)):
        rows = [{"question": f"What is {i} and {3 * i}?", "answer": f"A sum.\n#### {4 * i}"} for i in range(1, count)]
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def refused(name: str, settings: Settings) -> str:
    with pytest.raises(InvalidRequestError) as told:
        resolve_benchmark(name, settings.home, settings=settings)
    return str(told.value)


def test_a_configuration_is_asked_and_judged_as_its_own(opencompass: Engine, tiny: Path, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=linked_home(tmp_path / "home"))
    assert f"they belong below {settings.home.root}/opencompass_data/data" in refused(NAME, settings)
    write_data(settings.home)
    folder = resolve_benchmark(NAME, settings.home, settings=settings)
    found = (*select_validation(folder).every, *sealed_items(folder))
    assert len(found) == 23 and "What is 1 and 3?" in "".join(item.fields["prompt"] for item in found)
    assert not list(settings.home.benchmarks.glob("*.export")), "test items lie below sealed/ alone"
    asked = ItemSet("stock", folder.benchmark, "validation", found)
    answerers = {
        "right": lambda _, item: f"It is {json.loads(item.answer)['reference']}.",
        "wrong": lambda _, item: f"It is 1{json.loads(item.answer)['reference']}.",
    }
    scores = measured(opencompass, tmp_path, [asked], answerers)
    assert {name: scores[name, "stock"].value for name in answerers} == {"right": 100, "wrong": 0}
    assert "not by generation" in refused("opencompass:hellaswag_ppl", settings)
    assert "BigCodeBench reads replies with" in refused("opencompass:bigcodebench_full_instruct_gen", settings)
    run_as_a_user_does(settings.home)


def run_as_a_user_does(home: Home) -> None:
    """The name goes through spec, prepare and list."""
    called = ("--benchmark", NAME, "--base-model", "tiny", "--dataset", "wordproblems", "--run-id", "stock")
    for argv in (("run", *called, "--step-n", "1"), ("list", "runs", "--json")):
        done = subprocess.run(
            [*COMMAND, *argv],
            env={**os.environ, "FT_FILE_PATH": str(home.root), "FT_BENCHMARK_LIMIT": "4"},
            cwd=home.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert [row["benchmark"] for row in json.loads(done.stdout)] == [NAME]
    base = json.loads((home.run("stock").baseline / "scores.json").read_text())
    assert (base["benchmark"], base["n"], base["value"]) == ("opencompass-gsm8k.gsm8k_gen", 4, 0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("opencompass:gsm8k_gem", "did you mean 'gsm8k_gen'"),
        ("opencompass:qqq", " more (opencompass:NAME"),
        ("opencompass:", "e.g. opencompass:gsm8k_gen"),
        ("opencompass:../x", "e.g. opencompass:gsm8k_gen"),
    ],
)
def test_a_name_that_is_none_is_refused_before_anything_costs(
    name: str, told: str, opencompass: Engine, tmp_path: Path
) -> None:
    settings = Settings(FT_FILE_PATH=linked_home(tmp_path / "home"))
    with pytest.raises(InvalidRequestError, match=re.escape(told)) as refused:
        check_benchmark(name, settings)
    assert len(str(refused.value)) < 2000
