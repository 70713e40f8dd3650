"""The corpora held against the real engine: parser, template, data and model, in one process, without training."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.tools.config import world

pytestmark = pytest.mark.slow

NAMED_MODEL = os.environ.get("TUNELOOP_TEST_HOME")
# Adapters and tokenized data of the test have no contents, these models no tokenizer and no weights.
HOLLOW = ("adapter", "tokens", "own_code", "short")
VERDICTS = """
import copy, json, sys
from omegaconf import OmegaConf
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.data.template import TEMPLATES
from llamafactory.hparams import get_train_args
from llamafactory.model import load_model, load_tokenizer
found, fresh = [], copy.deepcopy(TEMPLATES)
for name, overrides in json.load(open(sys.argv[1])):
    TEMPLATES.update(copy.deepcopy(fresh))  # a config writes its default_system into the engine's own template
    step = "parser"
    try:
        merged = OmegaConf.merge(OmegaConf.load(name), OmegaConf.from_cli(overrides))
        model, data, training, tuning, _ = get_train_args(OmegaConf.to_container(merged))
        step = "template"
        tools = load_tokenizer(model)
        template = get_template_and_fix_tokenizer(tools["tokenizer"], data)
        step = "data"
        get_dataset(template, model, data, training, stage="rm" if tuning.stage == "dpo" else tuning.stage, **tools)
        step = "model"
        load_model(tools["tokenizer"], model, tuning, training.do_train, add_valuehead=tuning.stage == "rm")
        found.append(None)
    except Exception as e:
        found.append([step, repr(e)[:300]])
json.dump(found, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def tiny_model(request: pytest.FixtureRequest) -> Path:
    """A model that can be loaded."""
    made = Path(NAMED_MODEL) / "models/tiny" if NAMED_MODEL else None
    return made if made and made.is_dir() else request.getfixturevalue("tiny")


@pytest.fixture(scope="module")
def verdicts(
    engine_packages: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Any, Any]]:
    """Every case that a CPU can decide, and the step and error with which the engine refused it, or None."""
    root = world.build(tmp_path_factory.mktemp("engine"))
    shutil.rmtree(root / "model")
    shutil.copytree(tiny_model, root / "model")
    cases = [*world.cases("bad_configs.yaml"), *world.cases("good_engine_configs.yaml")]
    cases = [c for c in cases if c.profile == "engine" and c.device == "cpu" and not any(h in c.line for h in HOLLOW)]
    files = []
    for i, case in enumerate(cases):
        (root / f"{i}.yaml").write_text(case.text)
        files.append((f"{i}.yaml", case.overrides))
    (root / "cases.json").write_text(json.dumps(files))
    folder = engine_packages.parents[2]
    env = {"HOME": str(root), "HF_HOME": str(root / "hf"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env |= {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "LLAMAFACTORY_VERBOSITY": "ERROR",
        "DISABLE_VERSION_CHECK": "1",
    }
    argv = [str(folder / "bin/python"), "-c", VERDICTS, "cases.json", "verdicts.json"]
    done = subprocess.run(argv, env=env, cwd=root, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return list(zip(cases, json.loads((root / "verdicts.json").read_text()), strict=True))


def test_the_engine_takes_every_good_config(verdicts: list[tuple[Any, Any]]) -> None:
    good = {str(c) for c in world.cases("good_engine_configs.yaml")}
    assert {str(case): said for case, said in verdicts if str(case) in good and said} == {}


def test_the_engine_refuses_most_bad_configs_before_training(verdicts: list[tuple[Any, Any]]) -> None:
    bad = {str(c) for c in world.cases("bad_configs.yaml")}
    steps = Counter(said[0] for case, said in verdicts if str(case) in bad and said)
    assert steps["parser"] >= 150
    assert steps["data"] >= 70
    assert steps["model"] >= 20
