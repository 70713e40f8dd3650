"""What counts as a whole checkpoint, asked of the engine's own module in the engine's own Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.tools.jobs.machine import ENGINES

MODULE = ENGINES / "llamafactory" / "lf_checkpoints.py"
FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "config.json")
CODE = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from lf_checkpoints import *
out = Path(sys.argv[2])
for n in map(int, sys.argv[3].split(",")):
    prove_checkpoint(out / f"checkpoint-{n}")
"""
ASK = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from lf_checkpoints import *
found = newest_whole(Path(sys.argv[2]))
print("newest", found and found.name)
"""


@pytest.fixture
def python(llamafactory) -> Callable[..., str]:
    def run(code: str, *argv: object) -> str:
        command = [str(llamafactory.python), "-c", code, str(MODULE.parent), *map(str, argv)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return run


@pytest.fixture
def out(tmp_path: Path, python: Callable[..., str]) -> Path:
    """An output with whole checkpoints of steps 10 and 20."""
    for n in (10, 20):
        for name in FILES:
            place = tmp_path / f"checkpoint-{n}" / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(f"{n} {name} ".encode() * 1000)
    python(CODE, tmp_path, "10,20")
    return tmp_path


def zero(path: Path) -> None:
    """What a power cut may leave of pages that were never written."""
    path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "optimizer.pt is gone": lambda c: (c / "optimizer.pt").unlink(),
    "rng_state.pth is gone": lambda c: (c / "rng_state.pth").unlink(),
    "trainer_state.json is gone": lambda c: (c / "trainer_state.json").unlink(),
    "weights are truncated": lambda c: os.truncate(c / "model.safetensors", 100),
    "optimizer is truncated": lambda c: os.truncate(c / "optimizer.pt", 0),
    "pages of zeros": lambda c: zero(c / "optimizer.pt"),
    "the engine was still saving": lambda c: (c / "checkpoint-is-incomplete.txt").touch(),
    "no proof": lambda c: (c / "proof.json").unlink(),
    "torn proof": lambda c: os.truncate(c / "proof.json", 30),
    "proof of zeros": lambda c: (c / "proof.json").write_bytes(bytes(500)),
    "a file too few": lambda c: (c / "config.json").unlink(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_checkpoint_falls_back_to_the_previous_one(how: str, out: Path, python) -> None:
    DAMAGE[how](out / "checkpoint-20")
    said = python(ASK, out)
    assert "checkpoint-20 is put aside" in said and said.endswith("newest checkpoint-10\n")
    assert {p.name for p in out.iterdir()} == {"checkpoint-10", "broken-checkpoint-20"}
    # Found once more, nothing changes; an empty folder with the same name gives way to the next damage.
    (out / "checkpoint-20").mkdir()
    assert python(ASK, out).endswith("newest checkpoint-10\n")


def test_whole_ones_stay(out: Path, python) -> None:
    assert python(ASK, out) == "newest checkpoint-20\n"


def offer(llamafactory, out: Path, last: int) -> int:
    return subprocess.run([str(llamafactory.python), str(MODULE), "offer", str(out), str(last)]).returncode


def test_marked_checkpoint_is_newest_up_to_step(llamafactory, out: Path) -> None:
    (out / "model.safetensors").write_bytes(b"stale")
    assert offer(llamafactory, out, 19) == 0
    assert (out / "model.safetensors").read_bytes().startswith(b"10 model")
    assert {p.name for p in out.iterdir() if p.is_file()} == {
        "model.safetensors",
        "config.json",
        "trainer_state.json",
        "finished.json",
    }
    assert offer(llamafactory, out, 20) == 0
    assert (out / "model.safetensors").read_bytes().startswith(b"20 model")
    assert (out / "checkpoint-20" / "model.safetensors").is_file()


def test_no_checkpoint_before_the_first_or_of_a_broken_one(llamafactory, out: Path) -> None:
    assert offer(llamafactory, out, 9) == 3
    zero(out / "checkpoint-10" / "model.safetensors")
    assert offer(llamafactory, out, 19) == 3
    assert not (out / "model.safetensors").exists()
