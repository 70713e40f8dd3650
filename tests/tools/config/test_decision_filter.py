"""The eight-dimension filter over all combinations: small enough, and nothing missing that source or examples need."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.aliases import ALIASES
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.decision_filter import filter_parameters, guidance, unclassified, why_not
from tuneloop.tools.config.decisions import (
    DIMENSIONS,
    check_decisions,
    complete_decisions,
    decision_conflicts,
    decision_lines,
)
from tuneloop.tools.config.relevance import DETAILS, GROUPS

EXAMPLES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "examples.yaml").read_text(encoding="utf-8"))
COMBINATIONS = [
    dict(zip((d.name for d in DIMENSIONS), values, strict=True))
    for values in itertools.product(*(d.names for d in DIMENSIONS))
]
OWNERS = {
    ("method", "lora"): "LoraArguments",
    ("method", "freeze"): "FreezeArguments",
    ("method", "oft"): "OFTArguments",
    ("optimizer", "apollo"): "ApolloArguments",
    ("optimizer", "badam"): "BAdamArgument",
    ("optimizer", "galore"): "GaloreArguments",
    ("modality", "multimodal"): "ProcessorArguments",
}
SEED = """
    model_name_or_path dataset dataset_dir stage finetuning_type output_dir do_train learning_rate num_train_epochs
    per_device_train_batch_size gradient_accumulation_steps warmup_steps lr_scheduler_type optim max_grad_norm
"""
SEED_CORE = tuple(SEED.split())


def names(catalog: Catalog, decisions: dict[str, str]) -> set[str]:
    return {kept.parameter.name for kept in filter_parameters(catalog, decisions)}


def read_by_stage(catalog: Catalog, stage: str) -> set[str]:
    """Fields of the preference and reward classes that a stage's own code reads."""
    owned = {p.name for p in catalog.parameters.values() if p.owner == "RLHFArguments"}
    trees = [ast.parse(path.read_text()) for path in (catalog.factory / "train" / stage).glob("*.py")]
    return owned & {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("_args")
    }


def demanded(catalog: Catalog) -> dict[tuple[str, str], set[str]]:
    """What the parser refuses to miss under a decision: attributes tested for being absent beside what decides."""
    decides = {"streaming": ("data_strategy", "streaming")}
    found: dict[tuple[str, str], set[str]] = {}
    for path in (catalog.factory / "hparams").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.If) and any(isinstance(sub, ast.Raise) for sub in node.body):
                test, absent = ast.unparse(node.test), absent_in(node.test)
                under = [pair for word, pair in decides.items() if f".{word}" in test]
                under += [("stage", s) for s in ("sft", "rm", "ppo", "dpo", "kto") if f"stage == '{s}'" in test]
                for pair in under[:1]:
                    found.setdefault(pair, set()).update(absent & set(catalog.parameters))
    return found


