"""The report of a synthetic journal: keys, numbers, real plots, the honest sentences, and the order of writing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.cost import Cost, Forecast
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Journal, Training
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Limits, Spent
from tuneloop.core.run import RunSpec
from tuneloop.core.score import Comparison, GuardCheck, ItemResult, Score
from tuneloop.tools.gate.report import GateReport
from tuneloop.tools.proxy.ledger import Sums
from tuneloop.tools.report import tables
from tuneloop.tools.report.data import ModelUse, ReportData
from tuneloop.tools.report.facts import facts
from tuneloop.tools.report.markdown import made_with, report
from tuneloop.tools.report.tables import table
from tuneloop.tools.report.timing import NodeTime
from tuneloop.tools.report.trust import honesty
from tuneloop.tools.report.write import write_report

KEYS = ["run_id", "benchmark", "base_model", "metric", "direction", "baseline", "best", "experiments", "budget"]
KEYS += ["versions", "seeds"]
MORE = [
    "sandbox",
    "planner",
    "comparison_test",
    "guards_test",
    "reads_of_test",
    "forked_from",
    "contamination",
    "warnings",
    "raw_overlaps",
    "refused_overlaps",
    "also",
    "average",
    "calls",
    "answers",
]
ASKED = Sums(
    requests=3, tokens_in=100, tokens_out=50, tokens_cached=40, cost=0.25, cached=2, refused=1, failed=0
)  # fmt: skip


def score(value: float, n: int = 200, split: str = "validation") -> Score:
    return Score(
        benchmark="b", split=split, metric="accuracy", value=value, low=value - 5, high=value + 5, n=n, parsed=97.0
    )


def comparison(gain: float, accepted: bool, n: int = 200) -> Comparison:
    return Comparison(
        n=n,
        gain=gain,
        wins=60,
        losses=4,
        p_value=0.0003,
        candidates=1,
        threshold=0.05,
        smallest_gain=5.5,
        accepted=accepted,
    )


def experiment(number: int, value: float | None, accepted: bool, statement: str = "drop wrong labels") -> Experiment:
    scored = value is not None
    return Experiment(
        number=number,
        hypothesis=Hypothesis(statement=statement, reason="r", disproof="d", aspect="noise"),
        training=Training(
            steps=100, seconds=30, rows=900, first_loss=2.5, last_loss=0.4, tail_slope=-0.01, method="full"
        )
        if scored
        else None,
        score=score(value) if value is not None else None,
        failure=None if scored else Failure(node="train", culprit="config", text="loss is NaN"),
        feedback=Feedback(
            accepted=accepted,
            comparison=comparison(12, accepted) if scored else None,
            critique=Critique(explanation="it helped", lesson="keep it"),
        ),
        seconds=75,
    )


def report_data(*experiments: Experiment, **changes: object) -> ReportData:
    values: dict[str, object] = {
        "spec": RunSpec(benchmark="b", base_model="tiny", loop_n=1),
        "loop_n": 3,  # two were granted on the way
        "benchmark": Benchmark(name="b", description="Put the number in \\boxed{}."),
        "base_model": "tiny",
        "baseline_validation": score(10),
        "baseline_test": score(11, 400, "test"),
        "best_test": score(63, 400, "test"),
        "comparison_test": comparison(52, True, 400),
        "journal": Journal(experiments=experiments),
        "losses": {1: ((1, 2.5), (2, 1.0), (3, 0.4)), 3: ((1, 2.4), (2, 0.9))},
        "data": {
            1: GateReport(
                source="x", read=1000, rows=900, row_limit=2000, dropped={"overlap with test": 7, "empty output": 2}
            )
        },
        "seconds": 260.0,
        "spent": Spent(seconds=260, tokens=300, money=0.25, unpriced=("j",)),
        "limits": Limits(seconds=600),
        "models": (
            ModelUse(who="agents", model="gpt-5", price="list", sums=ASKED),
            ModelUse(who="judge", model="j", price="", sums=ASKED.model_copy(update={"cost": None})),
        ),
        "calls": {"agent:critic": ASKED},
        "times": [
            NodeTime(experiment=1, node="train", turns=1, seconds=90, cpu=0.5, jobs=85, attempts=1),
            NodeTime(experiment=1, node="evaluate", turns=1, seconds=30, cpu=0.2, cut=1, lost=61, jobs=40, attempts=2),
            NodeTime(experiment=3, node="train", turns=1, seconds=60, cpu=0.5, jobs=55, attempts=1),
        ],
        "versions": {"llamafactory": "0.9.5"},
        "seeds": {"training": 1},
        "sandbox": "bubblewrap",
        "planner": "offline policy",
        "reads_of_test": 2,
    }
    return ReportData.model_validate({**values, **changes})


def whole() -> ReportData:
    return report_data(experiment(1, 50, True), experiment(2, None, False), experiment(3, 62, True))


def test_who_judged_is_said() -> None:
    judged = Benchmark(name="b", description="d", judge=True)
    by_rule = report_data(experiment(1, 50, True), benchmark=judged)
    assert any("the rule decided alone" in line for line in honesty(by_rule))
    said = {"asked": 9, "correct": 4, "unknown": 1}
    told = by_rule.baseline_test
    assert told is not None
    both = report_data(benchmark=judged, baseline_test={**told.model_dump(), "judged": said})
    assert any("base 9 replies, 4 right, 1 without a verdict" in line for line in honesty(both))
    assert not any("judge" in line for line in honesty(whole()))


def test_what_the_scripts_left_out_is_said() -> None:
    assert not any("raw records" in line.casefold() for line in honesty(whole()))
    data = whole().model_copy(update={"raw_overlaps": {"mine": 5}, "refused": {2: 3}})
    lines = "\n".join(honesty(data))
    assert "data scripts leave out or the gate refuses: mine 5." in lines
    assert "refused before a script left them out: experiment 2: 3." in lines
    assert (facts("r", data)["raw_overlaps"], facts("r", data)["refused_overlaps"]) == ({"mine": 5}, {"2": 3})


def test_who_answered_is_said() -> None:
    data = whole().model_copy(update={"planner": "chat gpt", "answers": {"gpt": 9, "offline": 2, "": 1}})
    assert (
        "Planner: chat gpt (9 of the answers by gpt; 2 of the answers by the offline policy, as no model answered; "
        "1 of the answers by nobody, as there was none that could be used)."
    ) in made_with(data)
    assert "Planner: offline. " in made_with(whole().model_copy(update={"planner": "offline"}))


def test_keys_and_numbers(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    told = json.loads(run.report_json.read_text())
    assert list(told) == KEYS + MORE
    assert told["run_id"] == "r1"
    assert told["baseline"]["test"] == {"value": 11, "n": 400, "low": 6, "high": 16}
    assert told["best"] == {
        "experiment": 3,
        "validation": {"value": 62, "n": 200, "low": 57, "high": 67},
        "test": {"value": 63, "n": 400, "low": 58, "high": 68},
    }
    assert [e["outcome"] for e in told["experiments"]] == ["accepted", "failed", "accepted"]
    assert told["experiments"][1]["validation"] is None
    assert told["experiments"][1]["failure"]["node"] == "train"
    assert told["contamination"] == {"1": {"validation": 0, "test": 7}}
    assert told["budget"]["experiments"] == told["budget"]["loop_n"] == 3
    assert told["budget"]["nodes"] == {"train": 150.0, "evaluate": 30.0}
    assert told["budget"]["times"][1]["lost"] == 61


def test_foreign_files_that_a_training_left_are_named(tmp_path: Path) -> None:
    odd = experiment(1, 50, True)
    assert odd.training is not None
    told = odd.training.model_copy(update={"left_out": ("evil.py", "<img>[x](http://y)")})
    run = RunFolder(tmp_path / "r1")
    write_report(run, report_data(odd.model_copy(update={"training": told}), experiment(2, 62, True)))
    assert "nobody took: experiment 1: evil.py, &lt;img>\\[x](http://y).\n" in run.report.read_text()
    (left, clean) = [e["training"]["left_out"] for e in json.loads(run.report_json.read_text())["experiments"]]
    assert (left, clean) == (list(told.left_out), [])
    write_report(run, whole())
    assert "nobody took" not in run.report.read_text()


def test_prompts_that_were_cut_are_counted() -> None:
    cut = score(10).model_copy(update={"truncated": 31})
    assert "31 of 200 validation prompts are longer" in report("r", report_data(baseline_validation=cut))
    assert "prompts are longer" not in report("r", whole())


def test_the_best_is_what_was_accepted_and_no_experiment_has_a_test_score() -> None:
    """The original's page reads the test after every loop and calls the highest the best."""
    told = facts("r", report_data(experiment(1, 50, True), experiment(2, 90, False)))
    assert told["best"]["experiment"] == 1
    assert not [key for e in told["experiments"] for key in e if "test" in key]


