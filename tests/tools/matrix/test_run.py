"""The matrix on real engines: killed and called again, evaluated and reported on without training, as `tuneloop eval` measures."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import COMMAND, SHARED_HOME, quiet, tuneloop
from tests.stand_in_engine import write_benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.standalone.measure import Decoding, fetch_benchmarks, measure, sets_of
from tuneloop.tools.evaluation.standalone.subjects import find_subject
from tuneloop.tools.matrix.configs import read_configs
from tuneloop.tools.matrix.experiments import EXPERIMENTS, ResultTree
from tuneloop.tools.matrix.run import Request, run_matrix
from tuneloop.tools.models.tiny import SHIPPED

WORDS = ("matrix", "--task", "wordproblems", "--experiments", "sft_no_chat_mask_q", "--config", "configs")
ITEMS = 24
PROMPTS = 16  # as many as the shipped grpo.yaml draws replies to at once


@pytest.mark.parametrize("lacks", ["a template", "a known key", "an end"])
def test_what_cannot_be_trained_is_refused_before_anything_costs(
    tmp_path: Path, llamafactory: Engine, lacks: str
) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home", FT_ENGINES_DIR=SHARED_HOME / "engines")
    place = write_benchmark(tmp_path / "sums")
    rows = (f'{{"prompt": "What is {n} plus 901?", "answer": "{n + 901}"}}\n' for n in range(900, 900 + PROMPTS))
    (place / "train.jsonl").write_text("".join(rows))
    model, configs, tree = tmp_path / "model", tmp_path / "configs", ResultTree(tmp_path / "results")
    shutil.copytree(SHIPPED, model)
    configs.mkdir()
    (configs / "sft.yaml").write_text("learning_rat: 1.0\n" if lacks == "a known key" else "max_steps: 1\n")
    if lacks == "a template":
        (model / "chat_template.jinja").unlink()
        told = read_json(model / "tokenizer_config.json")
        write_json(model / "tokenizer_config.json", {key: told[key] for key in told if key != "chat_template"})
    if lacks == "an end":
        (tree.root / "models" / "sft_no_chat_mask_q").mkdir(parents=True)
        (tree.root / "models" / "sft_no_chat_mask_q" / "mine.txt").touch()
    said = {
        "a template": "has no chat template",
        "a known key": "sft.yaml: learning_rat: ",
        "an end": "holds something",
    }
    request = Request(str(place), list(EXPERIMENTS), tree, read_configs(configs), str(model))
    with pytest.raises(InvalidRequestError, match=said[lacks]):
        run_matrix(request, settings, quiet, print)
    assert not settings.home.trainings.exists(), "nothing half-made is left"


def jobs(home: Path) -> list[Path]:
    return sorted(home.glob("*/*/**/jobs/*.[0-9]*"))


@pytest.fixture
def configs(warm_home: Path) -> Path:
    place = warm_home.parent / "configs"
    place.mkdir()
    (place / "sft.yaml").write_text(
        "finetuning_type: full\nlearning_rate: 2.0e-3\nmax_steps: 40\nper_device_train_batch_size: 4\nmax_samples: 200\n"
    )
    (place / "eval.yaml").write_text(f"max_tokens: 48\nsample_limit: {ITEMS}\n")
    return place


def test_two_cells_survive_a_kill_and_are_measured_as_everywhere(warm_home: Path, configs: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(warm_home)}
    first = subprocess.Popen([*COMMAND, *WORDS], env=env, cwd=warm_home.parent, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list(warm_home.glob("trainings/*/experiments/001/model/pulse.json")):
        assert first.poll() is None and time.monotonic() < deadline, "its training never began"
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    tree = warm_home.parent / "results" / "wordproblems"
    assert not (tree / "models").exists(), "a model is delivered whole"
    page = Path(tuneloop(warm_home, *WORDS).splitlines()[-1])
    assert page == tree / "report" / "report.md"
    assert [path.name for path in jobs(warm_home) if path.name.startswith("train.")] == ["train.1"]
    cells = {path.name: read_json(path / "results.json") for path in (tree / "eval").iterdir()}
    assert {name: len(rows) for name, rows in cells.items()} == {
        "sft_no_chat_mask_q_eval_chat": ITEMS,
        "sft_no_chat_mask_q_eval_raw": ITEMS,
    }
    summary = read_json(tree / "eval" / "sft_no_chat_mask_q_eval_raw" / "summary.json")
    assert summary["accuracy"] == pytest.approx(
        100 * sum(r["correct"] for r in cells["sft_no_chat_mask_q_eval_raw"]) / ITEMS
    )
    assert summary["trained"]["training"]["steps"] == 40

    before = [(path, path.stat().st_mtime_ns) for path in jobs(warm_home)]
    for option in ("--only-eval", "--only_report"):
        tuneloop(warm_home, *WORDS, option)
    assert [(path, path.stat().st_mtime_ns) for path in jobs(warm_home)] == before, "nothing was trained or asked again"

    settings = Settings(FT_FILE_PATH=warm_home)
    sets = sets_of(fetch_benchmarks(["wordproblems"], settings), "validation", ITEMS, Decoding(max_out_len=48))
    subject = find_subject(str(tree / "models" / "sft_no_chat_mask_q"), settings, quiet)
    score = measure(subject, sets, settings, quiet, device="cpu", decoding=Decoding(max_out_len=48)).scores[
        "wordproblems"
    ]
    told = {row["id"]: (row["prediction"], row["correct"]) for row in cells["sft_no_chat_mask_q_eval_chat"]}
    assert {item.id: (item.prediction, item.correct) for item in score.every} == told
