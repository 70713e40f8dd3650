"""What a data script wrote goes through the gate as the experiment's config will train on it."""

from __future__ import annotations

import pytest

from tests.tools.test_scripts import bench  # noqa: F401 - a fixture
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import write_json
from tuneloop.tools.building import gate_data
from tuneloop.tools.workbench import Workbench


@pytest.mark.parametrize(
    ("config", "cut_at"), [("finetuning_type: full", 2048), ("cutoff_len: 1500", 1500), (None, 2048)]
)
def test_answers_that_the_engine_would_cut_are_counted_also_at_its_own_length(
    bench: Workbench,  # noqa: F811
    config: str | None,
    cut_at: int,
) -> None:
    folder = bench.run.experiment(1)
    raw = folder.root / "raw.json"
    rows = [{"instruction": f"Count from {n}.", "output": f"{n} and so on, " * 1500} for n in range(40)]
    write_json(raw, rows)
    if config:
        folder.config.write_text(config)
    with pytest.raises(RecipeError, match=f"cutoff_len, {cut_at} tokens|cutoff_len is {cut_at}") as refused:
        gate_data(bench, folder, raw)
    assert refused.value.culprit == "data"
