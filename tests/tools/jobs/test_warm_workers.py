"""Warm engines give the numbers of cold ones, import next to nothing again, come and go with their run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared
from tuneloop.core.files import digest_file, read_json, write_json
from tuneloop.core.job import Command, Exit, Limits
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import newest_attempt, wait
from tuneloop.tools.benchmark_items.folder import render_prompt, select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.finalize import finalize_config, write_dataset_info
from tuneloop.tools.evaluation.item_sets import ModelWeights, evaluation_command, make_item_set
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.jobs.warm_workers import IDLE
from tuneloop.tools.runs.signature import write_signed_setup

CONFIG = (
    "template: chatml\nfinetuning_type: full\nlearning_rate: 0.001\nper_device_train_batch_size: 8\ncutoff_len: 256\n"
)
# Runs a script as itself and tells at its end which modules it has imported.
COUNT = """
import atexit, runpy, sys
before = set(sys.modules)
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition('/')[0]
atexit.register(lambda: print('imported:', *sorted(set(sys.modules) - before)))
runpy.run_path(sys.argv[0], run_name='__main__')
"""


@pytest.fixture(scope="module")
def run_tools(
    tmp_path_factory: pytest.TempPathFactory, llamafactory: object, opencompass: object, tiny: Path
) -> Iterator[RunTools]:
    """A prepared run, and its workers while the tests last."""
    home = linked_home(tmp_path_factory.mktemp("warm") / "home")
    settings = Settings(FT_FILE_PATH=home)
    run = RunFolder(settings.home.runs / "warm")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)
    prepared(run, spec, resolve_benchmark("wordproblems", settings.home, None), tiny)
    run_tools = RunTools(run, settings)
    with run_tools.warm_engines():
        yield run_tools


def finish(run_tools: RunTools, jobs: Path, command: Command, worker: str) -> tuple[Exit, str]:
    job = run_tools.launch(jobs, "job", command, worker=worker)
    done = wait(run_tools.sandbox, job, every=0.02)
    log = (job / "log.txt").read_text()
    assert done.ok, log[-3000:]
    assert not worker or "cold start" not in log
    return done, log


def train(run_tools: RunTools, name: str, worker: str, counted: bool = False) -> tuple[Path, str]:
    root, engine = run_tools.run.root / name, run_tools.engine("llamafactory")
    data, out, work = root / "data", root / "model", root / "work"
    for place in (data, out, work):
        place.mkdir(parents=True)
    rows = [
        {"instruction": render_prompt(run_tools.setup.benchmark, item), "input": "", "output": item.answer}
        for item in select_validation(run_tools.benchmark, 64).every
    ]
    write_json(data / "data.json", rows)
    write_dataset_info(data)
    text = finalize_config(
        parse_config(CONFIG).values,
        model=run_tools.setup.model_root,
        data=data,
        output=out,
        seed=3,
        device="cpu",
        steps_override=6,
    )
    (work / "config.yaml").write_text(text)
    (work / "count.py").write_text(COUNT)
    counting = (str(work / "count.py"),) if counted else ()
    command = Command(
        argv=(
            str(engine.python),
            *counting,
            str(ENGINES / "llamafactory/train.py"),
            "train",
            str(work / "config.yaml"),
        ),
        cwd=str(work),
        env={**run_tools.environment(work), **engine.env},
        read=(*engine.readable, str(ENGINES), str(data), str(run_tools.setup.model_root)),
        write=(str(out), str(work)),
        limits=Limits(seconds=300),
    )
    return out, finish(run_tools, root / "jobs", command, worker)[1]


def losses(out: Path) -> list[object]:
    history = read_json(out / "trainer_state.json")["log_history"]
    return [(row["step"], row.get("loss"), row.get("grad_norm"), row.get("learning_rate")) for row in history]


def test_a_warm_training_is_the_cold_one_byte_for_byte(run_tools: RunTools) -> None:
    cold, _ = train(run_tools, "cold", "")
    warm, log = train(run_tools, "warm", "llamafactory", counted=True)
    assert digest_file(cold / "model.safetensors") == digest_file(warm / "model.safetensors")
    assert losses(cold) == losses(warm)
    again = next(line for line in log.splitlines() if line.startswith("imported:")).split()[1:]
    assert len(again) <= 5, again


def test_a_warm_evaluation_is_the_cold_one_item_by_item(run_tools: RunTools) -> None:
    found = []
    for name, worker in (("cold-eval", ""), ("warm-eval", "opencompass")):
        out = run_tools.run.root / name / "out"
        models = [ModelWeights("base", run_tools.setup.model_root)]
        sets = [make_item_set(run_tools.benchmark, "validation", 12)]
        command = evaluation_command(run_tools.engine("opencompass"), models, sets, out)
        finish(run_tools, run_tools.run.root / name / "jobs", command, worker)
        found.append((out / "results.json").read_bytes())
    assert found[0] == found[1]


def test_workers_are_retired_and_come_back(run_tools: RunTools) -> None:
    assert run_tools.workers.socket("opencompass") == str(run_tools.workers.folder("opencompass") / "socket")
    run_tools.workers.stop()
    first = newest_attempt(run_tools.workers.jobs, "opencompass")
    assert first is not None
    assert wait(run_tools.sandbox, first).code == IDLE
    run_tools.workers.stop()
    run_tools.workers.socket("opencompass")
    second = newest_attempt(run_tools.workers.jobs, "opencompass")
    assert second is not None
    assert (first.name, second.name) == ("opencompass.1", "opencompass.2")
    assert run_tools.sandbox.poll(second).state == "running"


def test_a_worker_that_cannot_come_up_is_not_tried_again(run_tools: RunTools, tmp_path: Path) -> None:
    other = RunFolder(tmp_path / "runs" / "other")
    shutil.copytree(run_tools.run.root, other.root, ignore=shutil.ignore_patterns("work", "workers", "*old*", "*arm*"))
    write_signed_setup(other, other.setup.read_text())
    broken = RunTools(other, run_tools.settings)
    broken.__dict__["sandbox"] = run_tools.sandbox
    job = broken.workers.start("llamafactory")
    assert job is not None
    run_tools.sandbox.stop(job, grace=0)
    assert wait(run_tools.sandbox, job).reason == "stopped"
    end = {**read_json(job / "exit.json"), "reason": "finished", "code": 1}
    write_json(job / "exit.json", end)
    broken.workers.socket("llamafactory")
    assert newest_attempt(broken.workers.jobs, "llamafactory") == job
