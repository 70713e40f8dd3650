"""Weights as `*.bin` on the real engine: the same tensors come out, and a pickle with code in it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME
from tests.stand_in_engine import write_adapter
from tests.tools.weights.test_conversion import COMPARE, engine_runs, hostile, model
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.standalone.run_tools import ignore_progress
from tuneloop.tools.evaluation.standalone.subjects import find_adapter, find_subject
from tuneloop.tools.weights.conversion import conversion_folder
from tuneloop.tools.weights.pickled import PICKLED, WEIGHTS, resolve_adapter

PICKLE = "import sys, torch; from safetensors.torch import load_file; torch.save(load_file(sys.argv[1]), sys.argv[2])"
SAME = COMPARE.replace("first = min(old)\n", "").replace(
    'old |= {"head": old[first], "part": old[first].t()[1:]}\n', ""
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home of its own, with the engines that are built."""
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "engines").symlink_to(SHARED_HOME.resolve() / "engines")
    return Settings(FT_FILE_PATH=tmp_path / "home")


def test_the_copy_has_the_same_tensors(llamafactory: Engine, settings: Settings, tmp_path: Path) -> None:
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


def test_a_pickle_with_code_in_it_is_refused_in_one_line(
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
    engine_runs(llamafactory, PICKLE, tiny / "model.safetensors", given.root / "pytorch_model.bin")
    subject = find_subject(str(given.root), settings, ignore_progress)
    assert subject.weights is not None and subject.weights.path == conversion_folder(settings, given)
    engine_runs(llamafactory, SAME, tiny / "model.safetensors", subject.weights.path / "model.safetensors")
    assert find_subject(str(given.root), settings, ignore_progress) == subject
    (given.root / "pytorch_model.bin").write_bytes(hostile(tmp_path / "canary"))
    with pytest.raises(InvalidRequestError, match=r"base model .*can hold code.*right is weights as") as e:
        find_subject(str(given.root), settings, ignore_progress)
    assert "\n" not in str(e.value) and not (tmp_path / "canary").exists()


def test_an_adapter_with_safetensors_is_taken_as_it_is(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "tuned", "/nowhere")
    (adapter / PICKLED).write_bytes(b"never read")
    assert resolve_adapter(adapter, Settings(FT_FILE_PATH=tmp_path / "home"), ignore_progress) == adapter
