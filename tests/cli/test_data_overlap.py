"""`tuneloop data overlap` and `check`: validation rows are shown, of sealed items a number, whatever is asked."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tuneloop.cli.main import cli
from tuneloop.core.settings import load_settings
from tuneloop.tools.benchmark_items.folder import select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark

OPEN, SECRET = (
    "Zebra farm {} has 12 stalls and sells {} tickets, how many are left?",
    "Canary cage {} holds {} birds of kind 7, why?",
)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of the user's, and rows: two with validation items, three with test items, ten with neither."""
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text("name: farms\ndescription: a number\nanswer: number\n")
    for split, text in (("validation", OPEN), ("test", SECRET)):
        items = [{"id": f"{split}-{i}", "prompt": text.format(f"n{i}", 40 + i), "answer": str(i)} for i in range(12)]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, items)))
    asked = [OPEN.format(f"n{i}", 40 + i).upper() for i in range(2)]
    asked += [SECRET.format(f"n{i}", 40 + i).replace(" ", "  ") for i in range(3)]
    asked += [OPEN.format(f"n{i}", 100 + i) for i in range(10)]
    rows = [{"instruction": text, "input": "", "output": f"It is {i}"} for i, text in enumerate(asked)]
    (tmp_path / "data.json").write_text(json.dumps(rows))
    return folder


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["data", *arguments])


def test_overlaps_are_refused_in_one_line(task: Path) -> None:
    result = call("overlap", "data.json", "--benchmark", str(task))
    assert result.exit_code == 2
    assert result.stderr == (
        "tuneloop: data.json: of 15 rows 2 hold validation items; 0 hold items of the validation half that is not shown and "
        "3 hold test items, which are not named; --drop-overlaps --out FILE writes the others\n"
    )
    assert "data.json row 2 holds farms validation-1" in result.stdout
    assert "canary" not in result.output.casefold()


def test_json_has_no_nan(task: Path) -> None:
    rows = json.loads(Path("data.json").read_text())
    rows[1] |= {"x": math.nan, "big": math.inf, "in": [math.nan]}
    Path("data.json").write_text(json.dumps(rows))
    said = call("overlap", "data.json", "--benchmark", str(task), "--json").stdout
    json.loads(said, parse_constant=lambda name: pytest.fail(name))
    assert '"x": null' in said and '"big": null' in said


def test_as_json(task: Path) -> None:
    result = call("overlap", "data.json", "--benchmark", str(task), "--json")
    told = json.loads(result.stdout)
    assert (told["rows"], told["overlaps"]) == (15, {"farms": {"validation": 2, "unseen": 0, "test": 3}})
    assert [(hit["row"], hit["item"]) for hit in told["validation"]] == [(1, "validation-0"), (2, "validation-1")]
    assert "canary" not in result.output.casefold()


def test_dropping_writes_the_others_and_those_alone(task: Path) -> None:
    result = call("overlap", "data.json", "--benchmark", str(task), "--drop-overlaps", "--out", "clean.jsonl")
    assert result.exit_code == 0
    assert [json.loads(line)["output"] for line in Path("clean.jsonl").read_text().splitlines()] == [
        f"It is {i}" for i in range(5, 15)
    ]
    assert call("overlap", "clean.jsonl", "--benchmark", str(task)).exit_code == 0


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", '{{"q": "x"}}\n{{"q": {0}, "q": "y"}}\n'),
        ("a.jsonl", '{{"q": "x"}}\n{{"n": NaN, "q": {0}, "q": {{"r": 1}}}}\n'),
        ("a.json", '[{{"q": "x"}}, {{"a": [{{"q": {0}, "q": "y"}}]}}]'),
        ("a.json", '{{"rows": [{{"q": "x"}}, {{"q": {0}, "q": "y"}}]}}'),
        ("a.csv", "q,q\nx,y\n{0},y\n"),
        ("a.csv", 'q,r\nx,y\nz,"{{""a"": ""{1}"", ""a"": 1}}"\n'),
    ],
)
def test_every_value_of_a_key_that_stands_twice_is_looked_at(task: Path, name: str, form: str) -> None:
    secret = SECRET.format("n1", 41)
    Path(name).write_text(form.format(json.dumps(secret), secret))
    result = call("overlap", name, "--benchmark", str(task), "--drop-overlaps", "--out", "clean.jsonl")
    assert "2 rows; with items of farms test: 1" in result.stdout
    assert len(Path("clean.jsonl").read_text().splitlines()) == 1


