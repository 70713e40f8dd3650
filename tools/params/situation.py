"""A config seen with everything it is judged against: the catalog's defaults, the model and the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.config_text import Config
from tuneloop.tools.params.model_card import ModelCard


@dataclass(frozen=True)
class Situation:
    """`get` gives what the engine would see: the written value, else the default. `device` is cpu or cuda."""

    config: Config
    catalog: Catalog
    model: ModelCard
    device: str

    def get(self, key: str) -> Any:
        """The value of a parameter; None where the release has no such parameter."""
        if key in self.config.values:
            return self.config.values[key]
        parameter = self.catalog.parameters.get(key)
        return parameter.default if parameter else None

    def set(self, *keys: str) -> list[str]:
        """Those keys that are written and switched on."""
        return [k for k in keys if self.config.values.get(k) not in (None, False)]

    @property
    def method(self) -> str:
        """full, lora, freeze or oft."""
        return str(self.get("finetuning_type"))

    @property
    def evaluates(self) -> bool:
        """Whether losses on held-out rows are measured during training."""
        return self.get("eval_strategy") in ("steps", "epoch")
