"""Any generating configuration of OpenCompass by name: its own items, its own verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmark_answers import measured
from tests.conftest import linked_home
from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmarks import items, resolve, sealed_items
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation import ItemSet


@pytest.mark.slow
def test_a_configuration_is_asked_and_judged_as_its_own(opencompass: Engine, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=linked_home(tmp_path / "home"))
    data = settings.home.root / "opencompass_data" / "data" / "gsm8k"
    data.mkdir(parents=True)
    for split, count in (("train", 3), ("test", 24)):
        rows = [{"question": f"What is {i} and {3 * i}?", "answer": f"A sum.\n#### {4 * i}"} for i in range(1, count)]
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = resolve("opencompass:gsm8k.gsm8k_gen", settings.home, settings=settings)
    found = (*items(folder, "validation"), *sealed_items(folder))
    assert len(found) == 23 and "What is 1 and 3?" in "".join(item.fields["prompt"] for item in found)
    asked = ItemSet("stock", folder.benchmark, "validation", found)
    answerers = {
        "right": lambda _, item: f"It is {json.loads(item.answer)['reference']}.",
        "wrong": lambda _, item: f"It is 1{json.loads(item.answer)['reference']}.",
    }
    scores = measured(opencompass, tmp_path, [asked], answerers)
    assert {name: scores[name, "stock"].value for name in answerers} == {"right": 100, "wrong": 0}

    for name, told in (
        ("opencompass:gsm8k_gem", "did you mean 'gsm8k_gen'"),
        ("opencompass:hellaswag_ppl", "not by generation"),
    ):
        with pytest.raises(SetupError, match=told):
            resolve(name, settings.home, settings=settings)
