"""The real OpenCompass answers what plain `transformers` answers, and leaves results only when every item is measured."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stand_in_engine import collect_scores
from tuneloop.core.job import Command
from tuneloop.core.layout import Home
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import (
    EvaluationConditions,
    ItemSet,
    ModelWeights,
    Pair,
    evaluation_command,
    make_item_set,
)
from tuneloop.tools.jobs.progress import last_progress
from tuneloop.tools.scoring.verdicts import Row, read_rows

HERE = Path(__file__).parent
YAML = (
    "name: odd\ndescription: Say a letter.\nanswer: 'regex:([a-z])'\nmax_new_tokens: 24\n"
    "prompt: 'Question: {text}\\nEnd with \\boxed{answer} or {\"idx\": 1}.'\n"
)


def run(argv: Sequence[object], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, argv)), env=env, cwd=cwd, text=True, capture_output=True, timeout=300, check=False
    )


def run_job(command: Command) -> tuple[int, str]:
    """The command as a sandbox would start it, streams joined in a log."""
    log = Path(command.cwd).with_suffix(".log")
    with log.open("w") as f:
        done = subprocess.run(
            command.argv, env=command.env, cwd=command.cwd, check=False, stdout=f, stderr=subprocess.STDOUT, timeout=300
        )
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
    return resolve_benchmark(str(root / "own"), Home(root / "home"), None)


def weights(models: Path) -> list[ModelWeights]:
    chat = models / "chat"
    return [
        ModelWeights("chat", chat),
        ModelWeights("lora", chat, models / "lora", chat),
        ModelWeights("plain", models / "plain"),
    ]


@pytest.fixture(scope="module")
def asked(folder: BenchmarkFolder) -> ItemSet:
    return make_item_set(folder, "validation")


def test_three_kinds_of_model_answer_as_plain_transformers_do(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    command = evaluation_command(
        opencompass, weights(models), [asked], tmp_path / "out", EvaluationConditions(batch_size=8)
    )
    code, log = run_job(command)
    assert code == 0, log[-3000:]
    assert last_progress(tmp_path / "out.log") == (60, 60)
    done = run(
        [opencompass.python, HERE / "reference.py", command.argv[2], tmp_path / "ref.json"], command.env, tmp_path
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads((tmp_path / "ref.json").read_text())
    scores = collect_scores(tmp_path / "out", [asked])
    assert list(scores) == [("chat", "odd"), ("lora", "odd"), ("plain", "odd")]
    for (name, _), score in scores.items():
        assert {item.id: item.prediction for item in score.items} == expected[name]
        assert len(set(expected[name].values())) > 5
        assert score.n == 20
    assert expected["chat"] != expected["lora"]
    assert_forked_job_gives_the_same(opencompass, command, tmp_path)


def assert_forked_job_gives_the_same(engine: Engine, command: Command, tmp_path: Path) -> None:
    cold = read_rows(tmp_path / "out")
    fork_jobs(engine, [command])
    assert read_rows(tmp_path / "out") == cold


def fork_jobs(engine: Engine, commands: Sequence[Command]) -> list[float]:
    """Run the commands in forks of one process; their seconds."""
    script, jobs = commands[0].argv[1], [command.argv[2] for command in commands]
    done = run([engine.python, HERE / "fork_jobs.py", script, *jobs], commands[0].env, Path(commands[0].cwd))
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"job"')]
    assert [row["status"] for row in said] == [0] * len(commands), done.stderr[-3000:]
    return [row["seconds"] for row in said]


def test_one_job_gives_what_separate_jobs_give_in_any_order(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    chat = models / "chat"
    adapted = [ModelWeights(name, chat, models / name, chat) for name in ("lora", "ranks", "saved", "biased")]
    every = [ModelWeights("chat", chat), *adapted, ModelWeights("other", models / "other", None, chat)]
    short = asked.benchmark.model_copy(update={"max_new_tokens": 9, "prompt": "Hm: {text}"})
    sets = [asked, ItemSet("guard", short, "validation", asked.items[3:14])]
    plans = [[one] for one in every] + [every, every[::-1], [every[i] for i in (1, 5, 2, 0, 3, 1, 4)][:5]]
    commands = [
        evaluation_command(opencompass, plan, sets, tmp_path / str(i), EvaluationConditions(batch_size=4))
        for i, plan in enumerate(plans)
    ]
    fork_jobs(opencompass, commands)
    alone: dict[Pair, Row] = {}
    for i in range(len(every)):
        alone |= read_rows(tmp_path / str(i))
    assert len(alone) == 12
    for i, plan in enumerate(plans):
        found = read_rows(tmp_path / str(i), [(one.name, given.name) for one in plan for given in sets])
        assert found == {pair: alone[pair] for pair in found}
    answers = {one.name: json.dumps(alone[one.name, "odd"]["items"]) for one in every}
    assert len(set(answers.values())) == len(every), "models must differ for the comparison to mean something"


def test_a_model_is_measured_only_on_what_is_missing(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    given, guard = weights(models)[:2], ItemSet("guard", asked.benchmark, "validation", asked.items[:5])
    known = [("chat", "odd"), ("lora", "guard")]
    command = evaluation_command(opencompass, given, [asked, guard], tmp_path / "out", without=known)
    code, log = run_job(command)
    assert code == 0, log[-3000:]
    assert last_progress(tmp_path / "out.log") == (25, 25)
    assert set(collect_scores(tmp_path / "out", [asked, guard])) == {("chat", "guard"), ("lora", "odd")}


def test_the_sealed_split_and_long_prompts(
    opencompass: Engine, models: Path, folder: BenchmarkFolder, tmp_path: Path
) -> None:
    long = BenchmarkFolder(
        folder.benchmark.model_copy(update={"max_new_tokens": 150, "prompt": "{text} " + "y" * 80}), folder.root, "-"
    )
    sealed = make_item_set(long, "test")
    command = evaluation_command(opencompass, [ModelWeights("m", models / "chat")], [sealed], tmp_path / "out")
    code, log = run_job(command)
    assert code == 0, log[-3000:]
    score = collect_scores(tmp_path / "out", [sealed])["m", "odd"]
    assert (score.split, score.n) == ("test", 20)
    assert read_rows(tmp_path / "out")["m", "odd"]["truncated"] == 20


def test_a_killed_job_leaves_no_results_and_runs_again(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "out.log"
    command = evaluation_command(opencompass, weights(models), [asked], out, EvaluationConditions(batch_size=1))
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
    assert {model for model, _ in collect_scores(out, [asked])} == {"chat", "lora", "plain"}
    rows, part = read_rows(out), min((out / "parts").glob("*.json"))
    part.write_text(json.dumps({**json.loads(part.read_text()), "truncated": 7}))
    (out / "results.json").unlink()
    assert run_job(command)[0] == 0
    again = read_rows(out)
    assert sorted(row["truncated"] for row in again.values()) == [0, 0, 7], "what was measured is not measured again"
    assert [row["items"] for row in again.values()] == [row["items"] for row in rows.values()]


def broken_models(models: Path, root: Path) -> dict[str, ModelWeights]:
    cut, pickled = root / "cut", root / "pickled"
    for place in (cut, pickled):
        place.mkdir()
        for file in (models / "chat").iterdir():
            (place / file.name).write_bytes(file.read_bytes())
    os.truncate(cut / "model.safetensors", 1000)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (pickled / "other.safetensors").write_text("")
    return {"cut": ModelWeights("m", cut), "pickled": ModelWeights("m", pickled)}


@pytest.mark.parametrize("kind", ["cut", "pickled", "gone"])
def test_a_bad_model_is_an_error_and_leaves_no_results(
    kind: str, opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    bad = broken_models(models, tmp_path).get(kind, ModelWeights("m", models / "chat"))
    command = evaluation_command(opencompass, [ModelWeights("good", models / "chat"), bad], [asked], tmp_path / "out")
    if kind == "gone":
        job_file = Path(command.argv[2])
        job = json.loads(job_file.read_text())
        # Another key, too: what was measured under the same key a moment ago is the same model's.
        job["models"][1] |= {"path": str(tmp_path / "nowhere"), "keys": {asked.name: "0" * 16}}
        job_file.write_text(json.dumps(job))
    code, _ = run_job(command)
    assert code != 0
    assert not (tmp_path / "out" / "results.json").exists()
