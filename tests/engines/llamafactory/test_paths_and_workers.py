"""Folders whose names are patterns elsewhere, and a sandbox without sockets: a training makes the weights that it makes without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.files import digest_file, write_json
from tuneloop.core.job import Command, Limits, Sandbox
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.landlock import LandlockSandbox, probe_landlock
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.finalize import finalize_config, write_dataset_info
from tuneloop.tools.engines import Engine
from tuneloop.tools.training.launch import SCRIPTS

pytestmark = pytest.mark.slow

ASKED = """
finetuning_type: lora
max_steps: 2
per_device_train_batch_size: 4
cutoff_len: 64
template: chatml
"""
WORKERS = """
preprocessing_num_workers: 2
dataloader_num_workers: 2
dataloader_prefetch_factor: 2
dataloader_persistent_workers: true
"""
ODD = 'it\'s [ab] a*b?c $HOME "ü" #1 %s {x} 日本'


def trained(sandbox: Sandbox, engine: Engine, tiny: Path, root: Path, asked: str) -> tuple[str, str]:
    """SHA-256 of the adapter and the log; "" where no adapter was made."""
    places = {name: root / name for name in ("data", "out", "work")}
    for place in places.values():
        place.mkdir(parents=True)
    rows = [{"instruction": f"{a} plus 1?", "input": "", "output": f"It is {a + 1}."} for a in range(8)]
    write_json(places["data"] / "data.json", rows)
    write_dataset_info(places["data"])
    values, where = parse_config(asked).values, {"model": tiny, "data": places["data"], "output": places["out"]}
    (root / "config.yaml").write_text(finalize_config(values, **where, seed=1, device="cpu", steps_override=None))
    work = str(places["work"])
    command = Command(
        argv=(str(engine.python), SCRIPTS[0], "train", str(root / "config.yaml")),
        cwd=work,
        env={"HF_HOME": f"{work}/hf", "HF_HUB_OFFLINE": "1", "DISABLE_VERSION_CHECK": "1", "OMP_NUM_THREADS": "1"},
        read=(*engine.readable, *SCRIPTS, str(root / "config.yaml"), str(places["data"]), str(tiny.resolve())),
        write=(str(places["out"]), work),
        limits=Limits(seconds=300),
    )
    sandbox.start(root / "job", command)
    wait(sandbox, root / "job", every=0.1)
    made = places["out"] / "adapter_model.safetensors"
    return digest_file(made) if made.is_file() else "", (root / "job/log.txt").read_text()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, llamafactory: Engine, tiny: Path) -> str:
    """The weights without workers, in a folder with a plain name."""
    found, log = trained(ProcessSandbox(), llamafactory, tiny, tmp_path_factory.mktemp("plain") / "x", ASKED)
    assert found, log
    return found


def test_a_folder_may_be_called_anything(plain: str, llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    found, log = trained(ProcessSandbox(), llamafactory, tiny, tmp_path / ODD, ASKED)
    assert found == plain, log


@pytest.mark.skipif(probe_landlock() is not None, reason="no Landlock here")
def test_without_sockets_no_workers_are_started(plain: str, llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    """Nothing hangs, and where folders cannot be listed they are not."""
    found, log = trained(LandlockSandbox(), llamafactory, tiny, tmp_path / ODD, ASKED + WORKERS)
    assert found == plain, log
    assert "no sockets for worker processes: preprocessing_num_workers, dataloader_num_workers" in log


@pytest.mark.skipif(probe_landlock() is not None, reason="no Landlock here")
def test_streaming_without_sockets_is_one_line(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    asked = ASKED + "streaming: true\ndataloader_num_workers: 1\n"
    found, log = trained(LandlockSandbox(), llamafactory, tiny, tmp_path / "x", asked)
    assert not found
    assert log.splitlines()[-1].endswith("this sandbox has none: right is streaming: false")
