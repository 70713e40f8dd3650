"""A config seen with everything it is judged against: the catalog's defaults, the model, the device, the folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.installed import package_version
from tuneloop.tools.config.model_card import ModelCard

if TYPE_CHECKING:
    from tuneloop.tools.config.config_text import Config  # YAML is slow to import, and questions need none

# What a named device can compute with: `cpu`, `cuda`, or a card such as `cuda:V100`, `T4`, `H200`, `cuda:8.0`.

# Compute capability of the cards that people name; longer names first where one holds another.
CARDS = {
    "gb200": 10.0, "gb300": 10.3, "b200": 10.0, "b300": 10.3, "h100": 9.0, "h200": 9.0, "h800": 9.0, "gh200": 9.0,
    "h20": 9.0, "l40": 8.9, "l20": 8.9, "l4": 8.9, "4060": 8.9, "4070": 8.9, "4080": 8.9, "4090": 8.9, "ada": 8.9,
    "a100": 8.0, "a800": 8.0, "a30": 8.0, "a40": 8.6, "a10": 8.6, "a16": 8.6, "a6000": 8.6, "a5000": 8.6,
    "a4000": 8.6, "3060": 8.6, "3070": 8.6, "3080": 8.6, "3090": 8.6, "5070": 12.0, "5080": 12.0, "5090": 12.0,
    "t4": 7.5, "2060": 7.5, "2070": 7.5, "2080": 7.5, "1660": 7.5, "titan rtx": 7.5, "v100": 7.0, "titan v": 7.0,
    "p100": 6.0, "p40": 6.1, "p4": 6.1, "1060": 6.1, "1070": 6.1, "1080": 6.1, "m60": 5.2, "k80": 3.7,
}  # fmt: skip
BF16, TF32, FP8 = 8.0, 8.0, 8.9
OTHERS = ("mps", "npu", "xpu", "mlu", "hpu", "musa")


@dataclass(frozen=True)
class Accelerator:
    """`kind` is cpu, cuda or another backend; `capability` of a CUDA card, None where no card was named."""

    kind: str
    capability: float | None = None
    name: str = ""

    def lacks(self, least: float) -> bool:
        """Whether it is known to be older than that capability."""
        return self.capability is not None and self.capability < least


def is_known_device(device: str) -> bool:
    """Whether the name says what it is; an unknown card behind `cuda:` is let through."""
    found, kind = find_accelerator(device), device.strip().lower().partition(":")[0]
    return kind in ("cpu", "cuda", "gpu", *OTHERS) or found.capability is not None


def find_accelerator(device: str) -> Accelerator:
    """The device behind a name; an unknown card is taken for a present one."""
    name = device.strip().lower()
    kind, _, card = name.partition(":")
    if kind in ("cpu", *OTHERS):
        return Accelerator(kind, name=device)
    rest = card if kind in ("cuda", "gpu") else name
    if re.fullmatch(r"\d{1,2}\.\d", rest):
        return Accelerator("cuda", float(rest), device)
    words = re.sub(r"[^a-z0-9 ]", " ", rest)
    found = next((c for card_name, c in CARDS.items() if re.search(rf"\b{card_name}s?\b", words)), None)
    return Accelerator("cuda", found, device)


Profile = Literal["engine", "run"]

# Lists that the engine takes where it also takes names with commas between them.
LISTS = frozenset(
    {
        *("dataset", "eval_dataset", "interleave_probs", "lora_target", "oft_target", "additional_target"),
        *("freeze_trainable_modules", "freeze_extra_modules", "galore_target", "apollo_target"),
    }
)
OFF: tuple[Any, ...] = (None, False, "", [], {})


@dataclass(frozen=True)
class ConfigContext:
    """`get` gives what the engine would see: the written value, else the default. `device` names a device.

    `data`: the folder of dataset_info.json, where it is not the config's `dataset_dir`. `here`: where relative paths
    begin. `installed`: whether packages that the engine lacks are errors. `processes`: that share each step of a run's
    training, over `nodes`, `rows` at a time of each, where they are not the config's; `sharding`: how its state is split
    (`sharding.py`).
    """

    config: Config
    catalog: Catalog
    model: ModelCard
    device: str
    profile: Profile = "run"
    data: Path | None = None
    here: Path = field(default_factory=Path)
    installed: bool = True
    processes: int = 1
    nodes: int = 1
    rows: int | None = None
    sharding: str = "ddp"

    def get(self, key: str) -> Any:
        """The value of a parameter; None where the release has no such parameter."""
        if key in self.config.values:
            value = self.config.values[key]
            return ",".join(map(str, value)) if key in LISTS and isinstance(value, list) else value
        parameter = self.catalog.parameters.get(key)
        return parameter.default if parameter else None

    def set(self, *keys: str) -> list[str]:
        """Those keys that are written and switched on."""
        return [k for k in keys if self.config.values.get(k) not in OFF]

    def on(self, key: str) -> bool:
        """Whether a switch is on, written or by default."""
        return self.get(key) not in OFF

    def names(self, key: str) -> list[str]:
        """The names in a value that holds several, commas between them."""
        value = self.get(key)
        return [name.strip() for name in str(value).split(",")] if value is not None else []

    def version(self, package: str) -> tuple[int, ...]:
        """Of a package of the engine, (0, 24, 0); empty where it has none."""
        return package_version(self.catalog.site_packages, package)

    @cached_property
    def accelerator(self) -> Accelerator:
        """The device with what it can compute."""
        return find_accelerator(self.device)

    @property
    def in_run(self) -> bool:
        """Whether the loop uses the config, which then sets places, data and steps itself."""
        return self.profile == "run"

    @property
    def method(self) -> str:
        """full, lora, freeze or oft."""
        return str(self.get("finetuning_type"))

    @property
    def stage(self) -> str:
        """pt, sft, rm, ppo, dpo or kto."""
        return str(self.get("stage"))

    @property
    def trains(self) -> bool:
        """Whether weights are changed; a run always does."""
        return self.in_run or self.on("do_train")

    @property
    def evaluates(self) -> bool:
        """Whether losses on held-out rows are measured during training."""
        return self.get("eval_strategy") in ("steps", "epoch")

    @property
    def has_eval_data(self) -> bool:
        """Whether rows are held out, or a data set is named for measuring."""
        return bool(self.get("val_size")) or self.on("eval_dataset")

    @property
    def zero(self) -> int:
        """Stage of DeepSpeed's ZeRO where its config is written into this one or can be read; 0 otherwise."""
        from tuneloop.tools.config.config_text import json_value

        found = json_value(self.get("deepspeed"), self.here)
        stage = found.get("zero_optimization") if isinstance(found, Mapping) else None
        value = stage.get("stage") if isinstance(stage, Mapping) else 0
        return value if isinstance(value, int) else 0

    def path(self, text: str) -> Path:
        """A path of the config, absolute."""
        return self.here / Path(text).expanduser()
