"""Real kills at random steps, damage between them: the curve and the weights of the training nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.files import digest_file, write_json
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.finalize import finalize_config, write_dataset_info
from tuneloop.tools.jobs.machine import ENGINES

STEPS = 70
# Saved steps lie between logged ones: 14 is no multiple of 4.
ASKED = """
finetuning_type: lora
lora_rank: 4
lora_dropout: 0.1
learning_rate: 1.0e-3
max_steps: 70
per_device_train_batch_size: 4
cutoff_len: 64
template: chatml
disable_gradient_checkpointing: true
"""


class Training:
    """One output folder and the runs of the engine into it."""

    def __init__(
        self, python: Path, tiny: Path, root: Path, asked: str = ASKED, logged: int = 4, saved: int = 14
    ) -> None:
        self.python, self.root, self.out = python, root, root / "out"
        data = root / "data"
        rows = [{"instruction": f"{a} plus {a % 9}?", "input": "", "output": f"It is {a + a % 9}."} for a in range(120)]
        write_json(data / "data.json", rows)
        write_dataset_info(data)
        self.out.mkdir()
        values, places = parse_config(asked).values, {"model": tiny, "data": data, "output": self.out}
        text = finalize_config(values, **places, seed=1, device="cpu", steps_override=None)
        text = text.replace("logging_steps: 0.02", f"logging_steps: {logged}")
        (root / "config.yaml").write_text(text.replace("save_steps: 0.2", f"save_steps: {saved}"))

    def start(self, **more: str) -> subprocess.Popen[bytes]:
        """The engine's process, which writes `log.txt`."""
        env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(self.root / "hf"), "HOME": str(self.root)}
        env |= {"CUDA_VISIBLE_DEVICES": "", "DISABLE_VERSION_CHECK": "1", "PATH": os.environ["PATH"], **more}
        script = ENGINES / "llamafactory" / "train.py"
        with (self.root / "log.txt").open("ab") as log:
            argv = [str(self.python), str(script), "train", str(self.root / "config.yaml")]
            return subprocess.Popen(argv, env=env, cwd=self.root, stdout=log, stderr=log)

    def run(self, number: int | None = None, at: int = 0) -> int:
        """Run it; send signal `number` when step `at` is reached. Returns the exit status."""
        (self.out / "pulse.json").unlink(missing_ok=True)
        p = self.start()
        while p.poll() is None:
            if number is not None and self.logged() >= at:
                p.send_signal(number)
                number = None
            time.sleep(0.01)
        return p.returncode

    def logged(self) -> int:
        """The last step in the engine's log of this run, or the pulse."""
        try:
            return int(json.loads((self.out / "pulse.json").read_text())["step"])
        except FileNotFoundError:
            return -1

    def curve(self) -> list[dict[str, Any]]:
        """Every logged number that a clock has no part in."""
        state = json.loads((self.out / "trainer_state.json").read_text())
        timed = ("train_runtime", "train_samples_per_second", "train_steps_per_second")
        return [{k: v for k, v in row.items() if k not in timed} for row in state["log_history"]]

    def newest(self) -> Path:
        """The newest that is whole; one that a kill tore lies beside it at times."""
        whole = [p for p in self.out.glob("checkpoint-*") if (p / "proof.json").is_file()]
        return max(whole, key=lambda p: int(p.name.split("-")[1]))

    def weights(self) -> str:
        return digest_file(self.out / "adapter_model.safetensors")


@pytest.fixture(scope="module")
def training(llamafactory, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Training]:
    def made(name: str) -> Training:
        return Training(llamafactory.python, tiny, tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="module")
def calm(training: Callable[[str], Training]) -> Training:
    """Trained to its end; nobody disturbed it."""
    made = training("calm")
    assert made.run() == 0
    return made


def test_killed_stopped_and_damaged_it_ends_as_if_nothing_had_been(
    calm: Training, training: Callable[[str], Training]
) -> None:
    rough = training("rough")
    seed = time.time_ns() % 1000
    chance = random.Random(seed)
    assert rough.run(signal.SIGTERM, chance.randrange(5, 13)) == 75
    stopped_at = int(rough.newest().name.split("-")[1])
    assert stopped_at < 20 and (rough.newest() / "proof.json").is_file()
    assert rough.run(signal.SIGKILL, chance.randrange(30, 40)) == -9
    os.truncate(rough.newest() / "optimizer.pt", 1000)
    with (rough.out / "trainer_log.jsonl").open("a") as f:
        f.write('{"current_steps": 3')
    assert rough.run(signal.SIGKILL, chance.randrange(45, 60)) == -9
    (rough.newest() / "rng_state.pth").unlink()
    assert rough.run() == 0
    log = (rough.root / "log.txt").read_text()
    assert log.count("is put aside") >= 2
    assert rough.curve() == calm.curve(), f"seed {seed}"
    assert rough.weights() == calm.weights(), f"seed {seed}"


def test_a_finished_output_is_left_alone_and_a_lost_end_is_made_again(calm: Training) -> None:
    t = calm
    weights, curve = t.weights(), t.curve()
    before = {p: p.stat().st_mtime_ns for p in t.out.iterdir()}
    assert t.run() == 0
    assert {p: p.stat().st_mtime_ns for p in t.out.iterdir()} | before == before
    # A power cut took the end: the last checkpoint holds the same model, no step is taken twice.
    (t.out / "finished.json").unlink()
    (t.out / "adapter_model.safetensors").write_bytes(bytes(5000))
    (t.out / "trainer_state.json").unlink()
    assert t.run() == 0
    assert t.weights() == weights
    assert [row for row in curve if "loss" in row] == [row for row in t.curve() if "loss" in row]
