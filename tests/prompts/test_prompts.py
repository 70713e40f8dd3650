from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tuneloop.core.brief import (
    Brief,
    BudgetLeft,
    FailedItem,
    FailureSummary,
    IdeaUnderWay,
    JournalRow,
    SplitSizes,
    TaskCard,
)
from tuneloop.core.budget import Amounts
from tuneloop.core.experiment import Diagnosis, EarlyStop, Hypothesis, Step, Throughput, Training
from tuneloop.core.score import Comparison, Score
from tuneloop.prompts import render
from tuneloop.prompts.sections import brief_sections
from tuneloop.prompts.tables import journal_table, plan_changes

FOLDER = Path(__file__).parents[2] / "prompts"
SNAPSHOTS = Path(__file__).parent / "snapshots"
NAMES = ("researcher", "data_engineer", "config_coder", "validator", "critic")

IDEA = Hypothesis(
    statement="Dropping rows whose key contradicts the answer raises accuracy.",
    reason="38 % of the keyed rows contradict their key.",
    disproof="No gain although fewer labels are wrong.",
    aspect="noise",
    parent=1,
    data_plan=(Step(do="drop_contradicted", why="the key is right", options={"key": "key"}),),
    training_plan={"learning_rate": 1e-3, "num_train_epochs": 3},
)
TRAINED = Training(steps=200, seconds=41, rows=1800, first_loss=2.5, last_loss=0.4, tail_slope=-0.03, method="full")


def score(value: float) -> Score:
    return Score(
        benchmark="b",
        split="validation",
        metric="accuracy",
        value=value,
        low=value - 5,
        high=value + 5,
        n=200,
        parsed=97,
    )


BRIEF = Brief(
    task=TaskCard(
        benchmark="b",
        domain="math",
        description="Solve it. The answer stands in \\boxed{}.",
        answer="boxed",
        reads="what stands in the last box",
        prompt="{prompt}",
        metric="accuracy",
        direction="max",
        max_new_tokens=64,
        base_model="tiny",
        datasets=("raw",),
        sizes=SplitSizes(validation=200, shown=100, test=500),
        row_limit=2000,
        seed=1,
        device="cpu",
    ),
    experiment=2,
    baseline=score(5),
    journal=(
        JournalRow(
            number=1,
            outcome="promoted",
            hypothesis=IDEA.model_copy(update={"parent": None}),
            rows=1800,
            training=TRAINED,
            value=50,
            low=43,
            high=57,
            parsed=97,
            gain=45,
            gain_low=38,
            gain_high=52,
            blame="noise",
            lesson="Labels matter.",
            failure=None,
        ),
    ),
    budget=BudgetLeft(experiments_left=2, seconds_left=3600, seconds_per_experiment=90),
    hypothesis=IDEA,
    attempt=1,
    diagnosis=Diagnosis(culprit="config", problem="cutoff_len is 0", repair="set it to 256"),
    failure="validate: train.yaml:3 cutoff_len: 0 is below 1",
    blamed="config",
    warnings=("data.json: 17 of 2000 rows dropped: too long",),
    parent_script="print(0)\n",
    parent_config="learning_rate: 0.0003\n",
    failures=(
        FailureSummary(
            experiment=1,
            n=200,
            kinds={
                "unparsed": (30, "no answer found: another form than the scorer reads"),
                "wrong": (70, "another one"),
            },
            items=(
                FailedItem(
                    kind="unparsed", asked="1 + 1?\nEnd with \\boxed{}.", right="2", said="It is\n\n2.", found=None
                ),
                FailedItem(kind="wrong", asked="2 + 2?", right="4", said="\\boxed{5}", found="5"),
            ),
        ),
    ),
    script="print(1)\n",
    config="finetuning_type: full\nlearning_rate: 0.001\ncutoff_len: 0\n",
    score=score(60),
    comparison=Comparison(n=200, units=200, gain=10, low=4.1, high=15.9, wins=30, losses=10, better=True),
    training=TRAINED,
)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_agent_is_told(name: str) -> None:
    """`UPDATE_SNAPSHOTS=1 pytest tests/prompts` writes them anew; read the difference before you commit it."""
    file = SNAPSHOTS / f"{name}.md"
    text = render(name, BRIEF)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(text)
    assert text == file.read_text()


