"""What OpenCompass's jobs import, for a warm worker."""

from __future__ import annotations

import importlib
import os

import accelerate.utils.imports
import transformers.utils.import_utils

MODULES = (
    "opencompass.cli.main",
    "opencompass.evaluator",
    "yapf",
    "encodings.utf_8_sig",
    "encodings.unicode_escape",
    "torch.profiler._cupti_monitor",
    "oc_tasks",
)
ARCHITECTURES = ("gemma2", "gemma3", "llama", "mistral", "phi3", "qwen2", "qwen3")

for name in MODULES:
    importlib.import_module(name)
for name in ARCHITECTURES:
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def in_child() -> None:
    """What was found out about GPUs while they were hidden from the imports is found out again."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "all"):
        return
    for module in (transformers.utils.import_utils, accelerate.utils.imports):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
