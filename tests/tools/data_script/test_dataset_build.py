"""What a data script wrote goes through the gate as the experiment's config will train on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tools.data_script.test_run import run_tools  # noqa: F401 - a fixture
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_json, write_json
from tuneloop.tools.benchmark_items.folder import sealed_items, select_validation
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.data_script import dataset_build
from tuneloop.tools.data_script.dataset_build import gate_data, is_dataset_built
from tuneloop.tools.data_script.run import script_output
from tuneloop.tools.jobs.run_tools import RunTools


@pytest.mark.parametrize(
    ("config", "cut_at"), [("finetuning_type: full", 2048), ("cutoff_len: 1500", 1500), (None, 2048)]
)
def test_answers_cut_by_engine_default_length_are_counted(
    run_tools: RunTools,  # noqa: F811
    config: str | None,
    cut_at: int,
) -> None:
    folder = run_tools.run.experiment(1)
    raw = folder.root / "raw.json"
    rows = [{"instruction": f"Count from {n}.", "output": f"{n} and so on, " * 1500} for n in range(40)]
    write_json(raw, rows)
    if config:
        folder.config.write_text(config)
    with pytest.raises(RecipeError, match=f"cutoff_len, {cut_at} tokens|cutoff_len is {cut_at}") as refused:
        gate_data(run_tools, folder, raw)
    assert refused.value.culprit == "data"


def test_rows_with_unseen_items_are_dropped_counted_and_never_quoted(run_tools: RunTools) -> None:  # noqa: F811
    folder = run_tools.run.experiment(1)
    folder.script.write_text("")
    test = [item.fields["prompt"] for item in sealed_items(run_tools.benchmark)]
    unseen = [item.fields["prompt"] for item in select_validation(run_tools.benchmark).unseen]
    both = f"{test[3]}\n\n{unseen[4]}"
    asked = [
        *test[:3],
        *unseen[:3],
        f"**Task**\n\n> {unseen[3].upper()}",
        both,
        *(f"Count from {n}." for n in range(40)),
    ]
    raw = script_output(run_tools, folder, debug=False) / "data.json"
    write_json(raw, [{"instruction": text, "output": f"It is \\boxed{{{n}}}."} for n, text in enumerate(asked)])
    report = gate_data(run_tools, folder, raw)
    assert report.dropped == {"overlap with test": 3, "overlap with unseen": 5}
    assert report.rows == 40


@pytest.mark.parametrize(("template", "ending"), [("empty", "<|im_end|>"), ("chatml", "")])
def test_a_template_that_ends_no_answer_has_its_outputs_ended(
    run_tools: RunTools,  # noqa: F811
    template: str,
    ending: str,
) -> None:
    folder = run_tools.run.experiment(1)
    folder.script.write_text("")
    raw = script_output(run_tools, folder, debug=False) / "data.json"
    write_json(raw, [{"instruction": f"Count from {n}.", "output": f"It is \\boxed{{{n}}}."} for n in range(40)])
    folder.config.write_text(f"template: {template}\n")
    report = gate_data(run_tools, folder, raw)
    assert (report.ending, report.parsed) == (ending, 100)
    assert read_json(folder.data / "data.json")[3]["output"] == f"It is \\boxed{{3}}.{ending}"
    assert is_dataset_built(run_tools, folder)
    folder.config.write_text(f"template: {'chatml' if ending else 'empty'}\n")
    assert not is_dataset_built(run_tools, folder), "a repaired config wants other rows"


def test_a_model_that_names_no_end_of_text_is_warned_of(
    run_tools: RunTools,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = run_tools.run.experiment(1)
    raw = folder.root / "raw.json"
    write_json(raw, [{"instruction": f"Count from {n}.", "output": f"It is \\boxed{{{n}}}."} for n in range(40)])
    folder.config.write_text("template: empty\n")
    assert not any("end of text" in said for said in gate_data(run_tools, folder, raw).warnings)
    card = replace(read_model_card(run_tools.setup.model_root), end_of_text="")
    monkeypatch.setattr(dataset_build, "read_model_card", lambda _: card)
    (warned,) = (said for said in gate_data(run_tools, folder, raw).warnings if "end of text" in said)
    assert warned.startswith("template empty ends no answer")
