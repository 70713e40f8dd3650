"""Fifty data sets written after the checks, from right ones with one thing broken: `params check` and `data check` name the row."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.tools.config import world
from tuneloop.cli.main import cli
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.model_card import read_model_card

Rows = list[dict[str, Any]]
Change = Callable[[dict[str, Any]], object]
BROKEN = 4  # the row (from 1) that a change breaks
TOOLS = '[{"name": "add", "description": "adds", "parameters": {}}]'
CALL = '{"name": "add", "arguments": {"a": 1}}'


def turns(*roles: str, role: str = "from", content: str = "value") -> list[dict[str, str]]:
    return [{role: name, content: CALL if name in ("function_call", "function") else f"{name} says"} for name in roles]


def numbered(row: dict[str, Any]) -> Rows:
    return [json.loads(json.dumps(row).replace("says", f"says {n}")) for n in range(1, 7)]


def chat(**columns: str) -> dict[str, Any]:
    return {"formatting": "sharegpt", "columns": {"messages": "conversations", **columns}}


OPENAI = {
    "formatting": "openai",
    "columns": {"messages": "messages"},
    "tags": dict(zip(("role_tag", "content_tag", "user_tag", "assistant_tag", "observation_tag", "function_tag", "system_tag"),
                     ("role", "content", "user", "assistant", "tool", "function", "system"), strict=True)),
}  # fmt: skip
PAIR = {"ranking": True, "columns": {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}}
JUDGED = {"columns": {"prompt": "prompt", "response": "completion", "kto_tag": "label"}}
ALPACA_ROW = {"instruction": "instruction says", "input": "", "output": "output says"}
PICTURE = {"q": "<image>What?", "a": "A cat.", "pictures": ["lost.png"]}
# Name → stage, registration, and a right row.
FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "alpaca": ("sft", {}, ALPACA_ROW),
    "history": ("sft", {"columns": {"prompt": "instruction", "query": "input", "response": "output", "history": "history"}},
                {**ALPACA_ROW, "history": [["asked says", "told"]]}),
    "sharegpt": ("sft", chat(), {"conversations": turns("system", "human", "gpt", "human", "gpt")}),
    "tools": ("sft", chat(tools="tools"), {"conversations": turns("human", "function_call", "observation", "gpt"), "tools": TOOLS}),
    "openai": ("sft", OPENAI, {"messages": turns("user", "assistant", role="role", content="content")}),
    "pairs": ("dpo", PAIR, {"prompt": "prompt says", "chosen": "good says", "rejected": "bad says"}),
    "chat pairs": ("rm", {**chat(chosen="chosen", rejected="rejected"), "ranking": True},
                   {"conversations": turns("human"), "chosen": turns("gpt")[0], "rejected": {"from": "gpt", "value": "bad says"}}),
    "judged": ("kto", JUDGED, {"prompt": "prompt says", "completion": "answer says", "label": True}),
}  # fmt: skip


def put(name: str, value: Any) -> Change:
    return lambda row: row.__setitem__(name, value)


def drop(name: str) -> Change:
    return lambda row: row.pop(name)


def turn(index: int, name: str, value: Any, at: str = "conversations") -> Change:
    return lambda row: row[at][index].__setitem__(name, value)


def cut(at: str = "conversations") -> Change:
    return lambda row: row[at].pop()


# Form → what breaks a row, and the field that must be named.
BAD: dict[str, list[tuple[Change, str]]] = {
    "alpaca": [(put("output", ""), "output"), (put("output", None), "output"), (put("output", 7), "output"),
               (put("output", ["a"]), "output"), (drop("output"), "output"), (put("instruction", " \n"), "instruction"),
               (put("instruction", {"a": 1}), "instruction"), (put("input", 3), "input")],
    "history": [(put("history", ["a", "b"]), "history"), (put("history", [["a"]]), "history"),
                (put("history", "a"), "history"), (put("history", [["a", None]]), "history")],
    "sharegpt": [(put("conversations", []), "conversations"), (put("conversations", None), "conversations"),
                 (put("conversations", "hello"), "conversations"), (turn(1, "value", None), "conversations"),
                 (turn(2, "value", 5), "conversations"), (turn(4, "value", ""), "conversations"),
                 (turn(2, "value", "  "), "conversations"), (turn(1, "from", "bot"), "conversations"), (cut(), "conversations"),
                 (turn(3, "from", "gpt"), "conversations")],
    "tools": [(put("tools", "add(a, b)"), "tools"), (put("tools", '{"name": '), "tools"), (put("tools", 5), "tools"),
              (put("tools", '"add"'), "tools"), (turn(1, "value", "add 1"), "conversations")],
    "openai": [(turn(0, "role", "human", "messages"), "messages"), (turn(1, "content", None, "messages"), "messages"),
               (turn(1, "content", "", "messages"), "messages"), (cut("messages"), "messages")],
    "pairs": [(put("chosen", ""), "chosen"), (put("rejected", None), "rejected"), (put("rejected", "good says 4"), "rejected"),
              (put("chosen", ["a"]), "chosen"), (drop("rejected"), "rejected"), (put("prompt", ""), "prompt")],
    "chat pairs": [(put("chosen", "text"), "chosen"), (put("rejected", {"from": "human", "value": "x"}), "rejected"),
                   (put("chosen", {"from": "gpt", "value": ""}), "chosen")],
    "judged": [(put("label", "yes"), "label"), (put("label", 1), "label"), (put("label", None), "label"),
               (drop("label"), "label"), (put("completion", ""), "completion")],
}  # fmt: skip
CASES = [(form, number) for form, changes in BAD.items() for number in range(len(changes))]


def write(folder: Path, form: str, rows: Any, **more: Any) -> Path:
    _, entry, _ = FORMS[form]
    file = folder / "rows.json"
    file.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    (folder / "dataset_info.json").write_text(json.dumps({"some": {"file_name": file.name, **entry, **more}}))
    return file


def params_errors(folder: Path, form: str, catalog: Catalog) -> list[str]:
    model = world.helpers.write_model(folder / "model")
    values = {
        **world.BASE,
        "stage": FORMS[form][0],
        "dataset": "some",
        "dataset_dir": str(folder),
        "model_name_or_path": str(model),
    }
    text = "".join(f"{key}: {value}\n" for key, value in values.items())
    found = check_config(text, catalog, read_model_card(model), "cpu", profile="engine", here=folder)
    return [str(f) for f in found if f.level == "error"]


def rows_of(form: str, number: int | None = None) -> Rows:
    rows = numbered(copy.deepcopy(FORMS[form][2]))
    if form == "judged":
        rows[0]["label"] = False
    if number is not None:
        BAD[form][number][0](rows[BROKEN - 1])
    return rows


@pytest.mark.parametrize(("form", "number"), CASES)
def test_a_wrong_row_is_named_with_its_field(tmp_path: Path, catalog: Catalog, form: str, number: int) -> None:
    file, field = write(tmp_path, form, rows_of(form, number)), BAD[form][number][1]
    errors = params_errors(tmp_path, form, catalog)
    assert any(f"record {BROKEN} " in error and field in error for error in errors), errors
    for registered in (True, False):
        if not registered:
            (tmp_path / "dataset_info.json").unlink()
        checked = CliRunner().invoke(cli, ["data", "check", str(file)])
        assert checked.exit_code == 2
        assert f"row {BROKEN}" in checked.output
        assert field in checked.output


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lines", [False, True], ids=["list", "lines"])
def test_a_right_one_passes(tmp_path: Path, catalog: Catalog, form: str, lines: bool) -> None:
    rows = rows_of(form)
    file = write(tmp_path, form, "\n".join(map(json.dumps, rows)) if lines else rows)
    assert params_errors(tmp_path, form, catalog) == []
    checked = CliRunner().invoke(cli, ["data", "check", str(file)])
    assert (checked.exit_code, "rows       6 of 6" in checked.output) == (0, True), checked.output
    (tmp_path / "dataset_info.json").unlink()
    assert CliRunner().invoke(cli, ["data", "check", str(file)]).exit_code == 0


@pytest.mark.parametrize(
    ("rows", "more", "says"),
    [
        ("[]", {}, "empty"),
        ("{", {}, "no JSON"),
        ('[["a", "b"]]', {}, "object"),
        ('[{"text": "a"}]', {"columns": {"prompt": "text"}}, "response"),
        (None, {"num_samples": 0}, "num_samples 0"),
        (None, {"columns": {"promt": "instruction"}}, "promt"),
        (None, {"formatting": "chatml"}, "chatml"),
        (None, {"format": "alpaca"}, "did you mean formatting?"),
        (None, {"ranking": "true"}, "ranking"),
        (json.dumps([PICTURE] * 3), {"columns": {"prompt": "q", "response": "a", "images": "pictures"}}, "lost.png"),
    ],
)
def test_what_no_row_says(tmp_path: Path, catalog: Catalog, rows: str | None, more: dict[str, Any], says: str) -> None:
    file = write(tmp_path, "alpaca", rows or rows_of("alpaca"), **more)
    assert any(says in error for error in params_errors(tmp_path, "alpaca", catalog))
    checked = CliRunner().invoke(cli, ["data", "check", str(file)])
    assert checked.exit_code == 2
    assert says in checked.output


def test_a_picture_may_lie_where_the_engine_is_started(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    columns = {"prompt": "q", "response": "a", "images": "pictures"}
    file = write(tmp_path / "data", "alpaca", [PICTURE] * 3, columns=columns)
    values = {**world.BASE, "dataset": "some", "learning_rate": 1e-4, "do_train": True}
    for there in (False, True):
        if there:
            (tmp_path / "lost.png").touch()
        found = check_config(json.dumps(values), catalog, None, "cpu", profile="engine", form="json", here=tmp_path)
        assert any("lost.png" in str(f) for f in found) is not there
        checked = CliRunner().invoke(cli, ["data", "check", str(file)])
        assert ("lost.png" in checked.output) is not there, checked.output


def test_there_are_fifty() -> None:
    assert len(CASES) + 2 * len(FORMS) + 10 >= 50


def test_the_row_limit_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_UPPER_DATA_SIZE_LIMIT", "5")
    checked = CliRunner().invoke(cli, ["data", "check", str(write(tmp_path, "alpaca", rows_of("alpaca")))])
    assert checked.exit_code == 2
    assert "rows.json: 6 rows, and the limit is 5" in checked.output
