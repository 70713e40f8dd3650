"""Unique words in sealed items, leaked into the raw data too: a whole run, and nobody was told any of them.

Sealed are the test and the half of validation that agents do not see.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.waiting import until
from tuneloop.cli.main import cli
from tuneloop.core.catalog import Item
from tuneloop.core.errors import RecipeError, ToolError
from tuneloop.core.files import read_lines, write_atomic, write_lines
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import McpToolbox, open_toolbox
from tuneloop.mcp_servers.data import DataTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.benchmark_items.splitting import half_hash
from tuneloop.tools.benchmarks.wordproblems import items
from tuneloop.tools.embedded.problems import splits

from .world import RUN, Place

Planted = tuple[str, str, int, int]
VALIDATION = 150  # items beside the planted ones: enough to be halved
SUFFIX = "\nEnd with \\boxed{answer}."
PASSAGE = "below a bridge"


def question(planted: Planted) -> str:
    """What a planted item asks."""
    name, thing, a, b = planted
    return (
        f"{name} has {a} {thing}. Later {name} finds {b} more {thing} {PASSAGE}. How many {thing} does {name} have now?"
    )


def unseen(planted: Planted) -> Planted:
    """The same with the first number that puts it into the half that agents do not see."""
    name, thing, a, b = planted
    for more in range(b, b + 100):
        found = (name, thing, a, more)
        item = Item(id="-", fields={"prompt": question(found) + SUFFIX}, answer=str(a + more))
        if int(half_hash([item])[:8], 16) >= 1 << 31:
            return found
    raise AssertionError(f"{name} is always shown")


PLANTED: tuple[Planted, ...] = (
    ("Zorvexa", "quillmarks", 31, 17),
    ("Brimoldo", "snarfbells", 24, 13),
    ("Quenthir", "vortlings", 515803, 230411),
    ("Hyldobar", "mupplestones", 824410, 117093),
    ("Tarquibo", "drindlecaps", 930772, 312845),
)
HIDDEN = tuple(
    unseen(one)
    for one in (
        ("Wexlorim", "tanglewicks", 28, 15),
        ("Draspolo", "crumbletts", 33, 12),
        ("Ylvanthe", "pozzlerins", 615803, 140411),
        ("Korbuzin", "shimmerlocks", 724411, 227093),
        ("Umbretta", "fizzlespokes", 830773, 322845),
    )
)
SEALED = (*PLANTED, *HIDDEN)
WORD = "flimmergard"  # stands in the solutions of rows that hold a sealed item, and nowhere else
NUMBERS = [
    str(n) for _, _, a, b in SEALED for n in (a, b, a + b) if n > 100_000
]  # the others are such as rows are chosen with
MARKS = (WORD, *(part.lower() for name, thing, _, _ in SEALED for part in (name, thing)), *NUMBERS)
QUESTIONS = [question(one) for one in SEALED]


def item(number: int, planted: Planted) -> dict[str, str]:
    """A line of the benchmark."""
    return {"id": f"planted-{number}", "prompt": question(planted) + SUFFIX, "answer": str(planted[2] + planted[3])}


def plant(task: Path) -> None:
    """Five items of the test and five of the unseen half, and rows with them in several dresses, among the raw data."""
    rest = list(read_lines(task / "test.jsonl"))[len(PLANTED) :]
    write_lines(task / "test.jsonl", [*(item(i, one) for i, one in enumerate(PLANTED)), *rest])
    others = items("validation", splits().validation)[:VALIDATION]
    write_lines(task / "validation.jsonl", [*(item(i, one) for i, one in enumerate(HIDDEN)), *others])
    rows = list(read_lines(task / "data" / "rows.jsonl"))
    dresses: list[Callable[[str], str]] = [
        str,
        str.upper,
        lambda q: f"Please solve this:\n{q}\nThink hard.",
        lambda q: q + SUFFIX,
        str,
    ]
    solved = [f"By {WORD}: {a}+{b}={a + b}. So the answer is {a + b}." for _, _, a, b in SEALED]
    for at, (dress, asked, solution) in enumerate(zip(dresses * 2, QUESTIONS, solved, strict=True)):
        rows[20 * at : 20 * at] = [{"question": dress(asked), "solution": solution}] * (1 + at % 2)
    write_lines(task / "data" / "rows.jsonl", [{"question": QUESTIONS[0], "solution": solved[0]}, *rows])
    talks = [(row["question"], row["solution"]) for row in rows[:30]] + list(zip(QUESTIONS, solved, strict=True))
    chat = [{"turns": [{"role": "user", "content": q}, {"role": "assistant", "content": s}]} for q, s in talks]
    write_lines(task / "data" / "chat.jsonl", chat)
    write_atomic(task / "data" / "README.md", f"# Sums\n\nFor example: {QUESTIONS[1]}\n")
    write_atomic(task / "data" / "more" / "README.md", f"# More sums\n\nFor example: {QUESTIONS[-1]}\n")


@pytest.fixture(scope="module")
def place(new_place) -> Place:
    """A finished run."""
    made: Place = new_place("canaries")
    made.env = {"FT_BENCHMARK_LIMIT": str(VALIDATION + len(HIDDEN))}
    plant(made.task)
    made.finish()
    return made


@pytest.fixture
async def toolbox(place: Place) -> Any:
    async with open_toolbox(Scope(RunFolder(place.run), Settings(FT_FILE_PATH=place.home)), None) as tools:
        yield tools


def told(text: str) -> list[str]:
    """The planted words in a text; six digits inside a longer number or a digest are there by chance."""
    folded = text.casefold()
    if not (found := [mark for mark in MARKS if mark in folded]):
        return []
    spoken = re.sub(r"[0-9a-f]{16,}", "-", folded)
    return [mark for mark in found if not mark.isdecimal() or re.search(rf"(?<!\d){mark}(?!\d)", spoken)]


def test_a_number_is_told_unless_it_is_a_part_of_another_or_of_a_digest() -> None:
    for text in ("and 227094 more", "724411+227094=951505", '{"b":227094}', "x227094y", "Bed227094"):
        assert "227094" in told(text), text
    assert told("1227094 2270941") == []
    assert told("sha256 9f3c41d0a227094be5517c0d9f3c41d0a227094be5517c0d") == []


def test_no_file_of_the_home_holds_them_but_the_sealed_ones(place: Place) -> None:
    assert told((place.run / "final" / "test.json").read_text()), "they were asked in the end"
    for number in ("baseline", "experiments/001"):
        measured = {
            row["id"] for row in json.loads((place.run / number / "sealed" / "small.json").read_text())["items"]
        }
        assert {f"planted-{i}" for i in range(len(HIDDEN))} <= measured, "they were asked each time"
    for split in ("test", "validation"):
        assert "planted" in (next(place.home.glob(f"benchmarks/small-*/sealed/{split}.jsonl"))).read_text()
    for sealed in (place.home / "benchmarks", place.run / "final", place.run / "experiments"):
        assert sealed.is_dir()
    assert [(str(f.relative_to(place.home)), found) for f in open_files(place) if (found := told(readable(f)))] == []


def open_files(place: Place) -> Iterator[Path]:
    """All but the sealed items and `final/`.

    What evaluation jobs read and write in their own folders, and the cache of their results, are left out too: no tool of
    an agent reads there.
    """
    for file in sorted(place.home.rglob("*")):
        parts = file.relative_to(place.home).parts
        raw = parts[:2] == ("cache", "evaluations") or (
            "work" in parts and any(p.startswith("evaluate") for p in parts)
        )
        hidden = raw or "sealed" in parts or parts[2:3] == ("final",)
        if file.is_file() and not file.is_symlink() and parts[0] not in ("engines", "models") and not hidden:
            yield file


def readable(file: Path) -> str:
    """What a file says; a database's values, whole."""
    if file.suffix != ".sqlite":
        return file.read_bytes().decode("latin-1")
    with sqlite3.connect(file) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        rows = [row for name in tables for row in db.execute(f'select * from "{name}"')]
    return "\n".join(v.decode("latin-1") if isinstance(v, bytes) else str(v) for row in rows for v in row)


