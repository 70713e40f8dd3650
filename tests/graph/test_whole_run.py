"""What a real run of one experiment leaves behind."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tuneloop.core.files import read_json, read_lines
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.journal import experiment_score

KEYS = "run_id benchmark base_model metric direction baseline best experiments budget versions seeds"


def test_the_report_says_everything(whole_run) -> None:
    report = read_json(whole_run.run.report_json)
    assert set(KEYS.split()) <= set(report)
    for place in (report["baseline"]["validation"], report["baseline"]["test"], report["best"]["test"]):
        assert set(place) >= {"value", "n", "low", "high"}
        assert 0 <= place["low"] <= place["value"] <= place["high"] <= 100
    assert report["best"]["experiment"] == 1
    assert [e["outcome"] for e in report["experiments"]] == ["promoted"]
    assert report["best"]["test"]["n"] >= 400


def test_a_run_calls_all_four_servers(whole_run) -> None:
    """Agents ask for data and parameters, nodes launch and watch trainings and evaluations."""
    assert whole_run.calls >= {
        "data_profile_dataset",
        "params_check_config",
        "training_launch",
        "training_status",
        "evaluation_evaluate",
        "evaluation_get_result",
    }


def test_the_model_is_better_than_its_base(whole_run) -> None:
    report = read_json(whole_run.run.report_json)
    assert report["best"]["test"]["value"] - report["baseline"]["test"]["value"] >= 30


def test_scores_agree_with_their_items(whole_run) -> None:
    run: RunFolder = whole_run.run
    for score in (experiment_score(run, 0), experiment_score(run, 1)):
        assert score.n == len(score.every) == 1000
        assert 450 < len(score.items) < 550, "about half of them is shown"
        assert score.value == pytest.approx(100 * sum(i.correct for i in score.every) / score.n)
        assert all(not i.correct for i in score.every if i.parsed is None)


def test_the_report_compares_both_halves(whole_run) -> None:
    halves = read_json(whole_run.run.report_json)["halves"]
    assert halves["shown"]["n"] + halves["unseen"]["n"] == 1000
    assert halves["low"] < 0 < halves["high"], "an honest recipe gains alike on both"
    assert halves["difference"] == pytest.approx(halves["shown"]["gain"] - halves["unseen"]["gain"])


def test_every_decision_is_on_disk(whole_run) -> None:
    folder = whole_run.run.experiment(1)
    for name in ("researcher", "data_engineer", "config_coder", "critic"):
        assert (folder.answers / f"{name}.0.json").is_file()
        assert (folder.answers / f"{name}.0.md").read_text()
    for file in (
        folder.hypothesis,
        folder.script,
        folder.config,
        folder.data / "report.json",
        folder.training,
        folder.result,
    ):
        assert file.is_file()
    assert not list(folder.model.glob("checkpoint-*"))


@pytest.mark.parametrize("split", ["test", "validation"])
def test_no_sealed_item_left_its_place(whole_run, split: str) -> None:
    run: RunFolder = whole_run.run
    sealed = list(read_lines(whole_run.home / "benchmarks" / "wordproblems" / "sealed" / f"{split}.jsonl"))
    marks = {row["prompt"].split("\n")[0] for row in sealed}
    assert len(marks) == len(sealed) >= 400
    raw = b"".join(p.read_bytes() for p in sorted((whole_run.home / "datasets").rglob("*")) if p.is_file())
    # Some rows of the raw data were leaked from the test on purpose; those texts lie there for everyone.
    secret = {m for m in marks if m.encode() not in raw}
    assert len(secret) > 200
    leaks = [(f, m) for f in outside(run, evaluations=split == "test") for m in found(f, secret)]
    assert leaks == []


def outside(run: RunFolder, *, evaluations: bool) -> list[Path]:
    """Files that agents and tools could read before `finish`; `evaluations`: also what evaluation jobs read and wrote."""
    inside = [run.final]
    if not evaluations:
        places = ("**/work/evaluate", "**/work/evaluate.input", "**/sealed")
        inside += [place for pattern in places for place in run.root.glob(pattern)]
        assert len(inside) > 5
    return [p for p in run.root.rglob("*") if p.is_file() and not any(p.is_relative_to(i) for i in inside)]


def found(file: Path, marks: set[str]) -> list[str]:
    text = file.read_bytes().decode(errors="replace")
    plain = text.replace("\\n", "\n").replace('\\"', '"')
    return [m for m in marks if m in plain]


def test_the_search_for_leaks_would_find_one(whole_run, tmp_path: Path) -> None:
    row = next(iter(read_lines(whole_run.home / "benchmarks" / "wordproblems" / "sealed" / "test.jsonl")))
    mark = row["prompt"].split("\n")[0]
    (tmp_path / "leak.json").write_text(json.dumps({"said": row["prompt"]}))
    assert found(tmp_path / "leak.json", {mark}) == [mark]


def test_training_data_hold_no_item_of_the_benchmark(whole_run) -> None:
    folder = whole_run.run.experiment(1)
    run_tools = whole_run.home / "benchmarks" / "wordproblems"
    asked = {
        " ".join(row["prompt"].lower().split())
        for split in ("validation.jsonl", "sealed/validation.jsonl", "sealed/test.jsonl")
        for row in read_lines(run_tools / split)
    }
    rows = read_json(folder.data / "data.json")
    assert len(rows) > 300
    assert [r for r in rows if " ".join(r["instruction"].lower().split()) in asked] == []


def test_checkpoints_are_small_and_one_a_node(whole_run) -> None:
    saver = whole_run.run.checkpoint
    assert saver.stat().st_size <= 200 * 1024
    with sqlite3.connect(saver) as db:
        (steps,) = db.execute("select count(*) from checkpoints").fetchone()
    assert steps >= 12


def test_a_finished_run_is_not_run_again(whole_run) -> None:
    run = whole_run.run
    before = run.report_json.stat().st_mtime_ns, run.events.stat().st_size
    argv = [sys.executable, "-m", "tuneloop.cli.main", "resume", "whole"]
    env = {**os.environ, "FT_FILE_PATH": str(whole_run.home)}
    p = subprocess.run(argv, env=env, cwd=whole_run.home.parent, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    assert (run.report_json.stat().st_mtime_ns, run.events.stat().st_size) == before
    attempts = sorted(p.name for p in run.experiment(1).jobs.iterdir() if p.is_dir())
    assert attempts == ["build_data.1", "dry_run.1", "evaluate.1", "smoke_run.1", "train.1"]


def test_events_are_json_lines_for_scripts(whole_run) -> None:
    kinds = [json.loads(line)["kind"] for line in whole_run.output.splitlines() if line.startswith("{")]
    assert kinds[0] == "run_started"
    assert kinds[-2:] == ["run_finished", "node_finished"]
    assert {"agent_answered", "job_progress", "experiment_finished", "baseline_measured"} <= set(kinds)


def test_the_best_model_loads_and_answers(whole_run, llamafactory) -> None:
    """`best/` is a whole model for `transformers`, with its card and the recipe that made it."""
    best = whole_run.run.best
    code = (
        "import sys\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "m, t = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "asked = [{'role': 'user', 'content': sys.argv[2]}]\n"
        "x = t.apply_chat_template(asked, add_generation_prompt=True, return_tensors='pt', return_dict=True)\n"
        "y = m.generate(**{k: v for k, v in x.items() if k != 'token_type_ids'}, max_new_tokens=96, do_sample=False)\n"
        "print(t.decode(y[0][x['input_ids'].shape[1]:], skip_special_tokens=True))\n"
    )
    right = next(i for i in experiment_score(whole_run.run, 1).items if i.correct)
    run_tools = whole_run.home / "benchmarks" / "wordproblems" / "validation.jsonl"
    asked = next(row["prompt"] for row in read_lines(run_tools) if row["id"] == right.id)
    argv = [str(llamafactory.python), "-c", code, str(best), asked]
    env = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    p = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stderr[-2000:]
    assert p.stdout.strip() == right.prediction.strip()
    assert {"README.md", "process_data.py", "train.yaml", "manifest.json"} <= {f.name for f in best.iterdir()}
