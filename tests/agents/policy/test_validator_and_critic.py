"""Failures get a culprit and a repair its author can carry out; results get an explanation in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tuneloop.core.experiment import Critique, Diagnosis, EarlyStop, Training
from tuneloop.core.score import Comparison, Score


@pytest.fixture
def task(world, kit):
    rows = [{"q": q, "s": s, "key": a} for q, s, a, _ in kit.noisy_stories(600, 1, 0.4)]
    return world("boxed", [(q + "\nUse \\boxed{}.", a) for q, _, a in kit.stories(60, 2)], {"rows.jsonl": rows})


@pytest.mark.parametrize(
    ("failure", "culprit", "says"),
    [
        (
            "smoke_run: the loss is NaN or infinite within the first steps: lower learning_rate",
            "config",
            "learning rate",
        ),
        ("the loss does not move: learning_rate is too small", "config", "by 5"),
        ("train.1: crash, exit status 1\ntorch.OutOfMemoryError: CUDA out of memory", "config", "halve the batch"),
        ("train: DefaultCPUAllocator: can't allocate memory: you tried to allocate 32768000 bytes", "config", "halve"),
        ("train.yaml:3 learning_rat: unknown key; did you mean 'learning_rate'?", "config", "learning_rat"),
        ("train.yaml:7 cutoff_len: 4096 is more than the model's max positions 512", "config", "cutoff_len to 512"),
        ("IndexError: index out of range in self", "config", "template"),
        ("data.json: no row is left (240 overlap with validation)", "data", "strictest"),
        ("data.json: 34 % of 100 outputs hold no answer that the scorer finds", "data", "form"),
        (
            'data.json:2: row 1 has no "output"; right is text\ndata.json: 20 of 20 rows have wrong fields',
            "data",
            "right is text",
        ),
        ("process_data.py failed. dry_run.1: crash\nKeyError: 'question'", "script", "what the error says"),
        ("OSError: [Errno 28] No space left on device", "environment", "disk"),
        ("build_data: process_data.py: time limit of 3600 s", "script", "fewer"),
        ("smoke_run failed. smoke_run.1: timeout, exit status -15", "config", "halve the steps"),
        ("train failed. 12 valid samples\nRuntimeError: CUDA error: device-side assert triggered", "config", "error"),
        ("train failed. ValueError: Cannot find valid samples, check `data`", "data", "strictest"),
    ],
)
def test_culprits(task, failure, culprit, says):
    found = task.ask("validator", Diagnosis, failure=failure)
    assert (found.culprit, says in found.repair) == (culprit, True), found
    assert found.problem and "\n" not in found.problem


def test_an_unknown_failure_still_gets_an_answer(task):
    assert task.ask("validator", Diagnosis, failure="Strange noises.").repair


def test_too_few_rows_soften_the_script_more_with_each_attempt(task):
    first = task.hypothesis()
    diagnosis = task.ask("validator", Diagnosis, failure="data.json: no row is left ()")
    steps = [
        task.script(first, diagnosis=diagnosis, attempt=n).code.split("STEPS = [")[1].count("    (") for n in range(3)
    ]
    assert steps[0] >= steps[1] > steps[2]


def test_rows_too_long_are_capped(task):
    first = task.hypothesis()
    said = Diagnosis(culprit="data", problem="12 rows are too long for cutoff_len", repair="drop the longest rows")
    assert "(cap_length," in task.script(first, diagnosis=said, attempt=1).code


def test_answers_that_training_would_cut_off_are_capped(task):
    failure = (
        "data.json: 50 % of 20 outputs are cut before their end, where the answer is: the longest record has 900 tokens, "
        "cutoff_len is 200; right is shorter rows, or a cutoff_len that holds them"
    )
    said = task.ask("validator", Diagnosis, failure=failure, blamed="data")
    assert (said.culprit, "drop the longest rows" in said.repair) == ("data", True)
    assert "(cap_length," in task.script(task.hypothesis(), diagnosis=said, attempt=1).code


def brief_with_score(task, **changes) -> dict[str, Any]:
    first = task.hypothesis()
    score = Score(
        benchmark="own", split="validation", metric="accuracy", value=changes.pop("value", 40.0), low=30, high=50, n=60,
        parsed=changes.pop("parsed", 99.0),
    )  # fmt: skip
    training = Training(
        steps=320,
        seconds=60,
        rows=500,
        first_loss=3,
        last_loss=0.5,
        tail_slope=changes.pop("slope", -0.01),
        method="full",
    )
    comparison = Comparison(n=60, units=60, gain=40, low=27.1, high=52.4, wins=24, losses=0, better=True)
    return {"hypothesis": first, "score": score, "training": training, "comparison": comparison, **changes}


def test_critic_tells_numbers_and_a_lesson(task):
    row = {"id": "1", "prompt": "p", "prediction": "3 + 4 = 8", "parsed": "8", "answer": "7"}
    task.answers["evaluation_explain_failures"] = {"items": [row]}
    found = task.ask("critic", Critique, **brief_with_score(task))
    assert (
        "24 items won and 0 lost against the incumbent: +40.0 points (95 %: 27.1 to 52.4) on 60 items"
        in found.explanation
    )
    assert "40.0" in found.explanation and "false equation" in found.explanation
    assert "gave +40.0 points (95 %: 27.1 to 52.4) on 60 items" in found.lesson


def test_critic_names_what_turned_a_better_candidate_down(task):
    found = task.ask("critic", Critique, **brief_with_score(task), reasons=("mmlu: lost 3.0 points on 300 items",))
    assert "on 60 items but forgot too much: mmlu: lost 3.0 points" in found.lesson


def test_critic_of_a_tie_says_that_it_did_not_help(task):
    told = brief_with_score(task)
    told["comparison"] = Comparison(n=60, units=60, gain=0, low=-5, high=5, wins=3, losses=3, better=False)
    found = task.ask("critic", Critique, **told, reasons=("no better than the incumbent",))
    assert "did not help (+0.0 points)" in found.lesson


@pytest.mark.parametrize(
    ("changes", "kind", "blame"),
    [
        ({"parsed": 30.0, "value": 10.0}, "format.answer_only", "format"),
        ({"slope": -0.2}, "underfit.longer", "underfit"),
        ({}, "format.answer_only", "none"),
    ],
)
def test_critic_blames_what_most_is_expected_of(task, changes, kind, blame):
    task.prefer(kind)
    assert task.ask("critic", Critique, **brief_with_score(task, **changes)).blame == blame


def test_critic_of_a_failure(task):
    found = task.ask("critic", Critique, hypothesis=task.hypothesis(), failure="train: the loss is NaN")
    assert "NaN" in found.lesson


def test_critic_of_a_training_that_diverged_blames_the_rate(task):
    said = "train: training stopped at step 40 of 320: the loss diverged: the learning rate is too high"
    assert task.ask("critic", Critique, hypothesis=task.hypothesis(), failure=said).blame == "rate"


def test_critic_tells_why_a_training_was_stopped(task):
    told = brief_with_score(task)
    stopped = EarlyStop(kind="nan", text="the loss became NaN at step 210", at=210, step=192, of=320)
    told["training"] = told["training"].model_copy(update={"stopped": stopped, "steps": 192})
    found = task.ask("critic", Critique, **told)
    assert "stopped at step 210 of 320; the model is that of step 192" in found.explanation
    assert found.blame == "rate"
    task.prefer("format.answer_only")
    late = brief_with_score(task, parsed=30.0, value=10.0)
    late["training"] = told["training"].model_copy(update={"stopped": stopped.model_copy(update={"kind": "deadline"})})
    assert task.ask("critic", Critique, **late).blame == "format", "its rate is not to blame"
