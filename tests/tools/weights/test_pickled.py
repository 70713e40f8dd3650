"""Weights as `*.bin` on the real engine: the same tensors come out, and a pickle with code in it changes nothing outside."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME
from tests.stand_in_engine import write_adapter
from tuneloop.core.errors import InvalidRequestError, PausedError
from tuneloop.core.files import write_json
from tuneloop.core.job import Exit, Sandbox
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.jobs import read_command, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.standalone.run_tools import ignore_progress
from tuneloop.tools.evaluation.standalone.subjects import find_adapter, find_subject
from tuneloop.tools.hub.models import resolve_model
from tuneloop.tools.weights import conversion, pickled
from tuneloop.tools.weights.pickled import PICKLED, WEIGHTS, resolve_adapter, resolve_pickled

SHARDS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")
# Two shards of the tiny model: one as PyTorch writes them today, one as it did before 1.6; with a tensor that is another's
# memory and one that is a part of its own.
SHARDED = """\
import sys, torch
from safetensors.torch import load_file
source, one, two = sys.argv[1:]
tensors = load_file(source)
names = sorted(tensors)
half = {name: tensors[name] for name in names[::2]}
half["head"] = half[names[0]]
half["part"] = tensors[names[0]].t()[1:]
torch.save(half, one)
torch.save({name: tensors[name] for name in names[1::2]}, two, _use_new_zipfile_serialization=False)
"""
COMPARE = """\
import sys, torch
from safetensors.torch import load_file
old, *new = map(load_file, sys.argv[1:])
new = {name: tensor for part in new for name, tensor in part.items()}
first = min(old)
old |= {"head": old[first], "part": old[first].t()[1:]}
assert old.keys() == new.keys() and all(old[n].equal(new[n]) and old[n].dtype == new[n].dtype for n in old)
"""


PICKLE = "import sys, torch; from safetensors.torch import load_file; torch.save(load_file(sys.argv[1]), sys.argv[2])"
SAME = COMPARE.replace("first = min(old)\n", "").replace(
    'old |= {"head": old[first], "part": old[first].t()[1:]}\n', ""
)


def engine_runs(engine: Engine, code: str, *arguments: Path) -> None:
    argv = [str(engine.python), "-c", code, *map(str, arguments)]
    done = subprocess.run(argv, env=engine.env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home of its own, with the engines that are built."""
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "engines").symlink_to(SHARED_HOME.resolve() / "engines")
    return Settings(FT_FILE_PATH=tmp_path / "home")


def model(folder: Path, tiny: Path, **files: bytes) -> Path:
    """The tiny model's folder without its weights."""
    folder.mkdir()
    for file in tiny.iterdir():
        if file.suffix != ".safetensors" and file.name != "manifest.json":
            shutil.copyfile(file, folder / file.name)
    for name, content in files.items():
        (folder / f"{name}.bin").write_bytes(content)
    return folder


def hostile(canary: Path) -> bytes:
    """A pickle that writes a file when it is read."""
    return f"cos\nsystem\n(S'echo taken > {canary}'\ntR.".encode()