def test_rows_that_are_written_keep_every_value(task: Path) -> None:
    Path("a.jsonl").write_text('{"q": "x", "q.1": 5, "q": "y", "q": "z"}\n')
    assert (
        call("overlap", "a.jsonl", "--benchmark", str(task), "--drop-overlaps", "--out", "clean.jsonl").exit_code == 0
    )
    assert json.loads(Path("clean.jsonl").read_text()) == {"q.2": "x", "q.1": 5, "q.3": "y", "q": "z"}


def test_a_pipe_is_refused_by_check_at_once(task: Path) -> None:
    os.mkfifo("pipe.jsonl")
    result = call("check", "pipe.jsonl")
    assert (result.exit_code, "a pipe or a device; right is a plain file" in result.stderr) == (2, True)


def test_half_a_character_stops_neither_search_nor_check(task: Path) -> None:
    Path("half.jsonl").write_text('{"instruction": "\\ud800", "inp\\udfff": "", "output": "It is 5"}\n')
    result = call("overlap", "half.jsonl", "--benchmark", str(task), "--drop-overlaps", "--out", "clean.jsonl")
    assert (result.exit_code, json.loads(Path("clean.jsonl").read_text())["instruction"]) == (0, "\ud800")
    assert "half a character" in call("check", "half.jsonl").output
    assert call("check", "half.jsonl", "--json").exit_code == 2


def test_a_dataset_that_breaks_off_leaves_no_file(task: Path) -> None:
    Path("bad.jsonl").write_text('{"a": "b"}\n{"a": \n')
    result = call("overlap", "bad.jsonl", "--benchmark", str(task), "--drop-overlaps", "--out", "clean.jsonl")
    assert result.exit_code == 2
    assert "bad.jsonl: row 2 is none" in result.stderr
    assert not list(Path.cwd().glob("*clean*")) and not list(Path.cwd().glob(".clean*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--benchmark", "wordproblem"), "did you mean 'wordproblems'"),
        (("--benchmark", ","), "--benchmark is empty"),
        (("--benchmark", "wordproblems", "--drop-overlaps"), "--drop-overlaps and --out FILE go together"),
    ],
)
def test_wrong_requests_are_one_line(task: Path, arguments: tuple[str, ...], said: str) -> None:
    result = call("overlap", "data.json", *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr


def test_a_training_file_goes_through_the_gate(task: Path) -> None:
    result = call("check", "data.json", "--benchmark", str(task))
    assert result.exit_code == 2
    assert (
        "data.json: 2 of 15 rows overlap with validation items (3 that overlap with the test are dropped already)"
        in (result.stdout)
    )
    assert "canary" not in result.output.casefold()
    result = call("check", "data.json", "--benchmark", str(task), "--drop-overlaps", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["dropped"] == {"overlap with test": 3, "overlap with validation": 2}
    assert (told["rows"], told["parsed"], told["lengths"]["longest"]) == (10, 100.0, 0)
    assert "canary" not in result.output.casefold()


def test_unseen_items_are_counted_and_not_named(task: Path, tmp_path: Path) -> None:
    items = [{"id": f"v{i}", "prompt": OPEN.format(f"n{i}", 40 + i), "answer": str(i)} for i in range(150)]
    (task / "validation.jsonl").write_text("\n".join(map(json.dumps, items)))
    unseen = [i.fields["prompt"] for i in select_validation(resolve_benchmark(str(task), load_settings().home)).unseen]
    rows = [{"instruction": f"## Exercise\n> {text.upper()}", "input": "", "output": "It is 3"} for text in unseen[:20]]
    Path("data.json").write_text(
        json.dumps(rows + [{"instruction": "What is 1 and 2?", "input": "", "output": "3"}] * 5)
    )
    refused = call("overlap", "data.json", "--benchmark", str(task))
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert (
        "of 25 rows 0 hold validation items; 20 hold items of the validation half that is not shown and 0"
        in refused.stderr
    )
    told = call("overlap", "data.json", "--benchmark", str(task), "--json")
    assert json.loads(told.stdout)["overlaps"] == {"farms": {"validation": 0, "unseen": 20, "test": 0}}
    checked = call("check", "data.json", "--benchmark", str(task), "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["dropped"]) == (0, {"overlap with unseen": 20})
    assert not [one for one in (refused, told, checked) if "zebra" in one.output.casefold()]