def test_time_of_an_experiment_is_told_once() -> None:
    usual = Amounts(seconds=70, gpu_hours=0.5, tokens=400)
    budget = BRIEF.budget.model_copy(update={"tokens_left": 9000, "usual": usual})
    text = render("researcher", BRIEF.model_copy(update={"budget": budget}))
    assert "an experiment usually takes 90 s." in text
    assert "an experiment usually takes 0.50 GPU-h, 400 tokens." in text


def test_agents_see_that_a_training_was_stopped() -> None:
    stopped = EarlyStop(kind="diverged", text="the loss diverged: 9.1 at step 150", at=150, step=128, of=320)
    trained = TRAINED.model_copy(update={"steps": 128, "stopped": stopped})
    row = BRIEF.journal[0].model_copy(update={"training": trained})
    told = BRIEF.model_copy(update={"training": trained, "journal": (row,)})
    assert "stopped at step 150 of 320, its model is that of step 128: the loss diverged: 9.1" in render("critic", told)
    assert "| 128 of 320, diverged |" in render("researcher", told)


def test_models_are_named_where_the_script_may_ask_some() -> None:
    asked = BRIEF.task.model_copy(update={"strong_models": ("big",), "weak_models": ("s", "t"), "model_workers": 3})
    text = render("data_engineer", BRIEF.model_copy(update={"task": asked}))
    assert "may ask with `tuneloop_models`: strong big; weak s, t; at most 3 requests at once" in text
    assert "from tuneloop_models import ask_many" in text
    assert "ask_many" not in render("data_engineer", BRIEF)


def test_prompt_prefix_is_constant_within_a_run() -> None:
    """What stands before it is the same for every answer of an agent: only the task card and the base score are filled in."""
    for name in NAMES:
        text = (FOLDER / f"{name}.md").read_text()
        assert text.count("\n---\n") == 1
        assert set(re.findall(r"\$(\w+)", text.partition("\n---\n")[0])) <= {
            "data_is_data",
            "models",
            "task",
            "baseline",
            "stop",
            "data_rules",
        }


def test_the_journal_grows_at_its_end() -> None:
    """A provider's cache holds what was sent for the experiment before."""
    more = BRIEF.journal[0].model_copy(update={"number": 2, "lesson": "a | b\n| 3 | forged | row |"})
    told = [journal_table(rows) for rows in ((), BRIEF.journal, (*BRIEF.journal, more))]
    assert told[1].startswith(told[0])
    assert told[2].startswith(told[1])
    assert [text.count("\n") for text in told] == [1, 2, 3]


def test_journal_row_shows_differences_from_parent() -> None:
    steps = tuple(Step(do=f"a_step_of_many_{i}", options={"rows": str(i)}) for i in range(12))
    first = IDEA.model_copy(update={"parent": None, "data_plan": steps})
    longer = first.model_copy(update={"parent": 1, "training_plan": {"num_train_epochs": 6, "seed": 2}})
    bent = (*steps[1:], steps[0].model_copy(update={"options": {"rows": "9", "why": "more"}}))
    other = longer.model_copy(update={"parent": 2, "data_plan": (*bent[:-2], bent[-1], Step(do="dedupe"))})
    assert plan_changes(longer, first) == "from 1: num_train_epochs=6, seed=2; not named again: learning_rate"
    assert (
        plan_changes(other, longer)
        == "from 2: a_step_of_many_0 (rows=9, why=more), with dedupe; not named again: a_step_of_many_11"
    )
    turned = longer.model_copy(update={"data_plan": steps[::-1], "parent": 2})
    assert plan_changes(turned, longer) == "from 2: the same steps in another order"
    once = longer.model_copy(update={"data_plan": (*steps, steps[3]), "parent": 2})
    assert plan_changes(longer.model_copy(update={"parent": 3}), once) == "from 3: not named again: a_step_of_many_3"
    assert plan_changes(longer.model_copy(update={"parent": 2}), longer) == "from 2: nothing"
    assert plan_changes(first, None).endswith("a_step_of_many_11; learning_rate=0.001, num_train_epochs=3")
    row = BRIEF.journal[0].model_copy(update={"hypothesis": first})
    rows = [row.model_copy(update={"number": n, "hypothesis": h}) for n, h in ((1, first), (2, longer), (3, other))]
    assert "| from 1: num_train_epochs=6, seed=2; not named again: learning_rate |" in journal_table((*rows,))
    ahead = rows[1].model_copy(update={"hypothesis": longer.model_copy(update={"parent": 3})})
    assert journal_table((rows[0], ahead, rows[2])).startswith(journal_table((rows[0], ahead)))


