"""Several processes train as one does: the same rows a step, the same weights; what kills and stops end goes on, also as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.engines.llamafactory.test_continuing import Training
from tests.waiting import until
from tuneloop.core.files import write_json
from tuneloop.tools.config.sharding import share_step
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES

PATHS = {**os.environ, "PYTHONPATH": str(ENGINES / "llamafactory")}  # -c alone finds nothing under PYTHONSAFEPATH
ASKED = """
finetuning_type: full
learning_rate: 1.0e-3
max_steps: 24
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
cutoff_len: 64
template: chatml
disable_gradient_checkpointing: true
"""
CLOSE = 1e-5  # the largest change of a weight in this training is 1e-2


class Together(Training):
    """Run by several processes, or by one."""

    def train(self, processes: int, disturb: Callable[[int], None] | None = None) -> int:
        """Run it; `disturb` gets its process once one more checkpoint is proved. Returns the exit status."""
        several = {"FORCE_TORCHRUN": "1", "NPROC_PER_NODE": str(processes)} if processes > 1 else {}
        before, p = self.proved(), self.start(**several)
        while p.poll() is None:
            if disturb and self.proved() - before:
                disturb(p.pid)
                disturb = None
            time.sleep(0.01)
        return p.returncode

    def proved(self) -> set[str]:
        return {p.parent.name for p in self.out.glob("checkpoint-*/proof.json")}

    def losses(self) -> list[float]:
        return [row["loss"] for row in self.curve() if "loss" in row]

    def log(self) -> str:
        return (self.root / "log.txt").read_text(errors="replace")


def weights(out: Path) -> np.ndarray:
    """All weights in the order of the file."""
    raw = (out / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    assert {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"} == {"F32"}
    return np.frombuffer(raw[start:], "<f4")


def far(one: Together, other: Together) -> float:
    """The largest difference of a weight."""
    return float(np.abs(weights(one.out) - weights(other.out)).max())


@pytest.fixture(scope="module")
def training(llamafactory, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Together]:
    return lambda name: Together(llamafactory.python, tiny, tmp_path_factory.mktemp(name), ASKED, 3, 8)


@pytest.fixture(scope="module")
def alone(training: Callable[[str], Together]) -> Together:
    """Trained by one process."""
    made = training("alone")
    assert made.train(1) == 0
    return made


def kill_last_child(pid: int) -> None:
    """SIGKILL to a process other than the first."""
    os.kill(children(pid)[-1], signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Processes that this one started; [] of one that has ended."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def test_two_processes_make_the_weights_of_one_however_they_are_disturbed(
    alone: Together, training: Callable[[str], Together]
) -> None:
    two = training("two")
    assert two.train(2, kill_last_child) == -signal.SIGKILL
    assert "process 1 of 2 ended first, with status -9" in two.log()
    assert two.train(2, lambda pid: os.kill(pid, signal.SIGTERM)) == 75
    assert not (two.out / "finished.json").exists()
    assert json.loads((two.newest() / "processes.json").read_text()) == {"count": 2, "split": False}
    assert two.train(1) == 0
    assert two.losses() == pytest.approx(alone.losses(), abs=1e-3)
    assert far(alone, two) < CLOSE


def test_two_processes_cost_and_end_as_one_does(alone: Together, training: Callable[[str], Together]) -> None:
    two = training("calm")
    assert two.train(2) == 0
    assert far(alone, two) < CLOSE
    costs = [json.loads((t.out / "cost.json").read_text()) for t in (alone, two)]
    # The second half of a step's rows is padded by itself.
    one, other = ([row[0] for row in cost["steps"]] for cost in costs)
    assert other == pytest.approx(one, rel=0.3)
    assert costs[1]["memory"] > 1.5 * costs[0]["memory"]
    assert two.train(2) == 0 and "this output is finished" in two.log()


class Nodes(Together):
    """Two launchers with one process each, as on two nodes that share their folders."""

    attempt = 0

    def launch(self) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        self.attempt += 1
        env = {"NNODES": "2", "MASTER_ADDR": "127.0.0.1", "RDZV_ID": str(self.attempt), "FORCE_TORCHRUN": "1"}
        env |= {"GLOO_SOCKET_IFNAME": "lo"}
        one, other = (self.start(**env, NODE_RANK=str(rank), HF_HOME=str(self.root / f"hf{rank}")) for rank in (0, 1))
        return one, other


@pytest.fixture(scope="module")
def nodes(llamafactory, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Nodes]:
    return lambda name: Nodes(llamafactory.python, tiny, tmp_path_factory.mktemp(name), ASKED, 3, 8)


def test_two_nodes_make_the_weights_of_one(alone: Together, nodes: Callable[[str], Nodes]) -> None:
    two = nodes("nodes")
    one, other = two.launch()
    assert one.wait() == 0, two.log()
    other.wait()
    assert far(alone, two) < CLOSE
    assert json.loads((two.newest() / "processes.json").read_text()) == {"count": 2, "split": False}
    one, other = two.launch()
    assert one.wait() == 0 and "this output is finished" in two.log()
    other.kill()  # it waits for the first, as long as it is let
    other.wait()


@pytest.mark.soak
def test_a_dead_node_ends_all_and_the_next_attempt_goes_on(
    alone: Together, nodes: Callable[[str], Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = nodes("dying")

    def disturbed(disturb: Callable[[int, int], None]) -> int:
        before, (one, other) = two.proved(), two.launch()
        until(lambda: two.proved() - before or one.poll() is not None, seconds=300, every=0.01)
        disturb(one.pid, other.pid)
        code = one.wait(120)
        for pid in (*children(other.pid), other.pid):
            os.kill(pid, signal.SIGKILL)
        other.wait()
        return code

    # A process of the other node, then all of that node without a word, then a stop of the first.
    assert disturbed(lambda _, other: kill_last_child(other)) == -signal.SIGKILL
    assert "process 1 of 2 ended first, with status -9" in two.log()
    assert disturbed(lambda _, other: silence(other)) == -signal.SIGKILL
    assert disturbed(lambda one, _: os.kill(one, signal.SIGTERM)) in (75, 0)
    assert two.launch()[0].wait() == 0
    assert far(alone, two) < CLOSE


def silence(pid: int) -> None:
    """As when a node's power fails: its processes say nothing more, and close nothing."""
    for one in (*children(pid), pid):
        os.kill(one, signal.SIGSTOP)


