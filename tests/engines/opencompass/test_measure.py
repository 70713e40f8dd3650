"""The real OpenCompass answers what plain `transformers` answers, and leaves results only when every item is measured."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.job import Command
from tuneloop.core.layout import Home
from tuneloop.tools.benchmarks import BenchmarkFolder, items, resolve, sealed_items
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation import Weights, collect, evaluation_command
from tuneloop.tools.progress import last_progress

HERE = Path(__file__).parent
YAML = (
    "name: odd\ndescription: Say a letter.\nanswer: 'regex:([a-z])'\nmax_new_tokens: 24\n"
    "prompt: 'Question: {text}\\nEnd with \\boxed{answer} or {\"idx\": 1}.'\n"
)

pytestmark = pytest.mark.slow


def run(argv: Sequence[object], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, argv)), env=env, cwd=cwd, text=True, capture_output=True, timeout=300, check=False
    )


def run_job(command: Command) -> tuple[int, str]:
    """The command as a sandbox would start it, streams joined in a log."""
    log = Path(command.cwd).with_suffix(".log")
    with log.open("w") as f:
        kwargs = {"stdout": f, "stderr": subprocess.STDOUT, "timeout": 300}
        done = subprocess.run(command.argv, env=command.env, cwd=command.cwd, check=False, **kwargs)
    return done.returncode, log.read_text()


@pytest.fixture(scope="module")
def models(opencompass: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    done = run([opencompass.python, HERE / "make_model.py", root], {"OMP_NUM_THREADS": "1", "HOME": str(root)}, root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolder:
    """Twenty items whose texts try to be templates themselves."""
    root = tmp_path_factory.mktemp("bench")
    (root / "own").mkdir()
    (root / "own" / "benchmark.yaml").write_text(YAML)
    for split in ("validation", "test"):
        odd = ("{tuneloop_gold}", "{idx}", "{prompt}", "x" * 30, "é ü 漢字", "\\frac{1}{2}", "line\n\nbreak ", "</E>")
        rows = [{"text": f"{split} {i} {odd[i % len(odd)]}", "answer": "abcdefgh"[i % 8]} for i in range(20)]
        (root / "own" / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return resolve(str(root / "own"), Home(root / "home"), None)


def weights(models: Path) -> list[Weights]:
    chat = models / "chat"
    return [Weights("chat", chat), Weights("lora", chat, models / "lora", chat), Weights("plain", models / "plain")]


def test_three_kinds_of_model_answer_as_plain_transformers_do(
    opencompass: Engine, models: Path, folder: BenchmarkFolder, tmp_path: Path
) -> None:
    command = evaluation_command(opencompass, weights(models), folder, "validation", tmp_path / "out", batch_size=8)
    code, log = run_job(command)
    assert code == 0, log[-3000:]
    assert last_progress(tmp_path / "out.log") == (60, 60)
    done = run(
        [opencompass.python, HERE / "reference.py", command.argv[2], tmp_path / "ref.json"], command.env, tmp_path
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads((tmp_path / "ref.json").read_text())
    scores = collect(tmp_path / "out", items(folder, "validation"), folder.benchmark, "validation")
    assert list(scores) == ["chat", "lora", "plain"]
    for name, score in scores.items():
        assert {item.id: item.prediction for item in score.items} == expected[name]
        assert len(set(expected[name].values())) > 5
        assert score.n == 20
    assert expected["chat"] != expected["lora"]


def test_the_sealed_split_and_long_prompts(
    opencompass: Engine, models: Path, folder: BenchmarkFolder, tmp_path: Path
) -> None:
    long = BenchmarkFolder(
        folder.benchmark.model_copy(update={"max_new_tokens": 150, "prompt": "{text} " + "y" * 80}), folder.root, "-"
    )
    command = evaluation_command(opencompass, [Weights("m", models / "chat")], long, "test", tmp_path / "out")
    code, log = run_job(command)
    assert code == 0, log[-3000:]
    score = collect(tmp_path / "out", sealed_items(long), long.benchmark, "test")["m"]
    assert (score.split, score.n) == ("test", 20)
    told: dict[str, Any] = json.loads((tmp_path / "out" / "results.json").read_text())["models"][0]
    assert told["truncated"] == 20


def test_a_killed_job_leaves_no_results_and_runs_again(
    opencompass: Engine, models: Path, folder: BenchmarkFolder, tmp_path: Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "out.log"
    command = evaluation_command(opencompass, weights(models), folder, "validation", out, batch_size=1)
    (out / "results.json").write_text("of another time")
    with log.open("w") as f:
        job = subprocess.Popen(command.argv, env=command.env, cwd=command.cwd, stdout=f, stderr=f)
    deadline = time.monotonic() + 200
    while last_progress(log)[0] < 5 and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    job.kill()
    assert job.wait() == -9
    assert 5 <= last_progress(log)[0] < 60
    assert not (out / "results.json").exists()
    code, text = run_job(command)
    assert code == 0, text[-3000:]
    assert collect(out, items(folder, "validation"), folder.benchmark, "validation").keys() == {"chat", "lora", "plain"}


def broken_models(models: Path, root: Path) -> dict[str, Weights]:
    cut, pickled = root / "cut", root / "pickled"
    for place in (cut, pickled):
        place.mkdir()
        for file in (models / "chat").iterdir():
            (place / file.name).write_bytes(file.read_bytes())
    os.truncate(cut / "model.safetensors", 1000)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (pickled / "other.safetensors").write_text("")
    return {"cut": Weights("m", cut), "pickled": Weights("m", pickled)}


@pytest.mark.parametrize("kind", ["cut", "pickled", "gone"])
def test_a_bad_model_is_an_error_and_leaves_no_results(
    kind: str, opencompass: Engine, models: Path, folder: BenchmarkFolder, tmp_path: Path
) -> None:
    bad = broken_models(models, tmp_path).get(kind, Weights("m", models / "chat"))
    command = evaluation_command(
        opencompass, [Weights("good", models / "chat"), bad], folder, "validation", tmp_path / "out"
    )
    if kind == "gone":
        job_file = Path(command.argv[2])
        job = json.loads(job_file.read_text())
        job["models"][1]["path"] = str(tmp_path / "nowhere")
        job_file.write_text(json.dumps(job))
    code, _ = run_job(command)
    assert code != 0
    assert not (tmp_path / "out" / "results.json").exists()
