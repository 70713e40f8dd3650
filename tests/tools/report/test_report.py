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

from tuneloop.core.budget import Limits, Spent
from tuneloop.core.catalog import Benchmark
from tuneloop.core.experiment import (
    Candidate,
    Candidates,
    Cost,
    Critique,
    Experiment,
    Failure,
    Feedback,
    Forecast,
    Hypothesis,
    Journal,
    Training,
)
from tuneloop.core.formatting import format_comparison
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.score import Claim, Comparison, GuardCheck, ItemResult, Score, ValidationHalves
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.hub.base_models import JudgedModel, ModelChoice
from tuneloop.tools.llm_proxy.ledger import Sums
from tuneloop.tools.report import tables
from tuneloop.tools.report.caveats import caveat_lines
from tuneloop.tools.report.data import ModelUse, ReportData
from tuneloop.tools.report.markdown import plain_verdict, provenance, report_markdown
from tuneloop.tools.report.report_json import report_facts
from tuneloop.tools.report.tables import markdown_table
from tuneloop.tools.report.turns import NodeTime
from tuneloop.tools.report.write import write_report
from tuneloop.tools.runs.fork import Fork

KEYS = [
    "run_id",
    "benchmark",
    "base_model",
    "model_choice",
    "metric",
    "direction",
    "baseline",
    "best",
    "experiments",
    "budget",
]
KEYS += ["versions", "seeds"]
MORE = [
    "evaluated",
    "sandbox",
    "planner",
    "claim",
    "smallest_gain",
    "halves",
    "trainings",
    "guards_test",
    "opening",
    "stopped",
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


def comparison(gain: float, n: int = 200) -> Comparison:
    return Comparison(n=n, units=n, gain=gain, low=gain - 6, high=gain + 6, wins=60, losses=4, better=gain > 0)


def claim(gain: float, p_value: float = 0.0003, **changes: object) -> Claim:
    """On 400 sealed items; the interval is six points wide to either side."""
    values = {"p_value": p_value, "claimed": p_value <= 0.05 and gain > 6, **changes}
    return Claim.model_validate({**comparison(gain, 400).model_dump(), **values})


def halves(shown: float, unseen: float) -> ValidationHalves:
    """Gains on 487 shown and on 513 unseen items; their difference is known to eight points."""
    difference = shown - unseen
    return ValidationHalves(
        shown=comparison(shown, 487),
        unseen=comparison(unseen, 513),
        difference=difference,
        low=difference - 8,
        high=difference + 8,
    )


def experiment(number: int, value: float | None, promoted: bool, statement: str = "drop wrong labels") -> Experiment:
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
            promoted=promoted,
            comparison=comparison(12 if promoted else -2) if scored else None,
            critique=Critique(explanation="it helped", lesson="keep it"),
        ),
        seconds=75,
    )


def report_data(*experiments: Experiment, **changes: object) -> ReportData:
    """Of a run whose last promoted experiment went to the sealed test and gained 52 points there."""
    best = next((e for e in reversed(experiments) if e.outcome == "promoted"), None)
    sealed: dict[str, object] = (
        {
            "candidates": Candidates(chosen=Candidate(experiment=best.number)),
            "best_validation": best.score,
            "best_test": score(63, 400, "test"),
            "claim": claim(52),
        }
        if best
        else {}
    )
    values: dict[str, object] = {
        "spec": RunSpec(benchmark="b", base_model="tiny", loop_n=1),
        "loop_n": 3,  # two were granted on the way
        "benchmark": Benchmark(name="b", description="Put the number in \\boxed{}."),
        "base_model": "tiny",
        "baseline_validation": score(10),
        "baseline_test": score(11, 400, "test"),
        "smallest_gain": 5.5,
        "validation_shown": 200,
        **sealed,
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
        "opening": 3,
    }
    return ReportData.model_validate({**values, **changes})


def whole() -> ReportData:
    return report_data(experiment(1, 50, True), experiment(2, None, False), experiment(3, 62, True))


