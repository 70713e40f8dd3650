"""The one model in memory: a base is loaded once, adapters are merged into it for their turn and taken out exactly."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers import AutoModelForCausalLM

PLAIN_STARTS = (None, True, False, "gaussian")


class Held:
    """Holds at most one whole model, safetensors only, no remote code; a GPU has no room for a second one."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.model: Any = None
        self.undo: Callable[[], None] | None = None

    def take(self, path: str, adapter: str | None, kwargs: dict[str, Any], again: bool) -> Any:
        """The model of `path` with `adapter` merged; `again`: the same base is wanted once more after this turn."""
        if path != self.path:
            self.drop()
            model = AutoModelForCausalLM.from_pretrained(path, use_safetensors=True, trust_remote_code=False, **kwargs)
            self.path, self.model = path, model.eval()
        if adapter is None:
            return self.model
        # merged, because what a run leaves in the end is the merged model
        self.undo = self.drop
        merged, restore = merge(self.model, Path(adapter), again)
        self.undo = restore or self.drop
        return merged

    def put_back(self) -> None:
        """The turn is over: the base is again what it was, bit for bit, or it is gone."""
        undo, self.undo = self.undo, None
        if undo is not None:
            undo()

    def drop(self) -> None:
        """Give the memory back."""
        self.path = self.model = self.undo = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


HELD = Held()


def merge(model: Any, adapter: Path, again: bool) -> tuple[Any, Callable[[], None] | None]:
    """The model with the adapter merged in place, and how to take it out; None: it must be loaded anew for that."""
    if not (adapter / "adapter_model.safetensors").is_file():
        raise FileNotFoundError(f"{adapter}: adapter_model.safetensors is missing")
    plain = again and touches_only_its_layers(json.loads((adapter / "adapter_config.json").read_text()))
    shape = remember(model) if plain else []
    peft = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
    weights = touched(peft) if plain else []
    # where the copies go, the GPU's memory is not needed twice
    saved = [(parameter, parameter.data, parameter.data.to("cpu", copy=True)) for parameter in weights]

    def restore() -> None:
        for parameter, place, copy in saved:
            place.copy_(copy)
            parameter.data = place
        for module, state in shape:
            module.__dict__.clear()
            module.__dict__.update(state)

    return peft.merge_and_unload().eval(), restore if plain else None


def touches_only_its_layers(config: dict[str, Any]) -> bool:
    """Whether the adapter leaves the base as it is until it is merged, and then changes only the layers it sits on."""
    starts = config.get("init_lora_weights") in PLAIN_STARTS
    return config.get("peft_type") == "LORA" and config.get("bias", "none") == "none" and starts


def remember(model: nn.Module) -> list[tuple[nn.Module, dict[str, Any]]]:
    """Every module and what it holds; weights are not copied."""
    own = ("_modules", "_parameters", "_buffers")
    return [
        (module, {**module.__dict__, **{name: dict(module.__dict__[name]) for name in own}})
        for module in model.modules()
    ]


def touched(peft: nn.Module) -> list[nn.Parameter]:
    """Parameters that merging changes: those of the layers below adapters."""
    layers = [module.get_base_layer() for module in peft.modules() if isinstance(module, BaseTunerLayer)]
    return list({id(p): p for layer in layers for p in layer.parameters()}.values())
