from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.engines import Engine
from tuneloop.tools.matrix.configs import EVAL, GRPO, SFT, SHIPPED, read_configs


def test_shipped_configs_are_sound() -> None:
    found = read_configs(None)
    assert found.sft["learning_rate"] == 1e-3
    assert found.evaluation.decoding.temperature == 0
    assert found.evaluation.sample_limit is None
    assert found.grpo.start_from == "auto"
    assert found.grpo.checkpoint_steps == 10
    assert found.texts == {name: (SHIPPED / name).read_text() for name in (SFT, GRPO, EVAL)}


def test_keys_of_grpo_are_those_of_trl(trl: Engine) -> None:
    code = "import dataclasses, json, trl; print(json.dumps([f.name for f in dataclasses.fields(trl.GRPOConfig)]))"
    told = subprocess.run([trl.python, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert set(GrpoConfig().trl_values()) < set(json.loads(told.stdout.splitlines()[-1]))


@given(
    generation=st.integers(1, 8),
    iterations=st.integers(1, 8),
    accumulation=st.integers(1, 8),
    steps=st.integers(1, 500),
    save=st.none() | st.integers(1, 500),
)
def test_checkpoints_lie_where_all_replies_are_used_up(
    generation: int, iterations: int, accumulation: int, steps: int, save: int | None
) -> None:
    values = {
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": generation,
        "num_iterations": iterations,
        "max_steps": steps,
        "save_steps": save,
    }
    try:
        found = GrpoConfig.model_validate(values)
    except ValidationError:
        assert generation * iterations % accumulation
        return
    assert found.checkpoint_steps * accumulation % (generation * iterations) == 0


def test_a_file_of_the_user_replaces_one_shipped_file(tmp_path: Path) -> None:
    (tmp_path / EVAL).write_text("max_tokens: 64\nsample_limit: 20\n")
    found = read_configs(tmp_path)
    assert (found.evaluation.max_tokens, found.evaluation.sample_limit) == (64, 20)
    assert found.sft == read_configs(None).sft
    (tmp_path / EVAL).write_text("# nothing\n")
    assert read_configs(tmp_path).evaluation.max_tokens is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (SFT, "num_generations: 8", r"sft.yaml: num_generations: is a parameter of GRPO; it belongs into grpo.yaml"),
        (SFT, "template: chatml", "sft.yaml: template: is what the experiments decide; leave it out"),
        (SFT, "max_tokens: 9", "sft.yaml: max_tokens: is a key of eval.yaml"),
        (SFT, "learning_rate: 1\nlearning_rate: 2", "sft.yaml:2: learning_rate: stands here and on line 1"),
        (SFT, "- 1", "sft.yaml:1: is no mapping"),
        (GRPO, "num_generation: 8", "grpo.yaml: num_generation: is unknown: did you mean 'num_generations'"),
        (GRPO, "num_generations: 7", "grpo.yaml: num_generations: 7 does not divide .* = 8"),
        (GRPO, "num_generations: 1", "grpo.yaml: num_generations: .*greater than or equal to 2"),
        (GRPO, "beta: -1.0", "grpo.yaml: beta: "),
        (GRPO, "seed: 3", "grpo.yaml: seed: is what the experiments decide"),
        (GRPO, "max_tokens: 3", "grpo.yaml: max_tokens: is unknown"),
        (
            GRPO,
            "gradient_accumulation_steps: 4\nsteps_per_generation: 2",
            "no multiple of gradient_accumulation_steps 4",
        ),
        (EVAL, "max_token: 9", "eval.yaml: max_token: is unknown: did you mean 'max_tokens'"),
        (EVAL, "beta: 0.1", "eval.yaml: beta: is a parameter of GRPO"),
        (EVAL, "temperature: hot", "eval.yaml: temperature: .* valid number .given: 'hot'"),
        (EVAL, "sample_limit: 0", "eval.yaml: sample_limit: .*greater than or equal to 1"),
    ],
)
def test_wrong_keys_are_explained(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidRequestError, match=said):
        read_configs(tmp_path)


def test_a_folder_without_configs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"none of sft\.yaml, grpo\.yaml, eval\.yaml is there"):
        read_configs(tmp_path / "absent")
