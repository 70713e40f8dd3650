"""What generates the answers of an evaluation: transformers, or vLLM where the engine has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tuneloop.core.errors import SetupError
from tuneloop.core.files import read_json
from tuneloop.tools.engines import Engine

Backend = Literal["hf", "vllm"]
BackendChoice = Literal["auto", "hf", "vllm"]


def choose_backend(choice: BackendChoice, engine: Engine, device: str, adapters: Sequence[Path] = ()) -> Backend:
    """The backend for these adapters; `auto` is vLLM on a GPU when the engine has it and can serve all of them.

    Raises SetupError in one line when vLLM is asked for and cannot be.
    """
    there = "vllm" in engine.packages
    if choice == "vllm" and not there:
        raise SetupError(
            f"TUNELOOP_EVAL_BACKEND=vllm, but {engine.folder} has no vllm: set OPENCOMPASS_PATH to an environment with "
            "opencompass and vllm, or TUNELOOP_EVAL_BACKEND=auto"
        )
    if choice == "vllm" and device != "cuda":
        raise SetupError("TUNELOOP_EVAL_BACKEND=vllm needs a GPU, and there is none: set TUNELOOP_EVAL_BACKEND=auto")
    if choice == "auto":
        return "vllm" if there and device == "cuda" and all(map(servable, adapters)) else "hf"
    return choice


def servable(adapter: Path) -> bool:
    """Whether vLLM can put the adapter on its base unmerged: plain LoRA on layers, and nothing besides."""
    try:
        config = read_json(adapter / "adapter_config.json")
    except (OSError, ValueError):
        return False
    besides = ("use_dora", "modules_to_save", "trainable_token_indices", "layer_replication")
    plain = config.get("peft_type") == "LORA" and config.get("bias", "none") == "none"
    return plain and not any(config.get(name) for name in besides)
