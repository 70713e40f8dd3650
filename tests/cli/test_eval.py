"""`tuneloop eval` from the command line: what it shows, what it refuses and with which exit code, the seeds' variables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.chat_server import chat_server
from tests.hub.server import LocalHub
from tests.small_disk import files_up_to
from tests.stand_in_engine import stand_in, write_adapter, write_benchmark, write_model
from tuneloop.cli.eval import run_of
from tuneloop.cli.main import cli
from tuneloop.core.files import read_lines, write_lines
from tuneloop.core.layout import Home
from tuneloop.tools.evaluation.item_sets import ModelWeights


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = stand_in(tmp_path)
    monkeypatch.setattr("tuneloop.tools.evaluation.standalone.run_tools.ensure_engine", lambda *_: made)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUM_GPUS", "0")
    for name in (
        "ADAPTER_PATH",
        "BASE_MODEL",
        "MODEL_ABBR",
        "MAX_OUT_LEN",
        "TEMPERATURE",
        "TOP_P",
        "MAX_SEQ_LEN",
        "BATCH_SIZE",
    ):
        monkeypatch.delenv(name, raising=False)
    write_benchmark(tmp_path / "sums")
    write_model(tmp_path / "base")
    return tmp_path


def call(*args: str, **env: str) -> Result:
    return CliRunner().invoke(cli, ["eval", *args], env=env)


def evaluated(*args: str, **env: str) -> dict[str, Any]:
    result = call(*args, "--sandbox", "process", "--json", **env)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def refused(*args: str, **env: str) -> str:
    """The one line."""
    result = call(*args, "--sandbox", "process", **env)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("tuneloop: ") == 1
    return result.stderr.splitlines()[-1]


def test_a_table_for_people_and_json_for_scripts(place: Path) -> None:
    result = call("./base", "--benchmark", "./sums", "--sandbox", "process")
    assert result.exit_code == 0, result.stderr
    assert "50.0 (22-78)" in result.stdout
    found = evaluated("./base", "--benchmark", "./sums", "--out", "out")
    (one,) = found["models"]
    (score,) = one["results"]
    assert (score["value"], score["n"], score["parsed"], one["average"]) == (50, 8, 50, 50)
    assert "items" not in score
    assert Path(found["out"]).parent == place / "out"


def test_two_models_on_the_same_items(place: Path) -> None:
    rows = rows_of(place / "sums")
    (place / "right.jsonl").write_text(
        "".join(json.dumps({"id": r["id"], "prediction": f"\\boxed{{{r['answer']}}}"}) + "\n" for r in rows)
    )
    found = evaluated("right.jsonl", "--against", "./base", "--benchmark", "./sums")
    (row,) = found["compared"]
    assert (row["gain"], row["wins"], row["losses"], row["verdict"]) == (50, 4, 0, "no difference shown")
    assert row["p_value"] == pytest.approx(2 / 2**4)
    for name in ("comparison.png", "comparison.svg"):
        assert (Path(found["out"]) / name).stat().st_size > 1000
    assert "both models are called base" in refused("./base", "--against", "./base", "--benchmark", "./sums")


def test_the_variables_of_the_seeds(place: Path) -> None:
    write_adapter(place / "tuned", "/nowhere")
    seeds = {
        "BENCHMARK_DATASETS": "./sums",
        "ADAPTER_PATH": "./tuned",
        "BASE_MODEL": "./base",
        "MODEL_ABBR": "base-ft-1",
        "MAX_OUT_LEN": "99",
        "BATCH_SIZE": "3",
        "TEMPERATURE": "0.5",
        "TOP_P": "0.9",
        "MAX_SEQ_LEN": "512",
    }
    found = evaluated("--out", "benchmark_results", **seeds)
    assert found["models"][0]["name"] == "base-ft-1"
    tree = Path(found["out"])
    with (tree / "summary" / f"summary_{tree.name}.csv").open() as f:
        rows = [(row["dataset"], row["score"], row["metric"]) for row in csv.DictReader(f)]
    assert rows == [("sums", "50.0", "accuracy"), ("Average Score", "50.0", "average")]
    asked = json.loads((tree / "configs" / "base-ft-1.json").read_text())
    (one,) = asked["sets"]
    assert (one["max_new_tokens"], one["temperature"], one["top_p"]) == (99, 0.5, 0.9)
    assert (asked["batch_size"], asked["longest"], asked["adapter"]) == (3, 512, str(place / "tuned"))
    assert "BATCH_SIZE='many'" in refused(**{**seeds, "BATCH_SIZE": "many"})
    for empty in ("", "[]"):
        skipped = call(**{**seeds, "BENCHMARK_DATASETS": empty})
        assert (skipped.exit_code, skipped.stdout.count("\n")) == (0, 1), skipped.stderr
        assert "nothing was measured" in skipped.stdout


def test_what_is_wrong_is_said_in_one_line_before_anything_loads(place: Path) -> None:
    known = ("--benchmark", "./sums")
    assert "did you mean 'wordproblems'?" in refused("./base", "--benchmark", "wordproblem")
    assert "no model: right is tuneloop eval MODEL" in refused(*known)
    assert "no benchmark: right is --benchmark NAME" in refused("./base")
    assert "add --read-sealed-test" in refused("./base", *known, "--split", "test")
    assert "base model 'nobody' is unknown" in refused("nobody", *known)
    assert "--limit" in call("./base", *known, "--limit", "0").stderr
    assert "e.g. opencompass:gsm8k_gen" in refused("./base", "--benchmark", "opencompass:")
    write_adapter(place / "wide", "/nowhere", width=16)
    assert "it is of another model" in refused("./wide", *known, "--base-model", "./base")
    file = write_model(place / "cut") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert "no whole safetensors file" in refused("./cut", *known)
    file.write_bytes(b"")
    assert "0 bytes are no whole safetensors file" in refused("./cut", *known)
    assert not (place / "home" / "evaluations").exists(), "nothing was begun"


def test_a_scorer_that_fails_on_an_item_costs_that_item_alone(place: Path) -> None:
    folder = write_benchmark(place / "order", answer="scorer:bioprobench_ord")
    for split in ("validation", "test"):
        rows = list(read_lines(folder / f"{split}.jsonl"))
        golds = ["no JSON", *(json.dumps({"steps": ["b", "a"], "order": ["a", "b"]}) for _ in rows[1:])]
        write_lines(folder / f"{split}.jsonl", [{**r, "answer": gold} for r, gold in zip(rows, golds, strict=True)])
    replies = [{"id": row["id"], "prediction": "[ANSWER_START][1, 0][ANSWER_END]"} for row in rows_of(folder)]
    write_lines(place / "right.jsonl", replies)
    result = call("right.jsonl", "--benchmark", "./order", "--sandbox", "process")
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert "the scorer failed on 1 of 8 items, which count as wrong (v0: JSONDecodeError" in said
    (score,) = evaluated("right.jsonl", "--benchmark", "./order")["models"][0]["results"]
    assert (score["value"], score["n"], score["errors"]) == (pytest.approx(87.5), 8, 1)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return list(read_lines(folder / "validation.jsonl"))


def test_a_benchmark_that_cannot_be_fetched_is_one_line(
    place: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "replies.jsonl").write_text('{"id": "x", "prediction": "x"}\n')
    wanted = ("replies.jsonl", "--benchmark", "gsm8k", "--sandbox", "process")

    def failed(code: int) -> str:
        result = call(*wanted)
        assert result.exit_code == code, result.output
        assert result.stderr.count("tuneloop: ") == 1
        assert not list((place / "home" / "benchmarks").rglob("manifest.json")), "nothing half-made is believed later"
        return result.stderr.splitlines()[-1]

    with monkeypatch.context() as alone:
        alone.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        alone.setattr("tuneloop.tools.hub.http.WAITS", ())
        assert "check the network or HF_ENDPOINT" in failed(1)
    hub.fail("GET /api", status=404, headers={"X-Error-Code": "RepoNotFound"}, times=1)
    assert "is not on http://127.0.0.1" in failed(2)
    with files_up_to(500):
        assert "free some disk, then again" in failed(1)
    assert "of gsm8k, 1 are there" in call(*wanted).stderr, "the hub is there again, and the replies are looked at"


def test_a_sealed_test_is_read_on_request_and_noted(place: Path) -> None:
    wanted = ("./base", "--benchmark", "./sums", "--split", "test", "--read-sealed-test")
    found = evaluated(*wanted)
    assert found["models"][0]["results"][0]["split"] == "test"
    evaluated(*wanted)
    rows = list(read_lines(place / "home" / "benchmarks" / "reads.jsonl"))
    assert len(rows) == 2, "every reading counts"
    assert all(row["run"].startswith("eval base ") for row in rows)
    assert "What is 10" not in json.dumps(found)
    assert "whole or not at all" in refused(*wanted, "--limit", "2")


def test_judges_that_cannot_be_asked_and_none(place: Path) -> None:
    write_benchmark(place / "open", judge=True)
    wanted = ("./base", "--benchmark", "./open")
    alone = evaluated(*wanted)["models"][0]
    assert alone["notes"] == ["no judge (FT_JUDGE_MODEL): the rule alone decides on open"]
    assert alone["results"][0]["judged"] is None
    assert "no key to ask it with" in refused(*wanted, FT_JUDGE_MODEL="j")
    with chat_server(lambda _: "x", key="right") as chat:
        env = {"FT_JUDGE_MODEL": "j", "FT_JUDGE_API_BASE": chat.url, "FT_DOCKER_ENABLE_CACHE": "false"}
        fresh = ("--limit", "4")
        assert "refuses the key (401)" in refused(*wanted, *fresh, **env, FT_JUDGE_API_KEY="wrong")
        found = evaluated(*wanted, *fresh, **env, FT_JUDGE_API_KEY="right")["models"][0]["results"][0]
        assert found["judged"] == {"asked": 2, "correct": 0, "unknown": 2}, "x is no verdict"
        assert found["value"] == 50


def test_an_interrupted_evaluation_ends_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tuneloop.tools.evaluation.standalone.run_tools.pause", interrupted)
    result = call("./base", "--benchmark", "./sums", "--sandbox", "process")
    assert result.exit_code == 130, result.output
    assert result.stderr.splitlines()[-1] == "tuneloop: interrupted"


@pytest.mark.parametrize(
    ("place", "run"),
    [
        ("runs/r1/best", "r1"),
        ("runs/r1/experiments/002/model", "r1"),
        ("models/tiny", ""),
        ("runs", ""),
        ("runsome/r1", ""),
    ],
)
def test_a_model_in_a_runs_folder_is_the_runs(tmp_path: Path, place: str, run: str) -> None:
    home = Home(tmp_path)
    assert run_of(home, ModelWeights("m", tmp_path / place)) == run
    assert run_of(home, None) == ""