def test_the_log_ends_with_what_the_first_process_that_failed_says(training: Callable[[str], Together]) -> None:
    broken = training("broken")
    (broken.root / "data" / "data.json").write_text("[")
    assert broken.train(2) == 1
    last = broken.log().splitlines()
    assert "ended first, with status 1" in last[-1] and "Error" in "".join(last[-12:])


def test_a_checkpoint_that_is_split_over_other_processes_is_no_start(
    llamafactory, training: Callable[[str], Together]
) -> None:
    checkpoint = training("split").out / "checkpoint-8"
    write_json(checkpoint / "processes.json", {"count": 4, "split": True})
    asked = "import lf_processes as p, sys; p.check_resumable(sys.argv[1], int(sys.argv[2]))"
    argv = [str(llamafactory.python), "-c", asked, str(checkpoint)]
    done = [subprocess.run([*argv, str(n)], env=PATHS, capture_output=True, text=True, check=False) for n in (4, 2)]
    assert [d.returncode for d in done] == [0, 1]
    assert done[1].stderr.strip() == (
        "error: checkpoint-8 is split over 4 processes and cannot go on with 2: right is 4 GPUs, or an empty output folder"
    )


def test_engine_and_estimate_share_a_step_alike(llamafactory) -> None:
    cases = [
        (batch, many, n, nodes)
        for batch in (1, 2, 3, 4, 6, 8)
        for many in (1, 2, 3, 4, 16)
        for n in (1, 2, 3, 4, 8)
        for nodes in (1, 2, 3)
    ]
    asked = """
import json, lf_processes as p, sys
def of(batch, many, n, nodes):
    args = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": many}
    used, each = p.shares_evenly(p.rows_of_step(args), nodes, n)
    count = used * each
    own = p.own_share(args, count)
    assert count * p.rows_of_step(own) == batch * many
    return count, own["per_device_train_batch_size"]
print(json.dumps([of(*case) for case in json.load(sys.stdin)]))
"""
    argv = [str(llamafactory.python), "-c", asked]
    done = subprocess.run(argv, env=PATHS, input=json.dumps(cases), capture_output=True, text=True, check=True)
    assert [tuple(found) for found in json.loads(done.stdout)] == [share_step(*case) for case in cases]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_is_told_also_of_processes_that_are_killed(tmp_path: Path, llamafactory: Engine, sign: int) -> None:
    child = f"import os; os.kill(os.getpid(), {int(sign)})"
    code = f"import lf_processes, pathlib; lf_processes.run_together(['-c', {child!r}], 2, pathlib.Path('over').touch)"
    done = subprocess.run([llamafactory.python, "-c", code], cwd=tmp_path, env=PATHS)
    assert done.returncode == -sign and (tmp_path / "over").is_file()