def test_the_copy_of_a_model_has_the_same_tensors(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, weights = model(tmp_path / "own", tiny), tiny / "model.safetensors"
    engine_runs(llamafactory, SHARDED, weights, *(given / name for name in SHARDS))
    (given / "model.py").write_text("raise SystemExit")
    commands = []

    def watched(sandbox: Sandbox, job: Path, tick: Callable[[], None]) -> Exit:
        commands.append(read_command(job))
        return wait(sandbox, job, tick)

    monkeypatch.setattr(conversion, "wait", watched)
    copy = resolve_model(str(given), settings, ignore_progress).root
    parts = sorted(copy.glob("*.safetensors"))
    assert [p.name for p in parts] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    engine_runs(llamafactory, COMPARE, weights, *parts)
    known = {p.name for p in tiny.iterdir()} - {"model.safetensors", "README.md"}
    assert {p.name for p in copy.iterdir()} == {*known, *(p.name for p in parts), "model.safetensors.index.json"}
    assert read_model_card(copy).tensors.keys() == read_model_card(tiny).tensors.keys() | {"head", "part"}
    (command,) = commands
    assert (command.generated, command.network, command.worker) == (True, False, "")
    assert len(command.write) == 1 and command.write[0].endswith(".part/out")
    assert resolve_model(str(given), settings, ignore_progress).root == copy and len(commands) == 1, "it is made once"
    assert resolve_model(str(given), settings, ignore_progress, unpickle=False).root == given
    write_json(given / "pytorch_model.bin.index.json", {"weight_map": {"head": SHARDS[0]}})
    with pytest.raises(InvalidRequestError, match=r"index\.json names others"):
        resolve_pickled(given, settings, ignore_progress)
    assert [p for p in copy.parent.iterdir() if p.suffix != ".lock"] == [copy], "nothing half-made is left"


def test_without_the_guard_of_torch_the_sandbox_holds_it(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    given = model(tmp_path / "own", tiny, pytorch_model=hostile(canary))
    script = tmp_path / "to_safetensors.py"
    text = pickled.SCRIPT.read_text()
    script.write_text(text.replace("weights_only=True", "weights_only=False"))
    assert script.read_text() != text
    monkeypatch.setattr(pickled, "SCRIPT", script)
    argv = [str(llamafactory.python), str(script), str(given), str(tmp_path)]
    subprocess.run(argv, env=llamafactory.env, capture_output=True, check=False, timeout=300)
    assert canary.exists(), "where nothing holds it, its code runs"
    canary.unlink()
    with pytest.raises(InvalidRequestError):
        resolve_pickled(given, settings, ignore_progress)
    assert not canary.exists()


def test_what_is_no_file_of_weights_is_refused(
    settings: Settings, llamafactory: Engine, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = model(tmp_path / "own", tiny, pytorch_model=b"no pickle")
    with pytest.raises(InvalidRequestError, match="holds something else than weights"):
        resolve_pickled(given, settings, ignore_progress)
    script = tmp_path / "link.py"
    link = f'Path(sys.argv[2], "model.safetensors").symlink_to({str(tiny / "model.safetensors")!r})'
    script.write_text(f"import sys; from pathlib import Path; {link}")
    monkeypatch.setattr(pickled, "SCRIPT", script)
    with pytest.raises(InvalidRequestError, match=r"model\.safetensors is no plain file"):
        resolve_pickled(given, settings, ignore_progress)


def test_an_interrupted_conversion_is_ended_and_goes_on(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path
) -> None:
    given = model(tmp_path / "own", tiny)
    engine_runs(llamafactory, PICKLE, tiny / "model.safetensors", given / "pytorch_model.bin")

    def pause(*_: object) -> None:
        raise PausedError("paused")

    with pytest.raises(PausedError):
        resolve_pickled(given, settings, pause)
    (part,) = (settings.home.models / "converted").glob(".*.part")
    assert (part / "jobs" / "convert.1" / "exit.json").is_file(), "its job does not go on"
    assert (resolve_pickled(given, settings, ignore_progress) / "model.safetensors").is_file()
    assert not part.exists()


def test_another_architecture_costs_no_conversion(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path
) -> None:
    given = model(tmp_path / "own", tiny, pytorch_model=hostile(tmp_path / "canary"))
    config = json.loads((given / "config.json").read_text())
    (given / "config.json").write_text(json.dumps({**config, "model_type": "unheard_of"}))
    with pytest.raises(InvalidRequestError, match="unheard_of"):
        resolve_pickled(given, settings, ignore_progress)


def test_in_a_plain_process_it_is_refused(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = model(tmp_path / "own", tiny, pytorch_model=hostile(tmp_path / "canary"))
    monkeypatch.setattr(conversion, "open_run_sandbox", lambda *_: ProcessSandbox())
    with pytest.raises(InvalidRequestError, match="--allow-unsandboxed"):
        resolve_pickled(given, settings, ignore_progress)
    assert not (tmp_path / "canary").exists()


def test_the_copy_of_an_adapter_has_the_same_tensors(llamafactory: Engine, settings: Settings, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "tuned", "/nowhere")
    weights, pickled = tmp_path / "kept.safetensors", adapter / PICKLED
    (adapter / WEIGHTS).rename(weights)
    engine_runs(llamafactory, PICKLE, weights, pickled)
    (adapter / "model.py").write_text("raise SystemExit")
    copy = resolve_adapter(adapter, settings, ignore_progress)
    engine_runs(llamafactory, SAME, weights, copy / WEIGHTS)
    assert {p.name for p in copy.iterdir()} == {"adapter_config.json", WEIGHTS, "manifest.json"}
    made = (copy / WEIGHTS).stat().st_mtime_ns
    assert resolve_adapter(adapter, settings, ignore_progress) == copy
    assert (copy / WEIGHTS).stat().st_mtime_ns == made, "it is made once"
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 64}))
    assert resolve_adapter(adapter, settings, ignore_progress) != copy, "another configuration is another adapter"


def test_an_adapter_with_code_in_it_is_refused_in_one_line(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "tuned", str(tiny))
    (adapter / WEIGHTS).unlink()
    (adapter / PICKLED).write_bytes(hostile(tmp_path / "canary"))
    with pytest.raises(InvalidRequestError, match=r"can hold code.*right is weights as") as e:
        find_adapter(adapter, str(tiny), settings, ignore_progress)
    assert "\n" not in str(e.value)
    assert not (tmp_path / "canary").exists()
    assert not list(settings.home.models.glob("converted/tuned-*"))


def test_a_model_is_measured_by_the_copy_that_runs_take(
    llamafactory: Engine, settings: Settings, tiny: Path, tmp_path: Path
) -> None:
    given = model(tmp_path / "own", tiny)
    engine_runs(llamafactory, PICKLE, tiny / "model.safetensors", given / "pytorch_model.bin")
    subject = find_subject(str(given), settings, ignore_progress)
    assert (
        subject.weights is not None
        and subject.weights.path == resolve_model(str(given), settings, ignore_progress).root
    )
    engine_runs(llamafactory, SAME, tiny / "model.safetensors", subject.weights.path / "model.safetensors")
    assert find_subject(str(given), settings, ignore_progress) == subject
    (given / "pytorch_model.bin").write_bytes(hostile(tmp_path / "canary"))
    with pytest.raises(InvalidRequestError, match=r"base model .*can hold code.*right is weights as") as e:
        find_subject(str(given), settings, ignore_progress)
    assert "\n" not in str(e.value) and not (tmp_path / "canary").exists()


def test_an_adapter_with_safetensors_is_taken_as_it_is(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "tuned", "/nowhere")
    (adapter / PICKLED).write_bytes(b"never read")
    assert resolve_adapter(adapter, Settings(FT_FILE_PATH=tmp_path / "home"), ignore_progress) == adapter