def test_a_script_that_is_too_long_is_no_start() -> None:
    long = BRIEF.model_copy(update={"parent_script": "x = 1\n" * 5000, "script": ""})
    assert "too long to show: 30000 letters" in render("data_engineer", long)
    text = render("data_engineer", long.model_copy(update={"script": "y = 1\n" * 5000}))
    assert "x = 1" not in text, "the last attempt started from it"
    assert "letters…]" in text
    assert len(text) < 20_000


def test_result_names_gain_interval_and_verdict_but_no_proof() -> None:
    assert (
        "Against the incumbent: +10.0 points (95 %: 4.1 to 15.9) on 200 items (30 won, 10 lost): promoted."
        in render("critic", BRIEF)
    )
    against = BRIEF.model_copy(update={"reasons": ("mmlu: lost 3.0 points on 300 items",)})
    assert "10 lost): not promoted: mmlu: lost 3.0 points on 300 items." in render("critic", against)
    for name in NAMES:
        assert not re.search(r"\bp = |\bp-value|significan|\bprove|accepted", render(name, BRIEF)), name


def test_agents_are_told_of_unseen_items() -> None:
    assert "Items that you are not shown count too." in render("researcher", BRIEF)
    text = render("data_engineer", BRIEF)
    assert "rows that hold sealed test items, or validation items that are not shown, are dropped by code" in text
    assert "Rows that hold shown validation items are dropped and counted" in text
    task = BRIEF.task.model_copy(update={"files": ("raw/a.csv", "raw/b/c.json"), "refuse_overlaps": True})
    text = render("data_engineer", BRIEF.model_copy(update={"task": task}))
    assert "raw data are `$DATASETS_DIR/raw/a.csv`, `$DATASETS_DIR/raw/b/c.json`" in text
    assert "Rows that hold shown validation items refuse the data and are named" in text


def test_agents_are_told_that_nothing_is_evaluated() -> None:
    asked = BRIEF.model_copy(update={"task": BRIEF.task.model_copy(update={"evaluated": False})})
    told = brief_sections(asked)["task"]
    assert told.startswith("- no benchmark:") and "nothing is evaluated" in told
    for word in ("metric", "the scorer reads", "validation items decide", "prompt template"):
        assert word not in told


def test_a_config_that_failed_is_shown_without_the_script() -> None:
    assert "print(1)" not in render("validator", BRIEF)
    assert "print(1)" in render("validator", BRIEF.model_copy(update={"blamed": "script"}))


def test_an_unknown_name_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "odd.md").write_text("Hello $nobody")
    monkeypatch.setattr("tuneloop.prompts.files", lambda _: tmp_path)
    with pytest.raises(KeyError, match="nobody"):
        render("odd", BRIEF)


def test_every_part_is_used_by_some_prompt() -> None:
    texts = "".join((FOLDER / f"{name}.md").read_text() for name in NAMES)
    assert [part for part in brief_sections(BRIEF) if f"${part}" not in texts] == []


def test_measured_speed_stands_beside_what_is_left() -> None:
    found = Throughput(
        method="lora", device="cpu", threads=2, rows=2, tokens=100, seconds=0.5, per_token=0.005, overhead=6
    )
    assert "Measured on this machine" not in brief_sections(BRIEF)["budget"]
    assert brief_sections(BRIEF.model_copy(update={"throughput": found}))["budget"].endswith(
        " Measured on this machine before the first experiment (lora, batches of 2 rows, on cpu with 2 thread(s)): a training "
        "step of 16 rows of 64, 128, 256, 512 tokens takes 5.1 s, 10.2 s, 20.5 s, 41.0 s; beside its steps a training takes 6 s, "
        "and its smoke run before it has a quarter of the steps, five to ten."
    )


def test_researcher_of_a_batch_is_told_what_is_under_way() -> None:
    assert "Under way" not in render("researcher", BRIEF)
    beside = (IdeaUnderWay(number=2, hypothesis=IDEA.model_copy(update={"parent": None})),)
    said = render("researcher", BRIEF.model_copy(update={"under_way": beside}))
    assert "side by side" in said and f"- 2: {IDEA.statement} (drop_contradicted; learning_rate=0.001" in said
