"""A base model whose weights are pickled: `prepare` measures the copy in safetensors, and it answers as the original."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, SMALL, WholeRun, linked_home
from tuneloop.core.files import read_json
from tuneloop.tools.engines import Engine

PICKLE = """\
import sys, torch
from safetensors.torch import load_file
torch.save(load_file(sys.argv[1]), sys.argv[2])
"""


def test_it_scores_as_its_original(short_run: WholeRun, llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    home, own = linked_home(tmp_path / "home"), tmp_path / "own"
    (home / "models").unlink()  # the copy is no other home's
    shutil.copytree(tiny, own, ignore=shutil.ignore_patterns("*.safetensors", "manifest.json"))
    argv = [llamafactory.python, "-c", PICKLE, tiny / "model.safetensors", own / "pytorch_model.bin"]
    subprocess.run(list(map(str, argv)), env=llamafactory.env, check=True, capture_output=True)
    spec = ("--benchmark", "wordproblems", "--base-model", str(own), "--loop-n", "1", "--step-n", "2")
    done = subprocess.run(
        [*COMMAND, "run", *spec, "--run-id", "r"],
        env={**os.environ, **SMALL, "FT_FILE_PATH": str(home)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    run = home / "runs" / "r"
    assert (run / "baseline" / "scores.json").is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    copy = Path(read_json(run / "setup.json")["model_root"])
    assert copy.parent == home / "models" / "converted"
    assert (copy / "model.safetensors").is_file()
    assert not list(copy.glob("*.bin"))
    mine, theirs = (read_json(root / "baseline" / "scores.json") for root in (run, short_run.run.root))
    assert mine["items"] == theirs["items"]


@pytest.mark.parametrize("sandbox", [(), ("--sandbox", "process")])
def test_what_cannot_be_run_safely_costs_nothing(sandbox: tuple[str, ...], tmp_path: Path) -> None:
    """No weights at all; and a sandbox that would run neither pickles nor replies nor data scripts."""
    own = tmp_path / "own"
    own.mkdir()
    for name in ("config.json", "tokenizer_config.json", *(("pytorch_model.bin",) if sandbox else ())):
        (own / name).write_text("{}")
    argv = [*COMMAND, "run", "--benchmark", "wordproblems", "--base-model", str(own), *sandbox]
    env = {**os.environ, "FT_FILE_PATH": str(tmp_path / "home")}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert ("--allow-unsandboxed" if sandbox else "pytorch_model*.bin") in done.stderr
    assert not (tmp_path / "home" / "engines").exists()