def test_sealed_rows_are_removed_first_and_counted(place: Place) -> None:
    dropped = json.loads((place.run / "experiments/001/data/report.json").read_text())["dropped"]
    assert not [why for why in dropped if why.startswith("overlap with")], "nothing was left for the gate"
    report = (place.run / "report.md").read_text()
    assert re.search(r"Raw rows with sealed items, removed before the run read its data: data \d+", report)
    assert told(report) == []


EXPERIMENT: dict[str, Any] = {"experiment": 1}
HERE: dict[str, Any] = {"dataset": "data"}
CALLS: dict[str, list[dict[str, Any]]] = {
    "data_list_datasets": [{}],
    "data_inspect_dataset": [HERE],
    "data_profile_dataset": [HERE],
    "data_sample_rows": [
        {**HERE, "path": path, "count": 50, "offset": offset}
        for path in ("rows.jsonl", "chat.jsonl")
        for offset in range(0, 300, 50)
    ],
    "data_column_stats": [
        {**HERE, "path": path, "column": column, "count": 50}
        for path, column in (("rows.jsonl", "question"), ("rows.jsonl", "solution"), ("chat.jsonl", "turns[].content"))
    ],
    "data_search_rows": [{**HERE, "text": text, "count": 50} for text in (PASSAGE, "how many")],
    "data_find_duplicates": [{**HERE, "column": column, "count": 50} for column in ("", "question", "solution")],
    "data_check_overlap": [{**HERE, "count": 50}],
    "data_benchmark_card": [{"count": 20}],
    "data_failures": [{**EXPERIMENT, "count": 50}, {"experiment": 0, "count": 50}],
    "data_show_items": [{"count": 50}, {"split": "test"}],
    "data_report": [EXPERIMENT],
    "evaluation_list_benchmarks": [{}],
    "evaluation_evaluate": [EXPERIMENT, {**EXPERIMENT, "split": "test"}],
    "evaluation_get_result": [EXPERIMENT, {"experiment": 0}, {**EXPERIMENT, "split": "test"}],
    "evaluation_stop": [EXPERIMENT],
    "evaluation_compare": [{"candidate": 1, "incumbent": 0}],
    "evaluation_explain_failures": [{**EXPERIMENT, "count": 50}, {"experiment": 0, "count": 50}],
    "training_launch": [{**EXPERIMENT, "kind": "train"}],
    "training_status": [{**EXPERIMENT, "kind": kind} for kind in ("smoke_run", "train")],
    "training_stop": [{**EXPERIMENT, "kind": "train"}],
    "training_loss_curve": [EXPERIMENT],
    "training_forecast": [EXPERIMENT],
    "training_show_tokens": [EXPERIMENT],
}
TRIED = ("data_try_script", "data_try_result")


