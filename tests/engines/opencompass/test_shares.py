"""Several processes answer what one does, item by item; one that is killed ends the job, and finished shares stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.engines.opencompass.test_measure import asked, folder, fork_jobs, models, run_job, weights
from tests.engines.opencompass.test_vllm import oc_config
from tests.waiting import until
from tuneloop.core.job import Command
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import SCRIPTS, EvaluationConditions, ItemSet, evaluation_command
from tuneloop.tools.jobs.progress import last_progress
from tuneloop.tools.scoring.verdicts import read_rows

__all__ = ["asked", "folder", "models", "oc_config"]


def by_two(command: Command) -> Command:
    return command.model_copy(update={"env": {**command.env, "NPROC_PER_NODE": "2"}})


def test_two_processes_give_the_answers_of_one(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    """Most likely answers and drawn ones, in forks of a worker; also where a batch is all there is."""
    drawn = asked.benchmark.model_copy(update={"temperature": 0.8, "top_p": 0.9})
    few = ItemSet("few", drawn, "validation", asked.items[:3])
    same = ItemSet(
        "same", asked.benchmark, "validation", asked.items
    )  # another name of one content: no share of its own
    sets = [asked, ItemSet("drawn", drawn, "validation", asked.items), few, same]
    how = EvaluationConditions(batch_size=4)
    one, two = (evaluation_command(opencompass, weights(models), sets, tmp_path / n, how) for n in ("one", "two"))
    code, log = run_job(one)
    assert code == 0, log[-3000:]
    fork_jobs(opencompass, [by_two(two)])
    assert read_rows(tmp_path / "two") == read_rows(tmp_path / "one")
    assert last_progress(tmp_path / "two" / "rank-1.log")[0] == 48, "two of five batches, of two sets and three models"
    assert not list((tmp_path / "two" / "parts").glob("*-of-2"))


@pytest.mark.soak
def test_a_killed_process_ends_the_job_as_killed_and_its_next_attempt_uses_what_is_there(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "out.log"
    command = by_two(
        evaluation_command(opencompass, weights(models)[:1], [asked], out, EvaluationConditions(batch_size=1))
    )
    with log.open("w") as f:
        job = subprocess.Popen(command.argv, env=command.env, cwd=command.cwd, stdout=f, stderr=f)
    until(lambda: last_progress(log)[0] or job.poll() is not None, seconds=200, every=0.01)
    (other,) = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    os.kill(int(other), signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL
    assert "process 1 of 2 ended first, with status -9" in log.read_text()
    assert not (out / "results.json").exists()
    key = json.loads(Path(command.argv[2]).read_text())["models"][0]["keys"][asked.name]
    # What another process left is believed under its key, whatever it is.
    (out / "parts" / f"{key}.1-of-2").write_text(json.dumps({number: [65] for number in range(20)}))
    code, text = run_job(command)
    assert code == 0, text[-3000:]
    assert len({item["prediction"] for item in read_rows(out)["chat", "odd"]["items"]}) == 1


@pytest.mark.soak
def test_one_that_fails_is_said(opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path) -> None:
    command = by_two(evaluation_command(opencompass, weights(models)[:1], [asked], tmp_path / "out"))
    (tmp_path / "out" / "opencompass").mkdir()
    code = "import sys; sys.argv[1:] = sys.argv[2:]; import oc_shares, measure, pathlib\n"
    code += "keep = measure.measure_all\n"
    code += "def broken(*a):\n    assert not oc_shares.SHARES.rank, 'odd words'\n    keep(*a)\n"
    code += "measure.measure_all = broken\nmeasure.main(pathlib.Path(sys.argv[1]))\n"
    env = {**command.env, "PYTHONPATH": str(Path(command.argv[1]).parent)}
    argv = (command.argv[0], "-c", code, *command.argv[1:])
    status, log = run_job(command.model_copy(update={"argv": argv, "env": env}))
    assert status == 1
    assert "AssertionError: odd words\n\nprocess 1 of 2 ended first, with status 1" in log


GPUS = """
import json, torch, oc_shares
torch.cuda.device_count = lambda: 4
oc_shares.smallest_memory = lambda gpus: 1 << 30
oc_shares.weight_bytes = lambda path: int(path.name) << 20
def of(mib, **job):
    job = {"device": "cuda", "models": [{"path": str(mib)}, {"replies": "r"}], **job}
    return oc_shares.split(job, len(oc_shares.visible_gpus(job)))
print(json.dumps([of(768), of(769), of(769, gpus=2), of(1, device="cpu"), of(1, models=[{"replies": "r"}])]))
"""


def test_a_process_for_each_gpu_unless_a_model_needs_several(opencompass: Engine, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(SCRIPTS), "HOME": str(tmp_path)}
    argv = [str(opencompass.python), "-c", GPUS]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[4, 1], [1, 4], [1, 2], [1, 1], [1, 1]]
    assert "769 MiB of weights do not fit one GPU: the model is spread over 4" in done.stdout


@pytest.mark.parametrize(
    ("heads", "shared", "gpus", "taken"), [(32, 8, 8, 8), (28, 4, 8, 4), (14, 2, 4, 2), (12, None, 8, 6), (1, 1, 2, 1)]
)
def test_vllm_takes_as_many_gpus_as_the_heads_divide_by(
    oc_config: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    heads: int,
    shared: int | None,
    gpus: int,
    taken: int,
) -> None:
    config = {"num_attention_heads": heads, **({"num_key_value_heads": shared} if shared else {})}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = oc_config.vllm_options(str(tmp_path), "/t", "auto", 4096, 0, 7, gpus)
    assert found["tensor_parallel_size"] == taken
    assert bool(capsys.readouterr().out) == (taken < gpus)
