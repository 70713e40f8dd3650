"""What a resume refuses: one line, the right exit code, nothing touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.prepared import prepared
from tests.small_disk import NO_BYTECODE
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import write_json, write_lines
from tuneloop.core.layout import RunFolder
from tuneloop.core.os_errors import naming_os_errors
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.graph.lifecycle.integrity import check_unchanged
from tuneloop.tools.benchmark_items.folder import TEST, UNSEEN, VALIDATION, open_folder
from tuneloop.tools.engines.engine import Engine
from tuneloop.tools.engines.engine import write_manifest as certify
from tuneloop.tools.hub.store import fingerprint, write_manifest

COMMAND = (sys.executable, "-m", "tuneloop.cli.main")
BENCHMARK = Benchmark(name="bench", description="d")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A prepared run on a model, a data set, a benchmark and two engines as they lie in a home."""
    home = tmp_path / "home"
    run = RunFolder(home / "runs" / "r1")
    spec = RunSpec(benchmark="bench", base_model="m")
    model, data, run_tools = home / "models" / "m", tmp_path / "mine", home / "benchmarks" / "bench"
    for folder in (model, data, run_tools):
        folder.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"weights")
    write_manifest(model)
    (data / "rows.jsonl").write_text('{"q": 1}\n')
    for split in (VALIDATION, UNSEEN, TEST):
        write_lines(run_tools / split, [{"id": "1", "prompt": "p", "answer": "a"}])
    write_manifest(run_tools)
    for name in ("llamafactory", "opencompass"):
        folder = home / "engines" / f"{name}-abc"
        folder.mkdir(parents=True)
        python = Path(sys.executable)
        certify(Engine(name, folder, python, python.parent, (), "1.0", f"{name}-id"), folder / "manifest.json")
    opened = open_folder(BENCHMARK, run_tools)
    prepared(
        run,
        spec,
        opened,
        model,
        model_fingerprint=fingerprint(model),
        datasets={"mine": data},
        dataset_fingerprints={"mine": fingerprint(data)},
        versions={name: f"1.0 ({name}-id)" for name in ("llamafactory", "opencompass")},
    )
    return run


def settings(run: RunFolder) -> Settings:
    return Settings(FT_FILE_PATH=run.root.parent.parent)


def photo(run: RunFolder) -> dict[str, tuple[int, int]]:
    """Every file of the home with size and time."""
    home = run.root.parent.parent
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in home.rglob("*")}


def refused(run: RunFolder, *given: str) -> str:
    """The one line that `tuneloop resume` says; it touches nothing and exits with 2."""
    before = photo(run)
    env = {**os.environ, "FT_FILE_PATH": str(run.root.parent.parent)}
    p = subprocess.run([*COMMAND, "resume", *given], env=env, cwd=run.root, capture_output=True, text=True)
    assert p.returncode == 2, p.stdout + p.stderr
    assert p.stdout == ""
    lines = p.stderr.splitlines()
    assert len(lines) == 1, lines
    assert photo(run) == before
    return lines[0]


def test_unchanged_run_passes_integrity_check_cheaply(run: RunFolder) -> None:
    check_unchanged(run, settings(run))
    assert len(json.loads(run.stamps.read_text())) == 3
    weights = settings(run).home.models / "m" / "model.safetensors"
    stat = weights.stat()
    weights.write_bytes(b"WEIGHTS")  # same size and time: only hashing would see it, and nobody hashes again
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    check_unchanged(run, settings(run))
    weights.write_bytes(b"weights")
    check_unchanged(run, settings(run))  # another time, the same contents


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def home(run: RunFolder) -> Path:
    return run.root.parents[1]


def mine(run: RunFolder) -> Path:
    return run.root.parents[2] / "mine"


def of_the_future(run: RunFolder) -> None:
    given = yaml.safe_load(run.spec.read_text())
    run.spec.write_text(yaml.safe_dump({**given, "format": 99, "version": "7.0"}))


def without_the_unseen_half(run: RunFolder) -> None:
    run_tools = home(run) / "benchmarks" / "bench"
    (run_tools / UNSEEN).unlink()
    write_manifest(run_tools)


def without_the_setup(run: RunFolder) -> None:
    """Of a run whose base model was measured."""
    (run.baseline / "scores.json").parent.mkdir(exist_ok=True)
    (run.baseline / "scores.json").write_text("{}")
    run.setup.unlink()


