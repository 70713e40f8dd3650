"""The report of a run without a benchmark claims nothing, in words and in numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.report.test_report import experiment, report_data
from tuneloop.core.experiment import Candidate, Candidates
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.benchmark_items.of_run import UNEVALUATED
from tuneloop.tools.report.data import RunFacts
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.report.unevaluated import unevaluated_card, unevaluated_verdict, write_unevaluated_report

TRAINED = experiment(1, 50, False).model_copy(update={"score": None})
SPEC = RunSpec(benchmark="none", base_model="tiny", loop_n=1)


def facts(*, trained: bool) -> RunFacts:
    """Of one experiment that was trained, or failed in its training."""
    done = TRAINED.model_copy(update={"feedback": TRAINED.feedback.model_copy(update={"comparison": None})})
    whole = report_data(done if trained else experiment(1, None, False))
    values = {name: getattr(whole, name) for name in RunFacts.model_fields}
    chosen = Candidates(chosen=Candidate(experiment=1) if trained else None)
    return RunFacts.model_validate({**values, "spec": SPEC, "benchmark": UNEVALUATED, "candidates": chosen})


def written(tmp_path: Path, data: RunFacts) -> RunFolder:
    run = RunFolder(tmp_path / "r1")
    if data.number:
        run.best.mkdir(parents=True)
    write_unevaluated_report(run, data)
    return run


def test_page_and_card_say_that_nothing_is_proved(tmp_path: Path) -> None:
    run = written(tmp_path, facts(trained=True))
    for text in (run.report.read_text(), (run.best / "README.md").read_text()):
        assert "Nothing was evaluated and nothing is proved" in text
        assert "Whether the model is better or worse than tiny is unknown" in text
        for word in ("sealed test:", "p-value", "★", "is better than the base model"):
            assert word not in text
    assert "model-index" not in (run.best / "README.md").read_text()
    assert "| 1 | not evaluated | - | - | - | 900 |" in run.report.read_text()


def test_numbers_are_null_and_the_keys_stay(tmp_path: Path) -> None:
    run = written(tmp_path, facts(trained=True))
    told = read_json(run.report_json)
    assert read_report(run) == told, "what reads reports reads it"
    assert told["evaluated"] is False
    assert told["baseline"] == {"validation": None, "test": None}
    assert told["best"] == {
        "experiment": 1, "training": 1, "delivered": True, "claimed": False, "validation": None, "test": None
    }  # fmt: skip
    assert (told["claim"], told["metric"]) == (None, None)
    assert told["says"] == unevaluated_verdict(facts(trained=True))


def test_failed_training_delivers_nothing(tmp_path: Path) -> None:
    data = facts(trained=False)
    run = written(tmp_path, data)
    assert unevaluated_verdict(data) == "No model is delivered: experiment 1 failed in train. Nothing was evaluated."
    assert read_json(run.report_json)["best"]["delivered"] is False
    assert not run.best.exists()
    with pytest.raises(ValueError, match="no model"):
        unevaluated_card("r1", data)
