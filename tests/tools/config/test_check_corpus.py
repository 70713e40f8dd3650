"""Every config of the corpora is refused with the right key, or passes, in both profiles."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import NO_MODEL, check_config
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.model_card import ModelCard

BAD = world.cases("bad_configs.yaml")
GOOD = world.cases("good_engine_configs.yaml")
EXAMPLES = dict(world.examples())
# Its key was moved into fsdp_config: this release with its transformers refuses it.
OUTDATED = {"extras/fp8/llama3_fp8_fsdp_sft.yaml": "fsdp_transformer_layer_cls_to_wrap"}
DATA = {"sft": "alpaca", "dpo": "pairs", "rm": "pairs", "kto": "judged", "pt": "texts"}


def look(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> list[Finding]:
    model = card if case.profile == "run" else None
    return check_config(
        case.text, catalog, model, case.device, profile=case.profile, overrides=case.overrides, here=place
    )


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_config_is_refused_and_the_key_named(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    errors = [f for f in look(case, catalog, card, place) if f.level == "error"]
    assert case.key in {f.key for f in errors}, case.text


def test_there_are_enough_of_many_kinds() -> None:
    assert len(BAD) >= 150
    assert len({case.kind for case in BAD}) >= 30
    assert len(GOOD) >= 60


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_good_config_passes(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    errors = [str(f) for f in look(case, catalog, card, place) if f.level == "error"]
    assert errors == [], case.text


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_public_example_passes(name: str, catalog: Catalog, place: Path) -> None:
    values = EXAMPLES[name] | {"model_name_or_path": "org/model", "output_dir": "saves/x", "dataset_dir": "data"}
    values |= {"dataset": DATA[values.get("stage", "sft")]}
    values |= {
        key: new for key, new in {"deepspeed": "ds2.json", "adapter_name_or_path": "adapter"}.items() if key in values
    }
    values |= {"eval_dataset": "more"} if "eval_dataset" in values else {}
    found = check_config(
        yaml.safe_dump(values), catalog, NO_MODEL, "cuda:H100", profile="engine", here=place, installed=False
    )
    allowed = OUTDATED.get(name)
    assert [str(f) for f in found if f.level == "error" and f.key not in (allowed, "model_name_or_path")] == []


def test_a_finding_points_at_line_or_override(catalog: Catalog, place: Path) -> None:
    text = "".join(f"{k}: {v}\n" for k, v in world.BASE.items()) + "lora_rank: 0\n"
    found = check_config(text, catalog, None, "cpu", profile="engine", here=place, overrides=("lora_alpha=0",))
    told = [str(f) for f in found if f.level == "error"]
    assert told == [
        "train.yaml:14 lora_rank: 0 is below 1; usual 8–64",
        "override 1 lora_alpha: 0 is below 1; usual 2 × lora_rank",
    ]


def test_json_defect_of_the_release_is_reported(catalog: Catalog, place: Path) -> None:
    text = '{\n "stage": "sft",\n "learning_rat": 1\n}'
    found = check_config(text, catalog, None, "cpu", profile="engine", here=place, form="json")
    assert [(f.line, f.key) for f in found if f.key == "learning_rat"] == [(3, "learning_rat")]
    assert any("YAML" in f.text for f in found if f.level == "warning")


@pytest.mark.parametrize(
    ("text", "line"),
    [('{"stage": 1,}', 1), ('{\n"a": 1,\n"a": 2}', 2), ("[1]", 1), ("{", 1), ("", 1), ('{"a": ' + "[" * 5000, 1)],
)
def test_what_is_no_json(text: str, line: int, catalog: Catalog) -> None:
    found = check_config(text, catalog, None, "cpu", form="json")
    assert [(f.level, f.line) for f in found] == [("error", line)]


@pytest.mark.parametrize("override", ["--learning_rate", "1e-4", "=3", "lora_rank"])
def test_what_is_no_override(override: str, catalog: Catalog) -> None:
    found = check_config("cutoff_len: 64", catalog, None, "cpu", overrides=("lora_rank=8", override))
    assert [(f.level, f.override) for f in found] == [("error", 2)]


def test_packages_of_another_machine_are_warnings(catalog: Catalog, place: Path) -> None:
    text = "".join(f"{k}: {v}\n" for k, v in world.BASE.items()) + "quantization_bit: 4\n"
    for installed, level in ((True, "error"), (False, "warning")):
        found = check_config(text, catalog, None, "cuda", profile="engine", here=place, installed=installed)
        assert [(f.level, f.key) for f in found if "package" in f.text] == [(level, "quantization_bit")]


def test_data_in_other_places_are_not_checked(catalog: Catalog, place: Path, tmp_path: Path) -> None:
    text = "".join(f"{k}: {v}\n" for k, v in world.BASE.items() if k != "dataset_dir").replace(
        ": model", f": {place}/model"
    )
    found = check_config(text, catalog, None, "cpu", profile="engine", here=tmp_path)
    assert [(f.level, f.key) for f in found if f.level != "note"] == [("warning", "dataset_dir")]
    told = check_config(text, catalog, None, "cpu", profile="engine", here=tmp_path, data=place / "data_broken")
    assert ("error", "dataset_dir") in [(f.level, f.key) for f in told]


def test_what_the_installed_datasets_does_not_know_is_refused(catalog: Catalog, place: Path, tmp_path: Path) -> None:
    text = yaml.safe_dump({**world.BASE, "dataset": "alpaca,more", "mix_strategy": "interleave_once"})
    for known, refused in (("", True), ("all_exhausted_without_replacement", False)):
        packages = tmp_path / str(refused)
        (packages / "datasets").mkdir(parents=True)
        (packages / "datasets" / "combine.py").write_text(known)
        older = dataclasses.replace(catalog, site_packages=packages)
        found = check_config(text, older, NO_MODEL, "cpu", profile="engine", here=place, installed=False)
        assert ("mix_strategy" in {f.key for f in found if f.level == "error"}) is refused