def test_who_judged_is_said() -> None:
    judged = Benchmark(name="b", description="d", judge=True)
    by_rule = report_data(experiment(1, 50, True), benchmark=judged)
    assert any("the rule decided alone" in line for line in caveat_lines(by_rule))
    said = {"asked": 9, "correct": 4, "unknown": 1}
    told = by_rule.baseline_test
    assert told is not None
    both = report_data(benchmark=judged, baseline_test={**told.model_dump(), "judged": said})
    assert any("base 9 replies, 4 right, 1 without a verdict" in line for line in caveat_lines(both))
    assert not any("judge" in line for line in caveat_lines(whole()))


def test_what_the_scripts_left_out_is_said() -> None:
    assert not any("raw records" in line.casefold() for line in caveat_lines(whole()))
    data = whole().model_copy(update={"raw_overlaps": {"mine": 5}, "refused": {2: 3}})
    lines = "\n".join(caveat_lines(data))
    assert "data scripts leave out or the gate refuses: mine 5." in lines
    assert "refused before a script left them out: experiment 2: 3." in lines
    assert (report_facts("r", data)["raw_overlaps"], report_facts("r", data)["refused_overlaps"]) == (
        {"mine": 5},
        {"2": 3},
    )


def test_who_answered_is_said() -> None:
    data = whole().model_copy(update={"planner": "chat gpt", "answers": {"gpt": 9, "offline": 2, "": 1}})
    assert (
        "Planner: chat gpt (9 of the answers by gpt; 2 of the answers by the offline policy, as no model answered; "
        "1 of the answers by nobody, as there was none that could be used)."
    ) in provenance(data)
    assert "Planner: offline. " in provenance(whole().model_copy(update={"planner": "offline"}))


def test_keys_and_numbers(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, whole())
    told = json.loads(run.report_json.read_text())
    assert sorted(told) == sorted(KEYS + MORE)
    assert told["run_id"] == "r1"
    assert told["baseline"]["test"] == {"value": 11, "n": 400, "low": 6, "high": 16}
    assert told["best"] == {
        "experiment": 3,
        "training": 1,
        "delivered": True,
        "claimed": True,
        "validation": {"value": 62, "n": 200, "low": 57, "high": 67},
        "test": {"value": 63, "n": 400, "low": 58, "high": 68},
    }
    assert [e["outcome"] for e in told["experiments"]] == ["promoted", "failed", "promoted"]
    assert told["experiments"][1]["validation"] is None
    assert told["experiments"][1]["failure"]["node"] == "train"
    assert told["experiments"][0]["comparison"]["gain"] == 12
    assert told["contamination"] == {"1": {"validation": 0, "unseen": 0, "test": 7}}
    assert (told["claim"]["p_value"], told["smallest_gain"], told["opening"]) == (0.0003, 5.5, 3)
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
    assert "31 of 200 validation prompts are longer" in report_markdown("r", report_data(baseline_validation=cut))
    assert "prompts are longer" not in report_markdown("r", whole())


def test_best_is_promoted_and_experiments_have_no_test_score() -> None:
    """The original's page reads the test after every loop and calls the highest the best."""
    told = report_facts("r", report_data(experiment(1, 50, True), experiment(2, 90, False)))
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
        "11.0 → 63.0, +52.0 points (95 %: 46.0 to 58.0) on 400 items.",
        "Sealed test: +52.0 points (95 %: 46.0 to 58.0) on 400 items, p = 0.0003; the candidate is better on 60 items, the "
        "base model on 4.",
        "The sealed test of 400 items finds a gain of 5.5 points four times in five.",
        "This was opening 3 of this sealed test on this machine.",
        "2 models were measured on validation. The score of the best of them flatters: only the sealed test supports a claim.",
        "| 1 | promoted | 50.0 (45-55) | +12.0 (6.0 to 18.0) |",
        "Parsed on validation: base 97 %, best 97 %",
        "experiment 1: 0 validation, 0 unseen, 7 test",
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
    write_report(run, report_data(experiment(1, 10, False), losses={}, data={}, times=()))
    told = json.loads(run.report_json.read_text())
    assert told["best"] == {
        "experiment": None,
        "training": None,
        "delivered": False,
        "claimed": False,
        "validation": None,
        "test": None,
    }
    assert told["claim"] is None
    assert "Only the base model was measured on the sealed test: no experiment was promoted." in run.report.read_text()
    assert not (run.best / "README.md").exists()
    assert not (run.root / "report" / "losses.png").exists()


