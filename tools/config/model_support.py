"""Whether the engine can load a model: its architecture, its vocabulary, and the adapters that a config puts on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.config_text import UnreadableError, read_object
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.folders import is_hub_name
from tuneloop.tools.config.model_card import read_header

MODEL, ADAPTER = "model_name_or_path", "adapter_name_or_path"
OF_OTHER_MODELS = ("ref_model_adapters", "reward_model_adapters")
NAMED_IN = ("auto_mappings.py", "configuration_auto.py", "modeling_auto.py")
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
LOW_RANK = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.\w+)?\.weight")
RIGHT = "write the folder of an adapter"


def check_model_support(s: ConfigContext) -> Iterator[KeyProblem]:
    """What the engine would fail at while it loads the model, or silently load in another way."""
    if s.model.folder == Path():
        return
    known = transformers_names(s.catalog.site_packages)
    if known and not (s.model.custom_code and s.set("trust_remote_code")):
        for what, name in (("model_type", s.model.model_type), ("architecture", s.model.architecture)):
            if name != "unknown" and name not in known:
                why = f"config.json names the {what} {name!r}, which the engine's transformers does not have"
                yield "error", MODEL, f"{why}; write a model that it has, e.g. of Qwen3 or Llama"
                return
    if s.model.vocab < s.model.token_count and not s.set("resize_vocab"):
        sizes = f"vocab_size is {s.model.vocab} and the tokenizer has {s.model.token_count} tokens"
        cure = "write finetuning_type: full and" if s.in_run and s.method != "full" else "add"
        yield "error", MODEL, f"{sizes}: the last ones have no row in the embedding; {cure} resize_vocab: true"


@lru_cache(maxsize=4)
def transformers_names(site_packages: Path) -> frozenset[str]:
    """Model types and classes that transformers knows; empty where it cannot be told."""
    folder = site_packages / "transformers/models/auto"
    texts = [path.read_text(encoding="utf-8") for name in NAMED_IN if (path := folder / name).is_file()]
    return frozenset(name for text in texts for name in re.findall(r'"([\w.-]+)"', text))


def check_adapters(s: ConfigContext) -> Iterator[KeyProblem]:
    """Adapters that are not there, have no weights, or were trained on a model of another width."""
    for key in s.set(ADAPTER, *OF_OTHER_MODELS):
        for name in s.names(key):
            folder = s.path(name) / str(s.get("adapter_folder") or "")
            if (folder.is_dir() or not is_hub_name(name)) and (wrong := _adapter_problem(s, key, folder)):
                yield "error", key, wrong


def _adapter_problem(s: ConfigContext, key: str, folder: Path) -> str:
    try:
        told = read_object(folder / "adapter_config.json")
    except UnreadableError as e:
        return f"{e}; {RIGHT}"
    if not isinstance(told, Mapping) or "peft_type" not in told:
        return f"{folder}/adapter_config.json names no peft_type; {RIGHT}"
    weights = next((path for name in ADAPTER_WEIGHTS if (path := folder / name).is_file()), None)
    if weights is None:
        return f"{folder} holds no weights ({ADAPTER_WEIGHTS[0]}); {RIGHT}"
    return _width_problem(s, weights) if key == ADAPTER and weights.suffix == ".safetensors" else ""


def _width_problem(s: ConfigContext, weights: Path) -> str:
    try:
        tensors = read_header(weights)
    except InvalidRequestError as e:
        return str(e)
    for name, (_, sizes) in tensors.items():
        match = LOW_RANK.fullmatch(name)
        base = s.model.tensors.get(f"{match[1]}.weight") if match else None
        if not match or not base or len(base) != 2 or len(sizes) != 2:
            continue
        has, wants = (sizes[1], base[1]) if match[2] == "A" else (sizes[0], base[0])
        if has != wants:
            return (
                f"{weights.parent} is {has} wide at {match[1]}, and the model {wants}; write an adapter of this model"
            )
    return ""
