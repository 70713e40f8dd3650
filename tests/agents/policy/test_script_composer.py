"""Scripts are whole: any plan over any profile parses, passes the script check, runs, and gives the same rows again."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneloop.agents.policy import row_operations
from tuneloop.agents.policy.data_plan import ORDER, with_step
from tuneloop.agents.policy.rows import Row, alpaca, question_text
from tuneloop.agents.policy.script_composer import FORM, SELECT, Form, compose, form_entry
from tuneloop.core.experiment import Step
from tuneloop.core.text import signs
from tuneloop.tools.data_script.static_check import check_script

OPTIONS: dict[str, dict[str, Any]] = {
    "drop_off_topic": {"words": ["pens", "has"], "at_least": 1},
    "repair_from_key": {"at_least": 0.5},
    "keep_agreed": {"votes": 2, "need_votes": []},
    "drop_unlikely_labels": {"folds": 3, "least": 0.01},
    "require_steps": {"equations_at_least": 1},
    "rewrite_equations": {"spacing": "compact"},
    "cap_length": {"question": 500, "solution": 500},
    "balance_answers": {"most": 3.0},
    SELECT: {"words": ["pens=0.5", "has=0.25"]},
}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


def form(**changes):
    values: dict[str, Any] = {
        "prompt": "{prompt}", "prefixes": {"prompt": ""}, "suffixes": {"prompt": "\nBox it."}, "constants": (),
        "shape": "integer", "labels": (), "low": 0.0, "high": 100.0, "options": None, "final": "\\boxed{ANSWER}",
        "steps": True, "evaluated": True,
    }  # fmt: skip
    return Form(**{**values, **changes})


@pytest.mark.parametrize(("evaluated", "output"), [(True, "3 + 4 = 7.\n7"), (False, "3 + 4 = 7.")])
def test_without_a_format_step_an_evaluated_answer_stays_at_the_end(evaluated: bool, output: str) -> None:
    row = Row("raw", {"prompt": "3 + 4?"}, "3 + 4 = 7.", "7")
    assert alpaca(row, form_entry(form(evaluated=evaluated), plan_of([])))["output"] == output


def plan_of(dos):
    source = {"dataset": "raw", "file": "rows.jsonl", "question": ["q"], "solution": "s", "key": "k", "where": ""}
    plan: tuple[Step, ...] = (Step(do="use_source", why="all there is", options=source),)
    for do in dos:
        plan = with_step(plan, do, 'why "so" \\ and {so}', **OPTIONS.get(do, {}))
    return plan


@settings(deadline=None)
@given(
    dos=st.sets(st.sampled_from([do for do in ORDER if do != "use_source"])),
    purpose=TEXTS,
    suffix=TEXTS,
    shape=st.sampled_from(["integer", "number", "letter", "label", "text"]),
)
def test_any_plan_gives_a_script_that_parses_and_keeps_the_contract(dos, purpose, suffix, shape):
    from tuneloop.agents.policy.data_engineer import purpose as safe

    code = compose(safe(purpose, ""), plan_of(dos), form(suffixes={"prompt": suffix}, shape=shape), 50, 3)
    ast.parse(code)
    assert check_script(code, frozenset({"pyarrow"})) == []
    assert "tuneloop" not in code


def run(folder, code, *flags):
    (folder / "process_data.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-I", "process_data.py", *flags], cwd=folder, env={"DATASETS_DIR": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    return (folder / "data.json").read_bytes(), json.loads(done.stdout)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dos=st.sets(st.sampled_from([do for do in ORDER if do != "use_source"])),
    rows=st.lists(
        st.fixed_dictionaries({"q": TEXTS, "s": TEXTS, "k": st.none() | st.integers(0, 99) | TEXTS}), min_size=1
    ),
)
def test_any_plan_runs_on_any_records(tmp_path, dos, rows):
    good = [{"q": f"Ann has {i} pens.", "s": f"{i} + 1 = {i + 1}", "k": i + 1} for i in range(20)]
    (tmp_path / "raw").mkdir(exist_ok=True)
    (tmp_path / "raw" / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (*rows, *good)))
    code = compose("Any.", plan_of(dos), form(), 15, 3)
    first, summary = run(tmp_path, code)
    assert run(tmp_path, code)[0] == first
    data = json.loads(first)
    assert len(data) == summary["rows"] <= 15
    assert all(isinstance(row[name], str) for row in data for name in ("instruction", "input", "output"))


def test_a_single_file_as_data_set(tmp_path):
    (tmp_path / "raw").write_text('{"q": "Ann has 3 pens.", "s": "3", "k": 3}\n')
    code = compose("One file.", plan_of([FORM]), form(), 15, 3)
    assert len(json.loads(run(tmp_path, code)[0])) == 1


def test_an_unknown_operation_is_named():
    with pytest.raises(KeyError, match="polish"):
        compose("x", (*plan_of([]), Step(do="polish")), form(), 5, 1)


def row(question, solution, answer, key=None, source="s", sure=False):
    return Row(source, {"prompt": question}, solution, answer, key, sure)


def test_repair_finds_the_one_wrong_sign_and_leaves_wrong_keys_alone():
    wrong = row("q", "First, 6 + 4 = 10. Then 10 - 3 = 7. So it is 7.", "7", "21")
    assert (
        row_operations.repair_from_key([wrong], 0.5)[0].solution == "First, 6 * 4 = 24. Then 24 - 3 = 21. So it is 21."
    )
    odd = [row("q", "6 + 4 = 10", "10", "11"), row("q", "1 + 1 = 2", "2", "77"), wrong]
    assert row_operations.repair_from_key(odd, 0.5) == odd


def test_a_repair_leaves_grouped_digits_in_place():
    grouped = row("q", "600 + 600 = 1,200. Then 1,200 - 3 = 1,197.", "1197", "1203")
    assert row_operations.repair_from_key([grouped], 0.5) == [grouped]
    comma = row("q", "3 + 9 = 12, then 12 * 2 = 24, so 24", "24", "6")
    assert row_operations.repair_from_key([comma], 0.5)[0].solution == "3 + 9 = 12, then 12 / 2 = 6, so 6"
    after = row("q", "6 + 4 = 10. So it is 10, or 1,000 cents.", "10", "24")
    assert row_operations.repair_from_key([after], 0.5)[0].solution == "6 * 4 = 24. So it is 10, or 24 cents."


ASKED = "Ann has 13 pens. She sells 3, gets 11, loses 12 and finds 11 more. How many?"


@pytest.mark.parametrize(
    ("question", "solution", "answer", "whole"),
    [
        (ASKED, "First, 13-3=10. Then, 10+11=21. Next, 21-12=9. It is 20.", "20",
         "First, 13-3=10. Then, 10+11=21. Next, 21-12=9\n9+11=20. It is 20."),
        (ASKED, "13 - 3 = 10\n10 + 11 = 21\nAnswer: 21", "21", "13 - 3 = 10\n10 + 11 = 21\nAnswer: 21"),
        (ASKED, "13-3=10\n10+11=21\nAnswer: 77", "77", None),
        ("4 bags, 2 each, 3 and 2 more?", "4*2=8, 8-6=2, so 4", "4", None),  # 2+2 and 2*2
        (ASKED, "Ten and ten are 20", "20", "Ten and ten are 20"),
        (ASKED, "13-3=10. So 11.", "11", "13-3=10. So 11."),
        ("Had 5, got 2, paid 8, 3 left?", "5+2=7. 5-8=-3, so he owes 3.", "3", "5+2=7. 5-8=-3, so he owes 3."),
        ("20 and 3, less 7?", "9+11=20, 20+3=23 apples. 23 apples - 7 apples = 16.", "16",
         "9+11=20, 20+3=23 apples. 23 apples - 7 apples = 16."),
        ("200, 20, 10%?", "100+100=200. 200-20=180. 180 * 10% = 18", "18", "100+100=200. 200-20=180. 180 * 10% = 18"),
        ("9, 7 and 2?", "1+8=9, 9+7=16 pens. So 18.", "18", "1+8=9, 9+7=16 pens. So 18."),
    ],
    ids=("its last step", "whole", "leads nowhere", "two ways", "no equations", "one equation", "negative", "units", "percent",
         "mid-sentence"),
)  # fmt: skip
def test_a_solution_that_stops_early_gets_its_last_step_or_goes(question, solution, answer, whole):
    kept = row_operations.finish_steps([row(question, solution, answer)])
    assert [r.solution for r in kept] == ([] if whole is None else [whole])


def test_agreement_needs_votes_unless_confirmed():
    rows = [row("a", "1", "1"), row("A ", "1", "1"), row("b", "2", "2"), row("c", "3", "3"), row("c", "4", "4"),
            row("d", "5", "5", source="t"), row("e", "6", "6", sure=True), row("e", "7", "7")]  # fmt: skip
    kept = row_operations.keep_agreed(rows, 2, ["s"])
    assert [(r.question, r.answer) for r in kept] == [("a", "1"), ("A ", "1"), ("d", "5"), ("e", "6")]


def test_chatter_goes_and_numbers_stay():
    rows = [row(f"q{i}", f"Great question! 3 + {i} = {3 + i}. Thanks for asking me.", str(3 + i)) for i in range(9)]
    assert row_operations.strip_chatter(rows)[2].solution == "3 + 2 = 5."
    alone = [row("q", "Sure! It is 5. I hope this helps!", "5")]
    assert row_operations.strip_chatter(alone)[0].solution == "It is 5."


def test_words_become_signs():
    text = "We take 3 plus 9, which makes 12, and 96 minus 12, which makes 84. I think it is 84."
    assert row_operations.equation_lines(signs(text), "compact") == "3+9=12\n96-12=84"


def test_selection_follows_the_benchmarks_words():
    rows = [row(f"buy {i}", "1", "1") for i in range(900)] + [row(f"split {i}", "1", "1") for i in range(100)]
    chosen = row_operations.select(rows, 200, 1, {"split": 0.4, "buy": 0.6})
    assert 0.25 < sum("split" in r.question for r in chosen) / 200 < 0.5
    assert chosen == row_operations.select(rows, 200, 1, {"split": 0.4, "buy": 0.6})


def test_records_that_hold_validation_items_are_skipped(tmp_path) -> None:
    rows = [
        {"q": f"Ann has {i} pens and gets 3. How many?", "s": f"{i} + 3 = {i + 3}", "k": str(i + 3)} for i in range(6)
    ]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    script = tmp_path / "process_data.py"
    script.write_text(compose("", plan_of(["drop_unanswered"]), form(), 10, 1, {"raw/rows.jsonl": "1 4"}))
    env = {"DATASETS_DIR": str(tmp_path), "PYTHONHASHSEED": "0"}
    subprocess.run([sys.executable, "-I", str(script)], check=True, env=env, cwd=tmp_path)
    asked = [row["instruction"] for row in json.loads((tmp_path / "data.json").read_text())]
    assert sorted(int(text.split()[2]) for text in asked) == [1, 2, 4, 5]  # records are counted from 1


@pytest.mark.parametrize(
    ("suffix", "text"), [(" =", "Sum: 1 + 2"), (" + 2 =", "Sum: 1"), ("?", "Sum: 1 + 2 ="), ("", "Sum: 1 + 2 =")]
)
def test_a_question_that_ends_as_the_benchmark_does_is_asked_with_one_end(suffix: str, text: str) -> None:
    task = {"prefixes": {}, "suffixes": {"q": suffix}, "constants": ()}
    assert question_text({"q": "Sum: 1 + 2 ="}, ["q"], "q", ("", ""), task) == text
