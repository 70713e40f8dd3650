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
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import newest, wait
from tuneloop.tools.benchmarks import prompt, resolve, validation
from tuneloop.tools.evaluation import Weights, evaluation_command, item_set
from tuneloop.tools.params.finalize import finalize, write_dataset_info
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.workbench import Workbench
from tuneloop.tools.workers import IDLE, jobs_of, scratch, start, stop_workers, warm_engines, worker_for

pytestmark = pytest.mark.slow

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
def bench(
    tmp_path_factory: pytest.TempPathFactory, llamafactory: object, opencompass: object, tiny: Path
) -> Iterator[Workbench]:
    """A prepared run, and its workers while the tests last."""
    home = linked_home(tmp_path_factory.mktemp("warm") / "home")
    settings = Settings(FT_FILE_PATH=home)
    run = RunFolder(settings.home.runs / "warm")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)
    prepared(run, spec, resolve("wordproblems", settings.home, None), tiny)
    bench = Workbench(run, settings)
    with warm_engines(bench):
        yield bench


def finish(bench: Workbench, jobs: Path, command: Command, worker: str) -> tuple[Exit, str]:
    job = bench.launch(jobs, "job", command, worker=worker)
    done = wait(bench.sandbox, job, every=0.02)
    log = (job / "log.txt").read_text()
    assert done.ok, log[-3000:]
    assert not worker or "cold start" not in log
    return done, log


def train(bench: Workbench, name: str, worker: str, counted: bool = False) -> tuple[Path, str]:
    root, engine = bench.run.root / name, bench.engine("llamafactory")
    data, out, work = root / "data", root / "model", root / "work"
    for place in (data, out, work):
        place.mkdir(parents=True)
    rows = [
        {"instruction": prompt(bench.setup.benchmark, item), "input": "", "output": item.answer}
        for item in validation(bench.benchmark, 64).every
    ]
    write_json(data / "data.json", rows)
    write_dataset_info(data)
    text = finalize(CONFIG, model=bench.setup.model_root, data=data, output=out, seed=3, device="cpu", steps_override=6)
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
        env={**bench.environment(work), **engine.env},
        read=(*engine.readable, str(ENGINES), str(data), str(bench.setup.model_root)),
        write=(str(out), str(work)),
        limits=Limits(seconds=300),
    )
    return out, finish(bench, root / "jobs", command, worker)[1]


def losses(out: Path) -> list[object]:
    history = read_json(out / "trainer_state.json")["log_history"]
    return [(row["step"], row.get("loss"), row.get("grad_norm"), row.get("learning_rate")) for row in history]


def test_a_warm_training_is_the_cold_one_byte_for_byte(bench: Workbench) -> None:
    cold, _ = train(bench, "cold", "")
    warm, log = train(bench, "warm", "llamafactory", counted=True)
    assert digest_file(cold / "model.safetensors") == digest_file(warm / "model.safetensors")
    assert losses(cold) == losses(warm)
    again = next(line for line in log.splitlines() if line.startswith("imported:")).split()[1:]
    assert len(again) <= 5, again


def test_a_warm_evaluation_is_the_cold_one_item_by_item(bench: Workbench) -> None:
    found = []
    for name, worker in (("cold-eval", ""), ("warm-eval", "opencompass")):
        out = bench.run.root / name / "out"
        models = [Weights("base", bench.setup.model_root)]
        sets = [item_set(bench.benchmark, "validation", 12)]
        command = evaluation_command(bench.engine("opencompass"), models, sets, out)
        finish(bench, bench.run.root / name / "jobs", command, worker)
        found.append((out / "results.json").read_bytes())
    assert found[0] == found[1]


def test_workers_are_retired_and_come_back(bench: Workbench) -> None:
    assert worker_for(bench, "opencompass") == str(scratch(bench, "opencompass") / "socket")
    stop_workers(bench)
    first = newest(jobs_of(bench), "opencompass")
    assert first is not None
    assert wait(bench.sandbox, first).code == IDLE
    stop_workers(bench)
    worker_for(bench, "opencompass")
    second = newest(jobs_of(bench), "opencompass")
    assert second is not None
    assert (first.name, second.name) == ("opencompass.1", "opencompass.2")
    assert bench.sandbox.poll(second).state == "running"


def test_a_worker_that_cannot_come_up_is_not_tried_again(bench: Workbench, tmp_path: Path) -> None:
    other = RunFolder(tmp_path / "runs" / "other")
    shutil.copytree(bench.run.root, other.root, ignore=shutil.ignore_patterns("work", "workers", "*old*", "*arm*"))
    broken = Workbench(other, bench.settings)
    broken.__dict__["sandbox"] = bench.sandbox
    job = start(broken, "llamafactory")
    assert job is not None
    bench.sandbox.stop(job, grace=0)
    assert wait(bench.sandbox, job).reason == "stopped"
    end = {**read_json(job / "exit.json"), "reason": "finished", "code": 1}
    write_json(job / "exit.json", end)
    worker_for(broken, "llamafactory")
    assert newest(jobs_of(broken), "llamafactory") == job
