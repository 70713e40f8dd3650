import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.contamination.probes import Hit
from tuneloop.tools.data_gate.chat_template import ChatTemplate, TemplatePart
from tuneloop.tools.data_gate.gate import run_gate
from tuneloop.tools.data_gate.report import GateReport, read_report
from tuneloop.tools.report.data import overlap_counts

BENCHMARK = Benchmark(name="b", description="d", answer="boxed")
Run = Callable[..., GateReport]


class Leaks:
    """Overlaps by a word; what a guard would do with n-grams."""

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        for row in rows:
            text = " ".join(row)
            if "VALID" in text:
                yield Hit("b", "validation", "v1")
            elif "SECRET" in text:
                yield Hit("b", "test", None)
            elif "HIDDEN" in text:
                yield Hit("b", "unseen", None)
            else:
                yield None


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One token a character."""
    whole = Tokenizer(models.WordLevel({chr(i): i for i in range(32, 127)} | {"?": 0}, unk_token="?"))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    whole.save(str(path))
    return path


@pytest.fixture
def run(tmp_path: Path, tokenizer: Path) -> Run:
    def call(rows: Any, **changes: Any) -> GateReport:
        raw = tmp_path / "data.json"
        raw.write_text(rows if isinstance(rows, str) else json.dumps(rows))
        options: dict[str, Any] = {
            "row_limit": 1000,
            "benchmark": BENCHMARK,
            "guard": Leaks(),
            "drop_overlaps": True,
            "cutoff_len": 200,
        } | changes
        return run_gate(raw, tmp_path / "out", tokenizer=tokenizer, **options)

    return call


def row(i: int = 0, **changes: Any) -> dict[str, Any]:
    return {"instruction": f"What is {i} + 1?", "input": "", "output": f"It is \\boxed{{{i + 1}}}"} | changes


def good(count: int) -> list[dict[str, Any]]:
    return [row(i) for i in range(count)]


def test_good_data_passes(run: Run, tmp_path: Path) -> None:
    report = run(good(50))
    assert report.ok
    assert (report.read, report.rows, report.parsed, report.dropped) == (50, 50, 100.0, {})
    assert report.warnings == ()
    assert json.loads((tmp_path / "out/data.json").read_text()) == good(50)
    assert read_report(tmp_path / "out") == report


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "empty list"),
        ({"rows": []}, "not a JSON list"),
        ("", "not a JSON list"),
        ("[{", "row 1: broken JSON"),
        ([row(), "text"], "row 2 is text, no object; expected instruction"),
        ([row(), {"question": "a", "answer": "b"}], 'row 2 has no field "instruction" (it has: question, answer)'),
        ([row(), {"instruction": "a"}], 'row 2 has no field "output"'),
        ([row(output=["a"])], 'row 1 field "output" is a list'),
        ([row(output=5)], 'row 1 field "output" is a number'),
        ([row(input={"a": 1})], 'row 1 field "input" is an object'),
        ([row(instruction=True)], 'row 1 field "instruction" is true or false'),
        ([row(i, output=" ") for i in range(10)], '10 of 10 rows are empty, first row 1 field "output"'),
        ([row(i, output=None) for i in range(10)], 'field "output"'),
        ([row(i, instruction="") for i in range(10)], 'first row 1 field "instruction"'),
        ([row(i, output="It is 5") for i in range(3)] + good(7), "30 % of 10 outputs hold no answer"),
        ([row(i, instruction=f"SECRET {i}") for i in range(5)], "no row is left (5 overlap with test)"),
    ],
)
def test_bad_data_is_refused(rows: Any, words: str, run: Run, tmp_path: Path) -> None:
    report = run(rows)
    assert any(words in e for e in report.errors), report.errors
    assert all(re.match(r"data\.json(:\d+: row \d+)?[: ]", e) for e in report.errors), report.errors
    assert not (tmp_path / "out/data.json").exists()
    assert read_report(tmp_path / "out") is None
    assert json.loads((tmp_path / "out/rejected.json").read_text())["errors"] == list(report.errors)
    assert not list((tmp_path / "out").glob("*.part"))


def test_the_right_ending_is_named(run: Run) -> None:
    wrong = [row(output="five") for _ in range(5)]
    assert "\\boxed{answer}" in run(wrong).errors[0]
    pattern = BENCHMARK.model_copy(update={"answer": r"regex:ANSWER (\d+)"})
    assert r"ANSWER (\d+)" in run(wrong, benchmark=pattern).errors[0]


def test_answers_without_the_reasoning_that_is_asked_for_are_named(run: Run) -> None:
    asks = BENCHMARK.model_copy(update={"prompt": "{question}\nPlease reason step by step."})
    alone = [row(i, output=f"\\boxed{{{i}}}") for i in range(6)]
    solved = [row(i, output=f"We add one to {i - 1} and get what was asked: \\boxed{{{i}}}") for i in range(10, 20)]
    told = "data.json: 100 % of 6 outputs are an answer alone, and the benchmark's prompt asks for reasoning before it"
    assert told in run(alone, benchmark=asks).warnings
    assert not [w for w in run([*alone, *solved], benchmark=asks).warnings if "answer alone" in w]
    allows = BENCHMARK.model_copy(update={"prompt": "{question}\nYou may reason first. Put the answer into a box."})
    for others in (BENCHMARK, allows):
        assert not [w for w in run(alone, benchmark=others).warnings if "answer alone" in w]


def test_many_wrong_rows_are_counted_and_five_shown(run: Run) -> None:
    report = run([{"q": 1}] * 30)
    assert len(report.errors) == 6
    assert "30 of 30 rows have wrong fields" in report.errors[-1]


def test_the_limit_is_named(run: Run) -> None:
    assert run(good(10), row_limit=10).ok
    assert run(good(11), row_limit=10).errors == (
        "data.json: 11 rows, and the limit is 10; choose the best 10 in the script",
    )


def test_overlaps_are_dropped_and_only_counted(run: Run, tmp_path: Path) -> None:
    leaks = [row(instruction=f"{w} {i}") for i, w in enumerate(["VALID", "SECRET", "SECRET", "HIDDEN", "HIDDEN"])]
    report = run([*good(3), *leaks, row(9, input="SECRET"), row(8, output="SECRET \\boxed{9}"), row(7, input="HIDDEN")])
    assert report.dropped == {"overlap with test": 4, "overlap with unseen": 3, "overlap with validation": 1}
    assert overlap_counts(report) == {"validation": 1, "unseen": 3, "test": 4}
    assert "data.json: 3 of 11 rows dropped: overlap with unseen" in report.warnings
    assert (report.rows, report.overlaps) == (3, ())
    left = "".join(p.read_text() for p in (tmp_path / "out").iterdir())
    assert not any(word in left for word in ("SECRET", "HIDDEN", "VALID"))


def test_validation_rows_are_named_sealed_rows_counted(run: Run, tmp_path: Path) -> None:
    leaks = [row(instruction=f"{w} {i}") for i, w in enumerate(["SECRET", "VALID", "VALID", "SECRET", "HIDDEN"])]
    report = run([*good(3), *leaks], drop_overlaps=False)
    assert report.errors == (
        "data.json: 2 of 8 rows overlap with validation items (2 that overlap with the test and 1 that overlap with unseen "
        "items are dropped already): row 5 holds b v1: 'VALID 1'; row 6 holds b v1: 'VALID 2'; drop them in the script, or "
        "start the run without --refuse-overlaps",
    )
    assert [(o.row, o.benchmark, o.item, o.text) for o in report.overlaps] == [
        (5, "b", "v1", "VALID 1"),
        (6, "b", "v1", "VALID 2"),
    ]
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["rejected.json"]
    rejected = (tmp_path / "out" / "rejected.json").read_text()
    assert "SECRET" not in rejected and "HIDDEN" not in rejected


@pytest.mark.parametrize(("word", "split"), [("SECRET", "test"), ("HIDDEN", "unseen")])
def test_rows_with_sealed_items_alone_refuse_nothing(run: Run, word: str, split: str) -> None:
    assert run([*good(3), row(instruction=word)], drop_overlaps=False).dropped == {f"overlap with {split}": 1}


def test_few_empty_rows_are_dropped(run: Run) -> None:
    report = run([*good(9), row(output="")])
    assert report.ok
    assert report.dropped == {"empty output": 1}
    assert "1 of 10 rows dropped: empty output" in report.warnings[0]


def test_an_empty_instruction_with_an_input_is_a_question(run: Run) -> None:
    assert run([row(instruction="", input="What?")]).rows == 1


def test_repeats_are_counted(run: Run) -> None:
    same, near, other = row(1), row(1, output="It  is \\boxed{2}."), row(1, output="\\boxed{3}")
    report = run([row(1), same, near, other, row(2)])
    assert (report.exact_duplicates, report.near_duplicates, report.reasked) == (1, 1, 1)
    assert report.rows == 5
    assert run([row(1, instruction="4 + 1"), row(1, instruction="4 - 1")]).near_duplicates == 0


def test_lengths(run: Run) -> None:
    rows = [row(instruction="a" * n, output="\\boxed{1}") for n in (10, 20, 300)]
    wrapping = ChatTemplate(
        user=TemplatePart("<", ">:"), assistant=TemplatePart("", "/"), prefix=TemplatePart(tokens=1)
    )
    report = run(rows, wrapping=wrapping)
    assert (report.lengths.p50, report.lengths.longest) == (20 + 9 + 5, 300 + 9 + 5)
    assert (report.lengths.cut, report.lengths.lost, report.lengths.unanswered) == (1, 300 + 9 + 5 - 200, 0)
    assert any("exceed cutoff_len" in w for w in report.warnings)
    assert run(rows, cutoff_len=None).lengths.cut == 0


def test_answers_that_training_would_cut_off_are_refused(run: Run) -> None:
    short, long = ([row(i, output="a" * n + "\\boxed{1}") for i in range(10)] for n in (20, 300))
    few, many = run([*short, *short, long[0]]), run([*short, *long])
    assert few.ok and few.lengths.unanswered == 1
    assert many.errors == (
        "data.json: 50 % of 20 outputs are cut before their end, where the answer is: the longest record has "
        f"{many.lengths.longest} tokens, cutoff_len is 200; right is shorter rows, or a cutoff_len that holds them",
    )
    assert run([*short, *long], cutoff_len=400).ok


def test_the_last_of_many_records_is_looked_at_too(run: Run) -> None:
    assert 'row 3000 has no field "output"' in run([*good(2999), {"instruction": "a"}], row_limit=5000).errors[0]


def test_other_fields_are_left_out(run: Run, tmp_path: Path) -> None:
    report = run([row(source="x", system="y")])
    assert "source" in report.warnings[0]
    assert json.loads((tmp_path / "out/data.json").read_text()) == [row()]


def test_a_second_run_replaces_the_first(run: Run, tmp_path: Path) -> None:
    run(good(2))
    run([])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["rejected.json"]
    run(good(3))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["data.json", "report.json"]


FIELD = st.none() | st.text(max_size=20) | st.integers() | st.lists(st.text(max_size=3), max_size=2)
ANY_ROW = st.dictionaries(st.sampled_from(["instruction", "input", "output", "x"]), FIELD, max_size=4) | FIELD


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(rows=st.lists(ANY_ROW | st.integers(0, 50).map(row), max_size=8))
def test_every_row_is_kept_dropped_or_named(rows: list[Any], run: Run, tmp_path: Path) -> None:
    report = run(rows)
    wrong = sum("; expected " in e for e in report.errors)
    assert report.read == len(rows)
    assert report.rows + sum(report.dropped.values()) + wrong >= min(len(rows), 5)
    if report.ok:
        kept = json.loads((tmp_path / "out/data.json").read_text())
        assert len(kept) == report.rows
        assert report.rows + sum(report.dropped.values()) == len(rows)
        assert all(set(r) == {"instruction", "input", "output"} and r["output"].strip() for r in kept)


def test_outputs_are_ended_once_and_judged_without_the_end(run: Run, tmp_path: Path) -> None:
    exact = Benchmark(name="b", description="d", answer="regex:^\\d+$")
    rows = [row(0, output="1"), row(1, output="2"), row(2, output="3<end>")]
    report = run(rows, ending="<end>", benchmark=exact)
    assert [one["output"] for one in json.loads((tmp_path / "out" / "data.json").read_text())] == [
        "1<end>",
        "2<end>",
        "3<end>",
    ]
    assert (report.ending, report.parsed) == ("<end>", 100)
    plain = run(rows[:2], benchmark=exact)
    assert (plain.ending, run(rows[:2], ending="<end>", benchmark=exact).lengths.total) == (
        "",
        plain.lengths.total + 10,
    )
    spaced = [row(0, output="1<end>\n"), row(1, output="2 <end> <end>\n\n")]
    report = run(spaced, ending="<end>", benchmark=exact)
    written = [one["output"] for one in json.loads((tmp_path / "out" / "data.json").read_text())]
    assert (written, report.lengths.total) == (["1<end>", "2<end>"], plain.lengths.total + 10)