async def answers(toolbox: McpToolbox) -> dict[str, str]:
    """What every tool of the servers `data`, `evaluation` and `training` says; refusals too."""
    found = {}
    for tool, calls in CALLS.items():
        for number, arguments in enumerate(calls):
            try:
                found[f"{tool} {number}"] = json.dumps(await toolbox.call(tool, **arguments), ensure_ascii=False)
            except ToolError as e:
                found[f"{tool} {number}"] = str(e)
    return found


async def test_no_tool_says_one(toolbox: McpToolbox) -> None:
    # server `params` knows of the data only how long the longest records are
    assert {name for name in await toolbox.names() if not name.startswith("params_")} == {*CALLS, *TRIED}
    said = await answers(toolbox)
    assert {call: found for call, text in said.items() if (found := told(text))} == {}
    assert "rows were removed: they held items of the sealed test" in said["data_list_datasets 0"]
    assert json.loads(said["data_search_rows 0"])["found"] == 0, "a count alone would spell an item out"
    overlaps = json.loads(said["data_check_overlap 0"])["overlaps"]
    assert overlaps["test"] >= 13, "eight rows and five talks"
    assert overlaps["unseen"] >= 12, "seven rows and five talks"
    sizes = json.loads(said["data_benchmark_card 0"])["sizes"]
    assert sizes["shown"] < sizes["validation"] == VALIDATION + len(HIDDEN)


SCRIPT = f"""import json, os, sys
lines = open(os.environ["DATASETS_DIR"] + "/data/rows.jsonl").read().splitlines()
rows = [json.loads(line) for line in lines if {PASSAGE!r} in line.lower()]
rows = rows[:5] if "--debug" in sys.argv else rows
json.dump([{{"instruction": r["question"], "input": "", "output": r["solution"]}} for r in rows], open("data.json", "w"))
"""
FAILS = SCRIPT + "for row in rows:\n    print(row)\nraise ValueError(rows[0])\n"


def tried(place: Place, code: str) -> str:
    """What is said of a script when it is over."""
    tools = DataTools(Scope(RunFolder(place.run), Settings(FT_FILE_PATH=place.home)))

    def over() -> str:
        try:
            found = tools.try_result(2)
        except RecipeError as e:
            return str(e)
        return json.dumps(found) if found["state"] == "over" else ""

    RunFolder(place.run).experiment(2).root.mkdir(exist_ok=True)  # the first is finished and stays as it is
    with contextlib.suppress(RecipeError):  # it waits a moment, and tells a failure as `try_result` does
        tools.try_script(2, code)
    said: str = until(over, 120, 0.1)
    return said


SHIFTED = """import json, os, sys
found = os.walk(os.environ["DATASETS_DIR"], followlinks=True)
text = "".join(open(os.path.join(folder, name)).read() for folder, _, names in found for name in names)
rows = [{"instruction": "".join(chr(ord(c) + 1) for c in text), "input": "", "output": text[::-1]}]
rows = rows[:1] if "--debug" in sys.argv else rows
json.dump(rows, open("data.json", "w"))
"""


@pytest.mark.parametrize("code", [SCRIPT, FAILS], ids=["writes", "fails"])
def test_a_script_that_looks_for_them_tells_none(place: Place, code: str) -> None:
    assert told(tried(place, code)) == []


def test_a_script_finds_none_to_write_in_another_way(place: Place) -> None:
    tried(place, SHIFTED)
    files = place.run.glob("experiments/002/work/dry_run-*/data.json")
    newest = max(files, key=lambda file: file.stat().st_mtime_ns)
    (row,) = json.loads(newest.read_text())
    assert "question" in row["output"][::-1]
    assert told(row["output"][::-1]) == []


def test_no_command_says_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(place.home))
    data, benchmark = str(place.task / "data"), str(place.task)
    commands = (
        ["status", RUN, "--json"],
        ["report", RUN, "--json"],
        ["watch", RUN, "--json"],
        ["list", "runs", "--json"],
        ["list", "benchmarks", "--json"],
        ["list", "datasets", "--json"],
        ["data", "overlap", data, "--benchmark", benchmark, "--json"],
        ["data", "check", str(place.run / "experiments/001/data/data.json"), "--benchmark", benchmark, "--json"],
    )
    for command in commands:
        said = CliRunner().invoke(cli, command)
        assert said.output, command
        assert not isinstance(said.exception, AssertionError | TypeError), command
        assert told(said.output) == [], command
