"""humaneval and mbpp from their sources: every known solution passes, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_answers import made_up, splits
from tests.conftest import COMMAND, linked_home
from tests.engines.answers.test_run_answers import run_items
from tests.hub.server import LocalHub
from tuneloop.core.catalog import Calls, Item, Program
from tuneloop.core.files import write_lines
from tuneloop.core.records import records
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.scoring.code_results import judge_results, reply_code

REPOS = {"humaneval": "openai/openai_humaneval", "mbpp": "google-research-datasets/mbpp"}
FILES = {"humaneval": "openai_humaneval/test-00000-of-00001.parquet", "mbpp": "full/test-00000-of-00001.parquet"}


def everything(name: str, folder: Path) -> list[Item]:
    return [item for side in splits(name, folder) for item in side]


def solutions(name: str, folder: Path) -> dict[str, str]:
    """What the source knows to be right, by item."""
    (folder / "known.parquet").write_bytes(made_up(REPOS[name])[FILES[name]])
    rows = list(records(folder / "known.parquet"))
    if name == "mbpp":
        return {f"mbpp-{row['task_id']}": row["code"] for row in rows}
    return {row["task_id"].replace("/", "-"): row["prompt"] + row["canonical_solution"] for row in rows}


@pytest.mark.parametrize("name", REPOS)
def test_splits_of_the_source_are_whole_and_apart(name: str, tmp_path: Path) -> None:
    validation, test = splits(name, tmp_path)
    benchmark = resolve.load_entry(name)[0]
    check_items(benchmark, validation, test, name)
    assert len(validation) >= 8 and len(test) >= 8
    assert {type(item.calls).__name__ for item in validation} == {"Calls", "Program"}, "both ways to decide are in it"
    assert not {item.id for item in validation} & {item.id for item in test}
    assert all("assert" in render_prompt(benchmark, item) for item in test) is (name == "mbpp")


@pytest.mark.parametrize("name", REPOS)
def test_known_solutions_pass_and_wrong_ones_do_not(name: str, tmp_path: Path) -> None:
    items, known = everything(name, tmp_path), solutions(name, tmp_path)
    rows: list[dict[str, Any]] = []
    for item in items:
        assert isinstance(item.calls, Calls | Program)
        asked = item.calls.model_dump(mode="json", exclude={"before"})
        entry = item.calls.entry if isinstance(item.calls, Calls) else item.calls.names[-1]
        wrong = {"none": f"def {entry}(*given):\n    return None", "one": f"{entry} = lambda *a: 1"}
        codes = {"right": known[item.id], **(wrong if len(rows) % 4 == 0 else {})}
        for tag, code in codes.items():
            rows.append({"id": f"{tag} {item.id}", **asked, "code": reply_code(item, f"```python\n{code}\n```")})
    given, answers = run_items(tmp_path, rows), {item.id: item.answer for item in items}
    passed = [who for who in given if judge_results(answers[who.partition(" ")[2]], given[who]["results"])[1]]
    assert passed == [who for who in given if who.startswith("right ")]
    assert len(given) > len(items)


def test_known_solutions_pass_in_docker_and_wrong_ones_do_not(
    hub: LocalHub, docker_host: str, opencompass: object, tmp_path: Path
) -> None:
    home, known = linked_home(tmp_path / "home"), solutions("mbpp", tmp_path)
    validation, _ = splits("mbpp", tmp_path / "source")
    wrong = validation[0].id
    replies = {**{item.id: known[item.id] for item in validation}, wrong: "def wrong(*given):\n    return None"}
    rows = [{"id": name, "prediction": f"```python\n{code}\n```"} for name, code in replies.items()]
    write_lines(tmp_path / "known.jsonl", rows)
    argv = [*COMMAND, "eval", "known.jsonl", "--benchmark", "mbpp", "--sandbox", "docker", "--json"]
    environment = {**os.environ, "FT_FILE_PATH": str(home), "DOCKER_HOST": docker_host}
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (score,) = json.loads(done.stdout)["models"][0]["results"]
    assert score["value"] == pytest.approx(100 * (1 - 1 / len(validation)))
    assert [job.name for job in sorted(home.glob("evaluations/*/jobs/*.1"))] == ["evaluate.1", "execute.1"]


def test_a_solution_that_goes_on_with_the_head_passes(tmp_path: Path) -> None:
    items, known = everything("humaneval", tmp_path)[:8], solutions("humaneval", tmp_path)
    heads = {item.id: item.calls.before for item in items if isinstance(item.calls, Calls | Program)}
    asked = [item.calls.model_dump(mode="json", exclude={"before"}) for item in items if item.calls]
    codes = [reply_code(item, known[item.id].removeprefix(heads[item.id])) for item in items]
    given = run_items(
        tmp_path, [{"id": i.id, **one, "code": code} for i, one, code in zip(items, asked, codes, strict=True)]
    )
    assert all(judge_results(item.answer, given[item.id]["results"])[1] for item in items)


def test_rows_to_learn_from_are_those_of_other_splits(tmp_path: Path) -> None:
    items = everything("mbpp", tmp_path)
    benchmark, module = resolve.load_entry("mbpp")
    rows = list(module.train(benchmark, tmp_path / REPOS["mbpp"]))
    assert len(rows) == 18
    assert all(row["code"] and "\r" not in row["code"] for row in rows)
    assert not {row["text"] for row in rows} & {item.fields["text"] for item in items}
