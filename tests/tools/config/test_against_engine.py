"""What the catalog, the check and `finalize` say, held against the real engine."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.finalize import finalize_config, planned_steps, write_dataset_info

pytestmark = pytest.mark.slow

# Read before any test clears the environment: a model that is there already spares making one.
NAMED_MODEL = os.environ.get("TUNELOOP_TINY_MODEL")

FIELDS = """
import dataclasses, json, sys
from llamafactory.hparams.parser import _TRAIN_ARGS
from llamafactory.data.template import TEMPLATES
plain = lambda v: v if isinstance(v, (bool, int, float, str, list, dict, type(None))) else str(v)
found = {}
for kind in _TRAIN_ARGS:
    for f in dataclasses.fields(kind):
        made = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        found[f.name] = [f.init, f.metadata.get("help", ""), plain(getattr(made, "value", made))]
json.dump({"fields": found, "templates": sorted(TEMPLATES)}, open(sys.argv[1], "w"))
"""
PARSE = """
import json, sys
from omegaconf import OmegaConf
from llamafactory.hparams import get_train_args
wrong = {}
for name in json.load(open(sys.argv[1])):
    try:
        get_train_args(OmegaConf.to_container(OmegaConf.load(name)))
    except Exception as e:
        wrong[name] = repr(e)
json.dump(wrong, open(sys.argv[2], "w"))
"""


@pytest.fixture
def run(engine_packages: Path, tmp_path: Path) -> Any:
    """Run the engine's Python."""
    folder = engine_packages.parents[2]
    env = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env |= {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "LLAMAFACTORY_VERBOSITY": "WARN",
        "DISABLE_VERSION_CHECK": "1",
    }

    def call(*argv: str) -> str:
        done = subprocess.run(
            [str(folder / "bin/python"), *argv],
            env=env,
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return call


def test_the_catalog_is_what_the_engine_has(run: Any, catalog: Catalog, tmp_path: Path) -> None:
    run("-c", FIELDS, str(tmp_path / "fields.json"))
    found = json.loads((tmp_path / "fields.json").read_text())
    assert found["templates"] == sorted(catalog.templates)
    assert set(found["fields"]) == set(catalog.parameters)
    mine = {p.name: [p.settable, p.help, p.default] for p in catalog.parameters.values()}
    differ = {name for name, seen in found["fields"].items() if mine[name] != seen}
    assert differ == set()


def test_every_good_config_passes_the_engine_s_own_parser(run: Any, tmp_path: Path) -> None:
    files = []
    for i, text in enumerate(Path(__file__).with_name("good_configs.yaml").read_text().split("---\n")[1:]):
        for steps in (None, 4):
            file = tmp_path / f"{i}-{steps}.yaml"
            places = {"model": tmp_path, "data": tmp_path, "output": tmp_path / f"out{i}{steps}"}
            file.write_text(
                finalize_config(parse_config(text).values, **places, seed=1, device="cpu", steps_override=steps)
            )
            files.append(str(file))
    (tmp_path / "files.json").write_text(json.dumps(files))
    run("-c", PARSE, str(tmp_path / "files.json"), str(tmp_path / "wrong.json"))
    assert json.loads((tmp_path / "wrong.json").read_text()) == {}


@pytest.fixture
def tiny_model(request: pytest.FixtureRequest) -> Path:
    """A model that can be trained."""
    return Path(NAMED_MODEL) if NAMED_MODEL else request.getfixturevalue("tiny")


@pytest.mark.parametrize("steps", [None, 3])
def test_a_finalized_config_trains(run: Any, tiny_model: Path, tmp_path: Path, steps: int | None) -> None:
    text = "finetuning_type: full\ncutoff_len: 64\nlearning_rate: 1e-3\nnum_train_epochs: 2\ntemplate: chatml\n"
    text += "per_device_train_batch_size: 4\nval_size: 0.2\neval_strategy: steps\nload_best_model_at_end: true\n"
    rows = [{"instruction": f"say {i}", "input": "", "output": f"it is {i}"} for i in range(30)]
    (tmp_path / "data.json").write_text(json.dumps(rows))
    write_dataset_info(tmp_path)
    places = {"model": tiny_model, "data": tmp_path, "output": tmp_path / "out"}
    asked = parse_config(text).values
    (tmp_path / "c.yaml").write_text(finalize_config(asked, **places, seed=1, device="cpu", steps_override=steps))
    run("-m", "llamafactory.cli", "train", str(tmp_path / "c.yaml"))
    state = json.loads((tmp_path / "out/trainer_state.json").read_text())
    planned = planned_steps({"num_train_epochs": 2, "per_device_train_batch_size": 4, "val_size": 0.2}, 30)
    assert state["global_step"] == (steps or planned)
    losses = [r["loss"] for r in state["log_history"] if "loss" in r]
    assert len(losses) == state["global_step"]
    assert bool(list((tmp_path / "out").glob("checkpoint-*"))) is (steps is None)