def test_plots_are_real_pictures(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    text = run.report.read_text()
    for name in ("report/scores.png", "report/losses.png", "report/times.png"):
        assert f"]({name})" in text
        picture = imread(run.root / name)
        assert picture.shape[0] > 300 and picture.shape[1] > 600
        assert picture[..., :3].std() > 0.01, "an empty picture"


def test_the_page_is_honest(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    text = run.report.read_text()
    for said in (
        "11.0 → 63.0 (+52.0 points)",
        "n = 400, gain +52.0 points, p = 0.0003",
        "The smallest gain this test split could show (four times in five) is 5.5 points",
        "have read this test split 2 times before",
        "Candidates measured on validation: 2.",
        "Parsed on validation: base 97 %, best 97 %",
        "experiment 1: 0 validation, 7 test",
        "It failed in train (config): loss is NaN",
        "| experiments | 3 | 3 | 0 |",
        "| time | 4 min 20 s | 10 min 00 s | 5 min 40 s |",
        "| money | 0.25 USD | - | - |",
        "| agents | gpt-5 | 3 | 100 | 40 | 50 | 0.2500 | list of 20",
        "| judge | j | 3 | 100 | 40 | 50 | unknown | unknown |",
    ):
        assert said in text


def test_no_improvement_is_said_and_nothing_is_claimed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    run.best.mkdir(parents=True)
    data = report_data(experiment(1, 10, False), best_test=None, comparison_test=None, losses={}, data={}, times=())
    write_report(run, data)
    told = json.loads(run.report_json.read_text())
    assert told["best"] == {"experiment": None, "validation": None, "test": None}
    assert "the base model stays" in run.report.read_text()
    assert not (run.best / "README.md").exists()
    assert not (run.root / "report" / "losses.png").exists()


def test_a_lost_gain_on_the_test_is_not_called_better(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, report_data(experiment(1, 50, True), comparison_test=comparison(1, False, 400)))
    assert "not provably better" in run.report.read_text()


def test_without_any_experiment(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, report_data(best_test=None, comparison_test=None, losses={1: ()}))
    assert json.loads(run.report_json.read_text())["experiments"] == []
    assert (run.root / "report" / "scores.png").is_file()


def test_model_card_has_front_matter(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    run.best.mkdir(parents=True)
    write_report(run, whole().model_copy(update={"leaked": ("A row of the test.",)}))
    assert "A row of the test." in run.report.read_text()
    _, front, body = (run.best / "README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["base_model"] == "tiny"
    values = {r["dataset"]["split"]: r["metrics"][0]["value"] for r in card["model-index"][0]["results"]}
    assert values == {"validation": 62.0, "test": 63.0}
    assert "process_data.py" in body
    assert "A row of the test." not in body, "who is given the model is not given its test"


def test_report_json_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "r1")
    run.best.mkdir(parents=True)
    (run.best / "README.md").mkdir()  # the card cannot be written
    with pytest.raises(OSError, match="README"):
        write_report(run, whole())
    assert not run.report_json.exists()


def test_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    first = {p.name: p.read_bytes() for p in run.root.rglob("*") if p.is_file()}
    write_report(run, whole())
    assert {p.name: p.read_bytes() for p in run.root.rglob("*") if p.is_file()} == first


def test_what_models_were_asked_is_told_with_its_cost() -> None:
    assert "Models asked" not in report("r", report_data(calls={}))
    one = ASKED
    page = report("r", report_data(calls={"experiments-001-build_data": one}))
    assert "| experiments-001-build_data | 3 | 100 | 50 | 0.2500 | 2 | 0 | 1 |" in page
    assert "| all | 3 | 100" not in page
    other = one.model_copy(update={"cost": None})
    page = report("r", report_data(calls={"a": one, "b": one}))
    assert "| all | 6 | 200 | 100 | 0.5000 | 4 | 0 | 2 |" in page
    assert "| all | 6 | 200 | 100 | unknown | 4 | 0 | 2 |" in report("r", report_data(calls={"a": one, "b": other}))


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_no_text_breaks_out_of_its_cell(cells: list[str]) -> None:
    lines = table(["h"] * len(cells), [cells]).splitlines()
    assert len(lines) == 3
    bare = lines[2].replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == len(cells) + 1
    assert not re.search("<[A-Za-z/!?]", bare)


@given(st.floats(0, 100), st.floats(0, 100))
def test_facts_are_strict_json(base: float, value: float) -> None:
    text = json.dumps(
        facts("r", report_data(experiment(1, value, True), baseline_validation=score(base))), allow_nan=False
    )
    assert json.loads(text)["best"]["validation"]["value"] == value


def test_where_the_time_went(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    text = run.report.read_text()
    assert "| train | 2 | 2 min 30 s | 83 % | 2 min 20 s (93 %) | 1.0 s | - |" in text
    assert "| evaluate | 1 | 30 s | 17 % | 40 s (133 %) | 0.2 s | 1, 1 min 01 s |" in text
    assert "1 turns of nodes were cut short" in text
    assert "| 3 | 1 min 00 s | - | 1 min 00 s |" in text


def test_a_forecast_is_shown_beside_what_it_took() -> None:
    done = experiment(1, 50, True)
    assert done.training is not None and not tables.forecasts(report_data(done)).count("→")
    said = Forecast(seconds=60, cpu=44, memory=900_000_000, steps=100, seconds_per_step=0.5)
    took = Cost(seconds=80, cpu=40, memory=1_000_000_000)
    training = done.training.model_copy(update={"forecast": said, "spent": took})
    page = report("r", report_data(done.model_copy(update={"training": training})))
    assert "| 1 | 1 min 00 s → 1 min 20 s (-25 %) | 44 s → 40 s (+10 %) | 900 MB → 1.0 GB (-10 %) | - |" in page


def guarded(loss: float, *, able: bool = True) -> GuardCheck:
    smallest = 1.5 if able else 8.0
    return GuardCheck(
        benchmark="mmlu", allowed=2, n=900, loss=loss, worst=loss + 1, smallest=smallest, kept=loss + 1 <= 2
    )


@pytest.mark.parametrize("able", [True, False])
def test_what_was_not_to_be_forgotten_is_told(tmp_path: Path, able: bool) -> None:
    best, lost = experiment(1, 50, True), experiment(2, 62, False)
    kept = best.feedback.model_copy(update={"guards": (guarded(0.5, able=able),)})
    reasons = {"guards": (guarded(4),), "reasons": ("mmlu: lost 4.0 points",)}
    spec = RunSpec.model_validate({"benchmark": "b", "base_model": "tiny", "guards": ["mmlu:-2"]})
    data = report_data(
        best.model_copy(update={"feedback": kept}),
        lost.model_copy(update={"feedback": lost.feedback.model_copy(update=reasons)}),
        spec=spec,
        guards_test=(guarded(-0.25),),
    )
    run = RunFolder(tmp_path / "r1")
    write_report(run, data)
    text, told = run.report.read_text(), json.loads(run.report_json.read_text())
    how = "shown to stay within" if able else "by the measured loss: so few items can show 8.0 at best"
    assert f"| mmlu | 2 | 0.5 | 1.5 | 900 | -0.2 | 0.8 | 900 | {how} |" in text
    assert "Turned down: mmlu: lost 4.0 points. Lesson" in text
    assert told["guards_test"][0]["loss"] == -0.25
    assert told["experiments"][1]["reasons"] == ["mmlu: lost 4.0 points"]
    assert "Not to be forgotten" not in report("r2", whole())


def test_seeds_and_their_spread_are_told() -> None:
    several = experiment(1, 50, True)
    assert several.score is not None
    mean = several.score.model_copy(update={"by_seed": (52.0, 47.5, 50.5)})
    spec = RunSpec(benchmark="b", base_model="tiny", seeds=3)
    text = report("r1", report_data(several.model_copy(update={"score": mean}), spec=spec))
    assert "trained with 3 seeds: 52.0, 47.5, 50.5 on validation; their mean was compared" in text
    assert "3 seeds were asked for; there was time for one" in report("r1", report_data(several, spec=spec))
    assert "every candidate was trained and measured once" in report("r1", whole())


def test_clusters_and_the_interval_of_the_gain_are_told() -> None:
    found = comparison(12, True, 400).model_copy(update={"units": 50, "low": 3.25, "high": 20.5})
    text = report("r1", report_data(experiment(1, 50, True), comparison_test=found))
    assert "n = 400 in 50 clusters, gain +12.0 points (95 %: +3.2 to +20.5), p = 0.0003" in text


def test_items_on_which_the_scorer_failed_are_listed_and_those_of_the_test_counted() -> None:
    failed = [
        ItemResult(id=f"v{i}", prediction="p", parsed=None, answer="a", correct=False, error="KeyError: 'x'")
        for i in range(5)
    ]
    said = score(10).model_copy(update={"items": tuple(failed)}).scorer_failed()
    assert "failed on 5 of 200 items" in said and "v2: KeyError: 'x' and 2 more" in said
    sealed = score(10, split="test").model_copy(update={"items": tuple(failed)}).scorer_failed()
    assert "failed on 5 of 200 items" in sealed and "v0" not in sealed
    assert score(10).scorer_failed() == ""
    assert any(said in line for line in honesty(report_data(scorer_failed={"Base on validation": said})))