def test_without_any_experiment(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    write_report(run, report_data(losses={1: ()}))
    assert json.loads(run.report_json.read_text())["experiments"] == []
    assert (run.root / "report" / "scores.png").is_file()


def test_model_card_has_front_matter(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r1")
    run.best.mkdir(parents=True)
    write_report(run, whole().model_copy(update={"removed": {"mine": 12}}))
    assert "removed before the run read its data: mine 12" in run.report.read_text()
    _, front, body = (run.best / "README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["base_model"] == "tiny"
    values = {r["dataset"]["split"]: r["metrics"][0]["value"] for r in card["model-index"][0]["results"]}
    assert values == {"validation": 62.0, "test": 63.0}
    assert "process_data.py" in body


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
    assert "Models asked" not in report_markdown("r", report_data(calls={}))
    one = ASKED
    page = report_markdown("r", report_data(calls={"experiments-001-build_data": one}))
    assert "| experiments-001-build_data | 3 | 100 | 50 | 0.2500 | 2 | 0 | 1 |" in page
    assert "| all | 3 | 100" not in page
    other = one.model_copy(update={"cost": None})
    page = report_markdown("r", report_data(calls={"a": one, "b": one}))
    assert "| all | 6 | 200 | 100 | 0.5000 | 4 | 0 | 2 |" in page
    assert "| all | 6 | 200 | 100 | unknown | 4 | 0 | 2 |" in report_markdown(
        "r", report_data(calls={"a": one, "b": other})
    )


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_no_text_breaks_out_of_its_cell(cells: list[str]) -> None:
    lines = markdown_table(["h"] * len(cells), [cells]).splitlines()
    assert len(lines) == 3
    bare = lines[2].replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == len(cells) + 1
    assert not re.search("<[A-Za-z/!?]", bare)


@given(st.floats(0, 100), st.floats(0, 100))
def test_facts_are_strict_json(base: float, value: float) -> None:
    text = json.dumps(
        report_facts("r", report_data(experiment(1, value, True), baseline_validation=score(base))), allow_nan=False
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
    assert done.training is not None and not tables.forecasts_table(report_data(done)).count("→")
    said = Forecast(seconds=60, cpu=44, memory=900_000_000, steps=100, seconds_per_step=0.5)
    took = Cost(seconds=80, cpu=40, memory=1_000_000_000)
    training = done.training.model_copy(update={"forecast": said, "spent": took})
    page = report_markdown("r", report_data(done.model_copy(update={"training": training})))
    assert (
        "| 1 | 1 min 00 s, was 1 min 20 s (25 % too low) | 44 s, was 40 s (10 % too high) | 900 MB, was 1.0 GB (10 % too low) | - |"
        in page
    )


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
    assert "Not promoted: mmlu: lost 4.0 points. Lesson" in text
    assert told["guards_test"][0]["loss"] == -0.25
    assert told["experiments"][1]["reasons"] == ["mmlu: lost 4.0 points"]
    assert "Not to be forgotten" not in report_markdown("r2", whole())


def test_trainings_with_further_seeds_are_told_with_mean_and_spread() -> None:
    spec = RunSpec(benchmark="b", base_model="tiny", seeds=3)
    found = Candidates(
        chosen=Candidate(experiment=3, training=2), values={3: (62.0, 64.0, 60.0), 1: (50.0,), 2: (51.0, 49.0)}
    )
    data = whole().model_copy(update={"spec": spec, "candidates": found})
    text = report_markdown("r1", data)
    assert "| # | validation, a seed each | mean | standard deviation |" in text
    assert "| 3 | 62.0, 64.0, 60.0 | 62.0 | 2.0 |" in text
    assert "| 2 | 51.0, 49.0 | 50.0 | 1.4 |" in text
    assert "| 1 | 50.0 |" not in text, "one training has no spread"
    assert "3 seeds were asked for, time and budget reached for 3" in text
    assert "best: experiment 3, training 2" in text
    assert first_line(data).startswith("**Experiment 3, training 2 is better than the base model")
    told = report_facts("r1", data)
    assert told["trainings"] == {"3": [62, 64, 60], "1": [50], "2": [51, 49]}
    assert (told["best"]["experiment"], told["best"]["training"]) == (3, 2)
    assert len(told["experiments"]) == 3, "they are no experiments"
    assert "5 models were measured on validation." in text, "they are measured all the same"


def test_seeds_that_time_did_not_reach_are_told() -> None:
    spec = RunSpec(benchmark="b", base_model="tiny", seeds=3)
    found = Candidates(chosen=Candidate(experiment=3), values={3: (62.0,)})
    text = report_markdown("r1", whole().model_copy(update={"spec": spec, "candidates": found}))
    assert "3 seeds were asked for; no further training was made." in text
    assert "standard deviation" not in text
    assert "every candidate was trained and measured once" in report_markdown("r1", whole())


def test_clusters_and_the_interval_of_the_gain_are_told() -> None:
    found = claim(12, units=50, low=3.25, high=20.5)
    text = report_markdown("r1", report_data(experiment(1, 50, True), claim=found))
    assert "Sealed test: +12.0 points (95 %: 3.2 to 20.5) on 400 items in 50 clusters, p = 0.0003" in text


# --- the first line ------------------------------------------------------------------------------------------------------


def first_line(data: ReportData) -> str:
    """What a reader sees below the title."""
    return report_markdown("r1", data).splitlines()[2]


def test_first_line_where_nothing_was_promoted() -> None:
    data = report_data(experiment(1, 10, False))
    said = "No experiment was promoted; the base model stays."
    assert first_line(data) == f"**{said}** No `best/` is made."
    assert plain_verdict(data) == f"{said} No best/ is made."


def test_first_line_of_a_claim() -> None:
    assert first_line(whole()) == (
        "**Experiment 3 is better than the base model on the sealed test: 11.0 → 63.0, +52.0 points (95 %: 46.0 to 58.0) on "
        "400 items.** The model: `best/`."
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (claim(3, 0.21), "With p = 0.21 this does not show that it is better than the base model."),
        (claim(0, 1.0), "With p = 1 this does not show that it is better than the base model."),  # a tie is delivered
        (claim(7, 0.06), "Test (p = 0.06) and interval disagree: nothing is claimed."),
        (claim(5, 0.04), "Test (p = 0.04) and interval disagree: nothing is claimed."),
    ],
)
def test_first_line_for_higher_candidate_without_claim(found: Claim, why: str) -> None:
    data = report_data(experiment(1, 50, True), claim=found)
    line = first_line(data)
    assert (
        line
        == f"**Experiment 1 on the sealed test: 11.0 → 63.0, {format_comparison(found)}. {why}** The model: `best/`."
    )
    assert "is better than the base model on" not in line
    assert (data.delivered, data.claimed) == (True, False)


def test_first_line_of_a_candidate_below_the_base_model() -> None:
    data = report_data(experiment(1, 50, True), experiment(2, 62, True), claim=claim(-0.25, 0.9))
    assert first_line(data) == (
        "**No model is delivered: the sealed test measures experiment 2 below the base model: 11.0 → 63.0, -0.2 points (95 %: "
        "-6.2 to 5.8) on 400 items.** The candidate stays in `experiments/002/`."
    )
    told = report_facts("r1", data)["best"]
    assert (told["experiment"], told["delivered"], told["claimed"]) == (2, False, False)
    other = data.model_copy(update={"candidates": Candidates(chosen=Candidate(experiment=1, training=3))})
    assert "measures experiment 1, training 3 below" in first_line(other)
    assert first_line(other).endswith("The candidate stays in `experiments/001/seeds/3/`.")


def test_run_on_opened_lineage_claims_nothing() -> None:
    data = report_data(
        experiment(1, 50, True), fork=Fork(run="p", at=1), lineage_opened=True, opening=7, claim=claim(52, 1e-9)
    )
    line = first_line(data)
    assert "+52.0 points (95 %: 46.0 to 58.0) on 400 items." in line, "score and interval are given all the same"
    assert (
        "This was opening 7 of this test. The run, or one that it stands on, had opened it before: nothing is claimed."
        in line
    )
    assert "better than" not in line
    told = report_facts("r1", data)
    assert not (data.claimed or told["best"]["claimed"] or told["claim"]["claimed"])
    assert "Nothing is claimed, because this test had been opened before." in report_markdown("r1", data)
    assert any("Its lineage had opened its sealed test before." in said for said in caveat_lines(data))
    assert report_facts("r1", data)["forked_from"] == {"run": "p", "at": 1, "opened": True}
    fresh = data.model_copy(update={"lineage_opened": False})
    assert "is better than the base model on the sealed test" in first_line(fresh)


@pytest.mark.parametrize("gain", [52, 3, -1])
def test_guard_that_the_sealed_test_breaks_is_named_in_the_first_line(gain: float) -> None:
    data = report_data(experiment(1, 50, True), claim=claim(gain), guards_test=(guarded(3.5),))
    assert "mmlu lost 3.5 points on its sealed test, allowed are 2." in first_line(data)
    assert "mmlu lost 3.5 points" in plain_verdict(data)
    kept = data.model_copy(update={"guards_test": (guarded(2.0),)})
    assert "mmlu" not in first_line(kept), "what is allowed may be lost"


# --- halves --------------------------------------------------------------------------------------------------------------


def test_report_has_gain_of_each_half_and_their_difference() -> None:
    data = whole().model_copy(
        update={"baseline_validation": score(10, 1000), "validation_shown": 487, "halves": halves(52, 50)}
    )
    (said,) = [line for line in caveat_lines(data) if line.startswith("Experiments were compared on")]
    assert said == (
        "Experiments were compared on 1,000 validation items. Agents saw 487 of them, on which the best gained +52.0 points "
        "over the base model, and +50.0 on the 513 others: a difference of +2.0 points (95 %: -6.0 to 10.0)."
    )
    assert report_facts("r1", data)["halves"]["difference"] == 2


@pytest.mark.parametrize(
    ("shown", "unseen", "learned"), [(60, 50, True), (58.01, 50, True), (58, 50, False), (30, 50, False)]
)
def test_shown_items_may_have_been_learned_only_beyond_the_interval(shown: float, unseen: float, learned: bool) -> None:
    data = whole().model_copy(update={"halves": halves(shown, unseen)})
    assert halves(shown, unseen).learned is learned
    assert ("The shown items may have been learned." in report_markdown("r1", data)) is learned


def test_a_set_too_small_to_halve_is_told() -> None:
    text = report_markdown("r1", whole())
    assert "Experiments were compared on 200 validation items. Agents saw all of them." in text
    assert "learned" not in text
    nothing = report_data(experiment(1, 9, False), validation_shown=97)
    assert "Agents saw 97 of them." in report_markdown("r1", nothing), "no candidate: no gain to compare"


def test_scorer_failures_are_listed_and_counted_for_test() -> None:
    failed = [
        ItemResult(id=f"v{i}", prediction="p", parsed=None, answer="a", correct=False, error="KeyError: 'x'")
        for i in range(5)
    ]
    said = score(10).model_copy(update={"items": tuple(failed)}).scorer_failed()
    assert "failed on 5 of 200 items" in said and "v2: KeyError: 'x' and 2 more" in said
    sealed = score(10, split="test").model_copy(update={"items": tuple(failed)}).scorer_failed()
    assert "failed on 5 of 200 items" in sealed and "v0" not in sealed
    assert score(10).scorer_failed() == ""
    assert any(said in line for line in caveat_lines(report_data(scorer_failed={"Base on validation": said})))


def test_why_this_base_model_is_told_where_none_was_named() -> None:
    assert "Why this base model" not in report_markdown("r", whole())
    judged = JudgedModel(
        name="a", licence="MIT", why="", here=True, parameters=10**6, memory=1 << 30, value=12.5, items=16
    )
    other = judged.model_copy(update={"name": "b", "refused": "this machine has 1 GiB"})
    choice = ModelChoice(base_model="a", reason="it scores best", chosen_by="code", judged=(judged, other))
    data = whole().model_copy(update={"model_choice": choice})
    text = report_markdown("r", data)
    assert "No base model was named; a was chosen by code: it scores best." in text
    assert "a: 1.0 M parameters, MIT" in text
    assert "12.5 on 16 validation items" in text
    assert "not possible: this machine has 1 GiB" in text
    assert report_facts("r", data)["model_choice"]["judged"][1]["name"] == "b"
