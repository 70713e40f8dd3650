"""What vLLM is asked for. It needs a GPU and is not installed here: a stand-in with its names takes the calls."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.engines.opencompass.test_measure import HERE, asked, folder, fork_jobs, models, weights
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import SCRIPTS, EvaluationConditions, ItemSet, evaluation_command
from tuneloop.tools.scoring.verdicts import read_rows

__all__ = ["asked", "folder", "models"]


@pytest.fixture(scope="module")
def oc_config() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oc_config", SCRIPTS / "oc_config.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_type_is_the_checkpoints_own_and_adapters_have_room(oc_config: ModuleType) -> None:
    plain = oc_config.vllm_options("/m", "/t", "torch.bfloat16", 4096, 0, 7)
    assert plain == {
        "model": "/m", "tokenizer": "/t", "dtype": "bfloat16", "max_model_len": 4096, "seed": 7,
        "load_format": "safetensors", "trust_remote_code": False,
    }  # fmt: skip
    adapted = oc_config.vllm_options("/m", "/t", "auto", 4096, 20, 7)
    assert {name: adapted[name] for name in adapted.keys() - plain.keys()} == {
        "enable_lora": True, "max_loras": 1, "max_lora_rank": 32
    }  # fmt: skip


def test_ranks_are_rounded_up_to_those_that_vllm_knows(oc_config: ModuleType) -> None:
    assert [oc_config.allowed_rank(rank) for rank in (1, 8, 9, 129, 300, 512)] == [8, 8, 16, 256, 320, 512]
    with pytest.raises(ValueError, match="rank 513: vLLM holds at most 512"):
        oc_config.allowed_rank(513)


def test_one_engine_serves_a_base_and_its_adapters(
    opencompass: Engine, models: Path, asked: ItemSet, tmp_path: Path
) -> None:
    log, given = tmp_path / "calls.jsonl", weights(models)
    hf = evaluation_command(opencompass, given, [asked], tmp_path / "hf")
    fast = evaluation_command(opencompass, given, [asked], tmp_path / "vllm", EvaluationConditions(backend="vllm"))
    env = {**hf.env, "PYTHONPATH": str(HERE / "stub"), "VLLM_STUB_LOG": str(log)}
    fork_jobs(opencompass, [hf.model_copy(update={"env": env}), fast])
    assert read_rows(tmp_path / "vllm") == read_rows(tmp_path / "hf")
    assert json.loads((tmp_path / "vllm" / "results.json").read_text())["versions"]["vllm"] == "stub"
    first, base, adapted, second, plain = [json.loads(line) for line in log.read_text().splitlines()]
    assert (first["options"]["model"], first["options"]["max_lora_rank"]) == (str(models / "chat"), 8)
    assert second["options"]["model"] == str(models / "plain")
    assert (base["prompts"], base["lora"], plain["lora"], base["use_tqdm"]) == (20, None, None, False)
    assert adapted["lora"] == {"lora_name": "adapter-1", "lora_int_id": 1, "lora_path": str(models / "lora")}
    assert all((p["temperature"], p["top_p"], p["max_tokens"]) == (0, 1, 24) for p in base["params"])
    assert len({p["seed"] for p in base["params"]}) == len(base["params"])
