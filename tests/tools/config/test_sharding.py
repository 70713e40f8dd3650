"""How a training is split over GPUs: its share of a step, the first way that fits, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.tools.config.test_memory_estimate import LARGE
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config, errors
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.memory import checkpoint_bytes, estimate_memory, memory_finding, recipe_key
from tuneloop.tools.config.model_card import ModelCard
from tuneloop.tools.config.sharding import Devices, distribute, share_step

FULL = {"finetuning_type": "full", "bf16": True, "gradient_accumulation_steps": 8, "cutoff_len": 512}


@pytest.fixture
def large(catalog: Catalog, card: ModelCard):
    model = replace(card, shape=LARGE, parameters=LARGE.parameters)

    def made(device: str = "cuda", packages: Catalog = catalog, **values: Any) -> ConfigContext:
        config = parse_config(yaml.safe_dump({**FULL, "per_device_train_batch_size": 1, **values}))
        return ConfigContext(config, packages, model, device)

    return made


@pytest.fixture
def with_deepspeed(catalog: Catalog, tmp_path) -> Catalog:
    (tmp_path / "deepspeed").mkdir()
    return replace(catalog, site_packages=tmp_path)


def test_a_step_has_as_many_rows_on_any_number_of_processes() -> None:
    cases = ((4, 2, 2), (4, 4, 2), (16, 1, 4), (4, 2, 4), (2, 3, 4), (1, 1, 8))
    assert [share_step(*case) for case in cases] == [(2, 4), (2, 4), (4, 4), (4, 2), (3, 2), (1, 1)]


def test_the_first_way_that_fits_is_taken(large: Any, with_deepspeed: Catalog) -> None:
    case = large(packages=with_deepspeed)
    ways = ("ddp", "zero2", "zero3", "zero3_offload")
    need = [estimate_memory(distribute(case, Devices(8, way))).total for way in ways]
    assert need == sorted(need, reverse=True)
    for way, total in zip(ways, need, strict=True):
        assert distribute(case, Devices(8, memory=int(total / 0.9) + 1)).sharding == way
    least = distribute(case, Devices(8, memory=need[-1] // 2))
    assert least.sharding == "zero3_offload"
    finding = memory_finding(least, need[-1] // 2)
    assert finding is not None and finding.level == "error"


def test_the_longest_row_decides_where_it_is_known(large: Any, with_deepspeed: Catalog) -> None:
    case = large(packages=with_deepspeed, per_device_train_batch_size=32, cutoff_len=8192)
    room = Devices(8, memory=int(estimate_memory(distribute(case, Devices(8, "ddp")), tokens=64).total / 0.9) + 1)
    assert distribute(case, room).sharding == distribute(case, room, 64).sharding == "ddp"
    assert distribute(case, room, 8192).sharding != "ddp"
    packed = large(packages=with_deepspeed, per_device_train_batch_size=32, cutoff_len=8192, packing=True)
    assert distribute(packed, room).sharding != "ddp", "packed rows are all of cutoff_len tokens"


def test_without_deepspeed_pytorch_splits(large: Any) -> None:
    need = estimate_memory(distribute(large(), Devices(8, "fsdp"))).total
    found = distribute(large(), Devices(8, memory=int(need / 0.9) + 1))
    assert found.sharding == "fsdp"
    assert found.get("fsdp") == "full_shard auto_wrap" and found.get("fsdp_config")["state_dict_type"]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_one_process_is_split_by_nothing(large: Any, device: str) -> None:
    assert distribute(large(device), Devices(1, "zero3", 1)) == large(device)
    assert distribute(large(device), Devices(4, memory=None)).sharding == "ddp"


def test_a_way_that_does_not_go_with_the_recipe_is_passed_over(large: Any, with_deepspeed: Catalog) -> None:
    case = large(packages=with_deepspeed, finetuning_type="lora", quantization_bit=8)
    assert distribute(case, Devices(4, memory=1)).sharding == "zero2"


def test_processes_on_a_cpu_share_its_memory(large: Any) -> None:
    one, two = large("cpu"), distribute(large("cpu", gradient_accumulation_steps=2), Devices(2))
    total = estimate_memory(one).total
    assert memory_finding(one, 2 * total) is None
    assert memory_finding(two, total) is not None and memory_finding(two, 4 * total) is None


def test_a_step_is_shared_over_nodes_whose_memory_is_their_own(large: Any) -> None:
    def over(**more: Any) -> Any:
        return distribute(large("cpu", per_device_train_batch_size=2, gradient_accumulation_steps=4), Devices(**more))

    shares = [over(processes=each, nodes=nodes) for each, nodes in ((2, 2), (1, 3), (3, 3), (8, 2))]
    assert [(one.processes, one.rows) for one in shares] == [(4, 2), (2, 2), (4, 2), (8, 1)]
    one, four = over(), shares[0]
    total = estimate_memory(four).total
    assert memory_finding(four, 2 * total + total // 2) is None, "two of its processes are on one node"
    assert memory_finding(replace(four, nodes=1), 2 * total + total // 2) is not None
    assert one.rows is None


def test_what_lies_on_the_disk_is_all_of_it(large: Any) -> None:
    split = distribute(large(), Devices(8, "zero3_offload"))
    assert checkpoint_bytes(split) == checkpoint_bytes(large())
    assert recipe_key(split, "m") != recipe_key(large(), "m")


@pytest.mark.parametrize(
    ("sharding", "values", "key", "text"),
    [
        ("zero3", {}, "deepspeed", "needs the package deepspeed"),
        (
            "zero3",
            {"finetuning_type": "lora", "quantization_bit": 8},
            "quantization_bit",
            "cannot go with DeepSpeed ZeRO-3",
        ),
        ("zero2", {"use_galore": True}, "use_galore", "cannot go with deepspeed"),
    ],
)
def test_what_the_settings_ask_for_is_checked_with_the_recipe(
    catalog: Catalog, card: ModelCard, sharding: str, values: dict[str, Any], key: str, text: str
) -> None:
    asked = yaml.safe_dump({**FULL, **values})
    found = check_config(asked, catalog, card, "cuda", devices=Devices(2, sharding))
    assert [f for f in found if f.level == "error" and f.key == key and text in f.text], errors(found)
