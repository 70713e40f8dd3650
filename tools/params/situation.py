"""A config seen with everything it is judged against: the catalog's defaults, the model, the device, the folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tuneloop.tools.params.accelerators import Accelerator, accelerator
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.config_text import Config
from tuneloop.tools.params.model_card import ModelCard
from tuneloop.tools.params.packages import package_version

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
class Situation:
    """`get` gives what the engine would see: the written value, else the default. `device` names a device.

    `data`: the folder of dataset_info.json, where it is not the config's `dataset_dir`. `here`: where relative paths
    begin. `installed`: whether packages that the engine lacks are errors.
    """

    config: Config
    catalog: Catalog
    model: ModelCard
    device: str
    profile: Profile = "run"
    data: Path | None = None
    here: Path = field(default_factory=Path)
    installed: bool = True

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
    def place(self) -> Accelerator:
        """The device with what it can compute."""
        return accelerator(self.device)

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
        from tuneloop.tools.params.files import json_value

        found = json_value(self.get("deepspeed"), self.here)
        stage = found.get("zero_optimization") if isinstance(found, Mapping) else None
        value = stage.get("stage") if isinstance(stage, Mapping) else 0
        return value if isinstance(value, int) else 0

    def path(self, text: str) -> Path:
        """A path of the config, absolute."""
        return self.here / Path(text).expanduser()