def absent_in(test: ast.expr) -> set[str]:
    """Attributes that a condition finds missing: `x is None`, `x == -1`."""
    found = set()
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=ast.Attribute(attr=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                found.add(name)
            case ast.Compare(left=ast.Attribute(attr=name), ops=[ast.Eq()], comparators=[ast.UnaryOp()]):
                found.add(name)
    return found


def test_every_combination_is_small_and_whole(catalog: Catalog) -> None:
    by_owner = {o: {p.name for p in catalog.parameters.values() if p.owner == o} for o in OWNERS.values()}
    by_stage = {stage: read_by_stage(catalog, stage) for stage in DIMENSIONS[0].names}
    required = demanded(catalog)
    assert required["data_strategy", "streaming"] >= {"max_steps"}
    assert required["stage", "ppo"] >= {"reward_model"}
    assert {"pref_beta", "simpo_gamma"} <= by_stage["dpo"]
    always = {*SEED_CORE, *(key for key in EXAMPLES["base"].split() if key in catalog.parameters)}
    for decisions in COMBINATIONS:
        kept = names(catalog, decisions)
        assert 30 <= len(kept) <= 70, decisions
        wanted = set(always) | by_stage[decisions["stage"]]
        for pair in decisions.items():
            wanted |= by_owner.get(OWNERS.get(pair, ""), set()) | required.get(pair, set())
        missing = wanted - kept
        assert not missing or (len(kept) == 70 and missing <= set(DETAILS)), (decisions, missing)


@pytest.mark.parametrize("path", EXAMPLES["files"])
def test_the_keys_of_a_public_example_are_kept(path: str, catalog: Catalog) -> None:
    example = EXAMPLES["files"][path]
    assert set(example["keys"].split()) <= names(catalog, example["given"])


def test_every_parameter_has_a_group_and_every_name_is_used_once(catalog: Catalog) -> None:
    assert unclassified(catalog) == []
    assert all(d in {dim.name for dim in DIMENSIONS} for group in GROUPS for d in group.when)
    for group in GROUPS:
        for name, values in group.when.items():
            assert set(values) <= set(next(d for d in DIMENSIONS if d.name == name).names)


def test_details_go_only_where_large_groups_meet(catalog: Catalog) -> None:
    assert catalog.parameters.keys() >= set(DETAILS)
    assert {"loraplus_lr_embedding", "pissa_iter"} <= names(catalog, {"method": "lora", "stage": "dpo"})
    assert {"ppo_score_norm", "temperature"} <= names(catalog, {"stage": "ppo", "method": "lora"})
    crowded = {"stage": "ppo", "method": "lora", "optimizer": "apollo", "modality": "multimodal", "distributed": "fsdp"}
    kept = names(catalog, crowded)
    assert {"reward_model", "lora_rank", "apollo_rank", "image_max_pixels", "fsdp_config"} <= kept
    assert "weight_decay" not in kept and "pissa_iter" not in kept


def test_says_why(catalog: Catalog) -> None:
    why = {k.parameter.name: k.why for k in filter_parameters(catalog, {"method": "lora", "quantization": "4bit"})}
    assert why["lora_rank"] == "method lora"
    assert why["quantization_bit"] == "quantized base model"
    assert "apollo" in why_not(catalog, "apollo_rank", {})
    assert why_not(catalog, "hub_token", {}) == "speaks to a hub or holds a token"


def test_what_is_unknown_is_named(catalog: Catalog) -> None:
    with pytest.raises(ToolError, match="did you mean quantization"):
        filter_parameters(catalog, {"quantisation": "4bit"})
    with pytest.raises(ToolError, match="none, 4bit, 8bit"):
        filter_parameters(catalog, {"quantization": "5bit"})
    assert complete_decisions({"Method": "OFT"})["method"] == "oft"


def test_other_names_are_read(catalog: Catalog) -> None:
    assert check_decisions({"Finetuning type": "QLoRA", "stage": "orpo"}) == {
        "method": "lora",
        "quantization": "4bit",
        "stage": "dpo",
    }
    assert check_decisions({"method": "qlora", "quantization": "8-bit"})["quantization"] == "8bit"  # said outright
    assert decision_lines({"method": "dora", "distributed": "ZeRO 2"})["use_dora"] is True
    assert names(catalog, {"method": "qlora"}) == names(catalog, {"method": "lora", "quantization": "4bit"})
    assert "shift_attn" in names(catalog, {"method": "longlora"})


@pytest.mark.parametrize("name", [name for name, alias in ALIASES.items() if alias.is_method])
def test_every_method_is_read_and_passes_the_check(name: str, catalog: Catalog) -> None:
    """Beside packages that this engine lacks."""
    method = ALIASES[name]
    written = {**decision_lines(method.decisions), **method.writes}
    assert set(written) <= set(catalog.parameters)
    assert method.parameter in catalog.parameters
    found = check_config(yaml.safe_dump(written), catalog, None, "cuda", profile="engine")
    assert [
        f.text for f in found if f.level == "error" and f.key in written and "needs the package" not in f.text
    ] == []


def test_refused_combinations_are_said() -> None:
    assert decision_conflicts({"method": "lora", "optimizer": "galore"})
    assert decision_conflicts({"method": "full", "quantization": "4bit"})
    assert decision_conflicts({"method": "lora", "quantization": "4bit", "distributed": "deepspeed"}) == []


def test_guidance_maps_decisions_to_classes(catalog: Catalog) -> None:
    told = guidance(catalog, {"method": "lora", "quantization": "4bit"})
    assert told["decision_map"]["lora"] == ["LoraArguments"]
    assert set(told["decisions"]) == {d.name for d in DIMENSIONS}
    assert told["kept"] == len(told["parameters"]) <= 70
    assert set(SEED_CORE) <= set(told["core"])