def without_the_setup_unevaluated(run: RunFolder) -> None:
    """Of a run whose base model is not measured."""
    write_json(run.baseline / "hashes.json", {})
    run.setup.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: add(mine(r) / "rows.jsonl", "{}\n"), r"data set mine .*/mine\) has changed since run r1 began"),
        (lambda r: (mine(r) / "more.csv").write_text("a"), r"data set mine .* has changed"),
        (lambda r: shutil.rmtree(mine(r)), r"data set mine .* is gone"),
        (lambda r: add(home(r) / "models/m/model.safetensors", "x"), r"model m .* has changed"),
        (lambda r: add(home(r) / "benchmarks/bench/validation.jsonl", "{}"), r"benchmark bench .* has changed"),
        (lambda r: add(home(r) / "benchmarks/bench" / UNSEEN, "{}"), r"benchmark bench .* has changed"),
        (without_the_unseen_half, r"benchmarks/bench: an older version made it, .*; remove it, and it is made again"),
        (lambda r: shutil.rmtree(home(r) / "benchmarks/bench"), r"benchmark bench .* is gone"),
        (lambda r: shutil.rmtree(home(r) / "engines/llamafactory-abc"), r"is gone: `tuneloop engines build llamafac"),
        (lambda r: r.setup.write_text("{"), r"setup\.json: not what `prepare` wrote"),
        (without_the_setup, r"setup\.json is gone, and run r1 stands on it: put it back, or .* --repeat r1"),
        (without_the_setup_unevaluated, r"setup\.json is gone, and run r1 stands on it"),
        (of_the_future, r"newer tuneloop \(7\.0\)"),
        (lambda r: r.spec.write_text("- nonsense"), r"run\.yaml is damaged"),
    ],
    ids=[
        "rows",
        "file",
        "data",
        "weights",
        "items",
        "unseen",
        "older",
        "benchmark",
        "engine",
        "setup",
        "no setup",
        "no setup, unevaluated",
        "newer",
        "manifest",
    ],
)
def test_what_has_changed_under_a_run(run: RunFolder, spoil: Callable[[RunFolder], object], said: str) -> None:
    spoil(run)
    assert re.search(said, refused(run, "r1"))


def test_an_engine_of_the_same_kind_is_not_the_engine(run: RunFolder) -> None:
    home = settings(run).home
    python = Path(sys.executable)
    shutil.rmtree(home.engines / "llamafactory-abc")
    (home.engines / "llamafactory-def").mkdir()
    other = Engine("llamafactory", home.engines / "llamafactory-def", python, python.parent, (), "2.0", "another-id")
    certify(other, home.engines / "llamafactory-def" / "manifest.json")
    assert "llamafactory-id" in refused(run, "r1")


def test_a_run_that_does_not_exist(run: RunFolder) -> None:
    assert "no run 'r2'" in refused(run, "r2")


def test_a_finished_run_is_said_to_be_finished(run: RunFolder) -> None:
    write_json(run.report_json, {})
    before = photo(run)
    env = {**os.environ, "FT_FILE_PATH": str(run.root.parent.parent)}
    p = subprocess.run([*COMMAND, "resume", "r1"], env=env, cwd=run.root, capture_output=True, text=True)
    assert (p.returncode, p.stdout) == (0, "")
    assert p.stderr.splitlines() == [f"run r1 is finished: {run.report}"]
    assert photo(run) == before


HOLDER = "import sys,time;from pathlib import Path;from tuneloop.graph.lifecycle.lock import hold_lock as hold\n"
HOLDER += "with hold(Path(sys.argv[1])):\n  print('held',flush=True)\n  time.sleep(120)"


def test_a_run_at_work_elsewhere(run: RunFolder) -> None:
    check_unchanged(run, settings(run))
    p = subprocess.Popen([sys.executable, "-c", HOLDER, str(run.lock)], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout is not None
        assert p.stdout.readline() == "held\n"
        assert f"pid {p.pid} on {socket.gethostname()}" in refused(run, "r1")
    finally:
        os.kill(p.pid, signal.SIGKILL)
        p.wait()


def test_a_folder_that_cannot_be_written(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK | os.X_OK and real(path, mode))
    before = photo(run)
    with pytest.raises(InvalidRequestError, match="cannot write there"):
        drive(run, settings(run))
    assert photo(run) == before


@pytest.mark.parametrize("code", ["ENOSPC", "EROFS", "EDQUOT", "EFBIG"])
def test_a_broken_disk_is_one_line(code: str, tmp_path: Path) -> None:
    import errno

    number = getattr(errno, code)
    with pytest.raises(InfrastructureError, match=rf"{tmp_path}/x: .*; ") as told, naming_os_errors(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "x"))
    assert "\n" not in str(told.value)
    with pytest.raises(FileNotFoundError), naming_os_errors(tmp_path):
        (tmp_path / "nothing").read_text()


def test_a_full_disk_pauses_without_a_traceback(run: RunFolder) -> None:
    """A limit on file sizes stands for a full disk: every write of the orchestrator beyond it fails."""
    env = {**os.environ, **NO_BYTECODE, "FT_FILE_PATH": str(run.root.parent.parent)}
    check_unchanged(run, settings(run))
    limited = ["bash", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "bash", *COMMAND, "resume", "r1"]
    p = subprocess.run(limited, env=env, cwd=run.root, capture_output=True, text=True)
    assert p.returncode == 1, p.stdout + p.stderr
    assert "Traceback" not in p.stderr
    assert len(p.stderr.splitlines()) == 2
    assert p.stderr.splitlines()[1] == "to go on: tuneloop resume r1"
