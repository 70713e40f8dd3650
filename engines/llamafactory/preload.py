"""What LLaMA-Factory's jobs import, for a warm worker."""

from __future__ import annotations

import importlib
import os

import accelerate.utils.imports
from llamafactory.extras import misc  # before trl, or every DPO job misses mergekit
from transformers import AutoModelForImageTextToText, AutoModelForSeq2SeqLM, AutoModelForTextToWaveform
from transformers.utils import import_utils

MODULES = (
    "llamafactory.launcher",
    "llamafactory.train.tuner",
    "llamafactory.train.sft.trainer",
    "llamafactory.train.sft.workflow",
    "llamafactory.train.dpo.workflow",
    "llamafactory.train.kto.workflow",
    "llamafactory.train.pt.workflow",
    "llamafactory.train.rm.workflow",
    "datasets.packaged_modules.json.json",
    "fsspec.implementations.cached",
    "multiprocessing.synchronize",
    "numpy.ctypeslib",
    "torch.profiler._cupti_monitor",
    "torch.utils.serialization",
    "lf_watch",
)
ARCHITECTURES = ("gemma2", "gemma3", "llama", "mistral", "phi3", "qwen2", "qwen3")

for name in MODULES:
    importlib.import_module(name)
for name in ARCHITECTURES:
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")
# LLaMA-Factory asks which family a model is of, and transformers imports every configuration to answer.
for family in (AutoModelForImageTextToText, AutoModelForSeq2SeqLM, AutoModelForTextToWaveform):
    list(family._model_mapping.keys())


def in_child() -> None:
    """What was found out about GPUs while they were hidden from the imports is found out again."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "all"):
        return
    for module in (import_utils, accelerate.utils.imports):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    misc._is_fp16_available = import_utils.is_torch_cuda_available()
    misc._is_bf16_available = import_utils.is_torch_bf16_gpu_available()
