"""What is wrong with one value by itself: its type, its choice, its range."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.context import LISTS
from tuneloop.tools.config.finding import choices_text, value_text
from tuneloop.tools.config.packages import REPORTERS

# Sensible ranges of numeric parameters: outside is an error, and the sentence names what is usual.

INFINITE = math.inf


@dataclass(frozen=True)
class Range:
    """`low` to `high`; a border belongs to it unless `above` (low) or `below` (high) is set; `also` is allowed too.

    `among`: no others are allowed.
    """

    low: float
    high: float = INFINITE
    above: bool = False
    below: bool = False
    also: tuple[float, ...] = ()
    usual: str = ""
    among: tuple[float, ...] = ()

    def complaint(self, value: Any) -> str | None:
        """What is wrong with a number; None when nothing is."""
        if not abs(value) < INFINITE:
            return f"{value} is no finite number{self._usual()}"
        if value in self.also:
            return None
        if self.among and value not in self.among:
            return f"{value} is not among {', '.join(f'{v:g}' for v in self.among)}"
        if value < self.low or (self.above and value == self.low):
            return f"{value} is {'not above' if self.above else 'below'} {self.low:g}{self._usual()}"
        if value > self.high or (self.below and value == self.high):
            return f"{value} is {'not below' if self.below else 'above'} {self.high:g}{self._usual()}"
        return None

    def _usual(self) -> str:
        return f"; usual {self.usual}" if self.usual else ""


ANY = Range(-INFINITE)
COUNT = Range(1)
SHARE = Range(0, 1, below=True)
FROM_ZERO = Range(0)
POSITIVE = Range(0, above=True)
BITS = Range(4, 8, among=(4, 8))
SEED = Range(0, 2**32 - 1, usual="any small whole number")

RANGES: dict[str, Range] = {
    "learning_rate": Range(0, 1, above=True, below=True, usual="1e-5–1e-3, for tiny models up to 5e-3"),
    "per_device_train_batch_size": Range(1, 4096, usual="1–64"),
    "per_device_eval_batch_size": Range(1, 4096, usual="1–64"),
    "gradient_accumulation_steps": Range(1, 4096, usual="1–16"),
    "num_train_epochs": Range(0, 1000, above=True, usual="1–10"),
    "max_steps": Range(1, 10_000_000, also=(-1,), usual="-1 (train by epochs) or a few hundred"),
    "cutoff_len": Range(16, usual="256–4096"),
    "warmup_steps": Range(0, usual="0–10 % of the steps"),
    "warmup_ratio": Range(0, 1, below=True, usual="0–0.1"),
    "weight_decay": Range(0, 1, below=True, usual="0–0.1"),
    "adam_beta1": Range(0, 1, below=True, usual="0.9"),
    "adam_beta2": Range(0, 1, below=True, usual="0.95–0.999"),
    "adam_epsilon": Range(0, 1, above=True, usual="1e-8"),
    "max_grad_norm": Range(0, usual="1.0"),
    "label_smoothing_factor": SHARE,
    "neftune_noise_alpha": Range(0, usual="5"),
    "lora_rank": Range(1, 1024, usual="8–64"),
    "lora_alpha": Range(1, 8192, usual="2 × lora_rank"),
    "lora_dropout": Range(0, 1, below=True, usual="0–0.1"),
    "loraplus_lr_ratio": Range(0, above=True, usual="16"),
    "loraplus_lr_embedding": Range(0, 1, above=True, below=True, usual="1e-6"),
    "pissa_iter": Range(1, also=(-1,), usual="16"),
    "oft_rank": FROM_ZERO,
    "oft_block_size": FROM_ZERO,
    "module_dropout": SHARE,
    "freeze_trainable_layers": Range(-10_000, 10_000, usual="2"),
    "quantization_bit": Range(1, 8, usual="4 or 8"),
    "logging_steps": Range(0, above=True, usual="10"),
    "save_steps": Range(0, above=True, usual="100"),
    "eval_steps": Range(0, above=True, usual="100"),
    "eval_delay": FROM_ZERO,
    "save_total_limit": COUNT,
    "val_size": Range(0, usual="0, or 0.05–0.1"),
    "max_samples": COUNT,
    "buffer_size": COUNT,
    "preprocessing_batch_size": COUNT,
    "preprocessing_num_workers": Range(1, 512, usual="1–16"),
    "dataloader_num_workers": Range(0, 256, usual="0–4"),
    "dataloader_prefetch_factor": COUNT,
    "early_stopping_steps": Range(1, usual="3"),
    "torch_empty_cache_steps": COUNT,
    "eval_accumulation_steps": COUNT,
    "eval_num_beams": COUNT,
    "generation_max_length": COUNT,
    "generation_num_beams": COUNT,
    "num_beams": COUNT,
    "max_new_tokens": COUNT,
    "max_length": COUNT,
    "temperature": FROM_ZERO,
    "top_p": Range(0, 1, above=True),
    "top_k": FROM_ZERO,
    "repetition_penalty": POSITIVE,
    "seed": SEED,
    "data_seed": SEED,
    "ddp_timeout": COUNT,
    "galore_rank": COUNT,
    "galore_update_interval": COUNT,
    "galore_scale": POSITIVE,
    "apollo_rank": COUNT,
    "apollo_update_interval": COUNT,
    "apollo_scale": POSITIVE,
    "badam_switch_interval": COUNT,
    "badam_update_ratio": Range(0, 1, above=True),
    "pref_beta": Range(0, above=True, usual="0.1"),
    "pref_ftx": Range(0, usual="0, or up to 1 with sigmoid"),
    "pref_bco_weight": FROM_ZERO,
    "dpo_label_smoothing": Range(0, 0.5, usual="0–0.3"),
    "kto_chosen_weight": FROM_ZERO,
    "kto_rejected_weight": FROM_ZERO,
    "simpo_gamma": Range(0, usual="0.5–1.5"),
    "ld_alpha": Range(0, 1),
    "ref_model_quantization_bit": BITS,
    "reward_model_quantization_bit": BITS,
    "ppo_buffer_size": COUNT,
    "ppo_epochs": COUNT,
    "image_max_pixels": COUNT,
    "image_min_pixels": FROM_ZERO,
    "video_max_pixels": COUNT,
    "video_min_pixels": FROM_ZERO,
    "video_fps": POSITIVE,
    "video_maxlen": COUNT,
    "audio_sampling_rate": COUNT,
    "export_size": COUNT,
    "export_quantization_bit": Range(2, 8, among=(2, 3, 4, 8)),
    "export_quantization_nsamples": COUNT,
    "export_quantization_maxlen": COUNT,
    "ddp_bucket_cap_mb": COUNT,
    "ray_num_workers": COUNT,
    "length_penalty": ANY,
    "asft_alpha": FROM_ZERO,
    "eaft_alpha": FROM_ZERO,
    "moe_aux_loss_coef": FROM_ZERO,
    "profiler_wait_steps": FROM_ZERO,
    "profiler_warmup_steps": FROM_ZERO,
    "profiler_active_steps": COUNT,
    "profiler_repeat": FROM_ZERO,
}


KIND_NAMES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "dict": "a mapping",
    "none": "null",
}
LEVELS = ("debug", "info", "warning", "error", "critical", "detail", "passive")
# Those that accelerate hands on to torch (`DynamoBackend`), without those of torch 1; it refuses every other that torch has.
COMPILERS = (
    *("inductor", "eager", "aot_eager", "cudagraphs", "onnxrt", "tensorrt", "tvm", "ipex", "hpu_backend", "ofi"),
    *("fx2trt", "torchxla_trace_once", "aot_torchxla_trace_once"),
)
# Texts that the engine takes for keys whose type is any text.
WORDS: Mapping[str, tuple[str, ...]] = {
    "report_to": ("none", "all", *REPORTERS),
    "log_level": LEVELS,
    "log_level_replica": LEVELS,
    "fp8_backend": ("auto", "torchao", "te", "msamp"),
    "train_sampling_strategy": ("random", "sequential", "group_by_length"),
    "include_num_input_tokens_seen": ("all", "non_padding", "no"),
    "torch_compile_backend": COMPILERS,
    "torch_compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "ddp_backend": ("nccl", "gloo", "mpi", "xccl", "ccl", "hccl", "cncl", "mccl"),
    "fsdp": (
        *("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2", "offload", "auto_wrap"),
    ),
    "debug": ("underflow_overflow", "tpu_metrics_debug"),
}
# Kinds beyond the declared type that the engine takes all the same.
ALSO: Mapping[str, frozenset[str]] = {
    "resume_from_checkpoint": frozenset({"bool"}),
    "fsdp": frozenset({"bool"}),
    "run_name": frozenset({"int", "float"}),
    **dict.fromkeys(LISTS, frozenset({"list"})),
}
SCALES = {"k": 1_000, "m": 1_000_000, "%": 0.01}


def value_problem(parameter: Parameter, value: Any, catalog: Catalog) -> str | None:
    """What is wrong with a value, and what would be right; None when nothing is."""
    if isinstance(value, str) and (wrong := _unresolved_reference(value)):
        return wrong
    if parameter.name in ("template", "tool_format") and isinstance(value, str):
        known = catalog.templates if parameter.name == "template" else tool_formats(catalog.factory)
        return (
            None
            if value in known
            else f"{value_text(value)} is no {_word(parameter)} of this release; {_near_choice(value, known)}"
        )
    if wrong := _type(parameter, value) or _word_of(parameter.name, value) or _commas(value):
        return wrong
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return RANGES.get(parameter.name, ANY).complaint(value)


def _unresolved_reference(value: str) -> str | None:
    if "${" in value:
        return f"{value_text(value)} is not filled in: the engine keeps ${{…}} as text; write the value itself"
    return "??? stands for a missing value; write the value" if value == "???" else None


def _commas(value: Any) -> str | None:
    """What is wrong with a list whose parts are lists again."""
    if isinstance(value, list) and (part := next((p for p in value if isinstance(p, str) and "," in p), None)):
        return f"{value_text(part)} is one name with a comma in a list; write a part for each"
    return None


def _word(parameter: Parameter) -> str:
    return parameter.name.replace("_", " ")


def _near_choice(value: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(value.lower(), list(known), n=1)
    return f"did you mean {near[0]}?" if near else "leave it out"


@lru_cache(maxsize=8)
def tool_formats(factory: Path) -> frozenset[str]:
    """The names under which the release writes calls of tools."""
    path = factory / "data/tool_utils.py"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return frozenset(re.findall(r'^    "(\w+)": \w+\(\),?$', text, re.MULTILINE))


def _word_of(name: str, value: Any) -> str | None:
    """What is wrong with texts that are names of something, alone or in a list."""
    known = WORDS.get(name)
    if known is None or isinstance(value, bool):
        return None
    if name == "report_to" and value is None:
        return 'null is taken for a service\'s name; write "none"'
    parts = value if isinstance(value, list) else value.split() if name in ("fsdp", "debug") and value else [value]
    empty = (None,) if name == "report_to" else (None, "")
    wrong = next((part for part in parts if part not in empty and part not in known), None)
    if wrong is None:
        return None
    return f"{value_text(wrong)} is not among {choices_text(known)}{_meant_choice(wrong, known)}"


def _type(parameter: Parameter, value: Any) -> str | None:
    kinds, choices = parameter.kinds | ALSO.get(parameter.name, frozenset()), parameter.choices
    if _has_kind(value, kinds) or any(value == c and type(value) is type(c) for c in choices):
        return None
    if choices and not kinds - {"none"}:
        if isinstance(value, bool) and "no" in choices:
            return (
                f'{value_text(value)} is what YAML makes of no; write "no" in quotes, or one of {choices_text(choices)}'
            )
        return f"{value_text(value)} is not among {choices_text(choices)}{_meant_choice(value, choices)}"
    right = " or ".join(KIND_NAMES[k] for k in sorted(kinds - {"none"}) if k in KIND_NAMES) or "null"
    return f"{value_text(value)} is {_kind_name(value)}; right is {right}{_example(parameter, value)}"


def _meant_choice(value: Any, choices: Iterable[Any]) -> str:
    if not isinstance(value, str):
        return ""
    plain = value.lower().replace("-", "_")
    near = difflib.get_close_matches(plain, [c for c in choices if isinstance(c, str)], n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _has_kind(value: Any, kinds: frozenset[str]) -> bool:
    """Whether a YAML value has one of the kinds; a whole number is a number, a boolean is not."""
    match value:
        case None:
            return "none" in kinds
        case bool():
            return "bool" in kinds
        case int():
            return bool(kinds & {"int", "float"})
        case float():
            return "float" in kinds
    return type(value).__name__ in kinds


def _kind_name(value: Any) -> str:
    return "text" if isinstance(value, str) else KIND_NAMES.get(type(value).__name__, "nothing this engine takes")


def _example(parameter: Parameter, value: Any) -> str:
    """What to write instead, where the value shows what was meant."""
    if parameter.kinds & {"int", "float"} and isinstance(value, str):
        number = _number(value)
        if number is None:
            return ""
        whole = "float" not in parameter.kinds
        return (
            f", {round(number) if whole else f'{number:g}'} without quotes" if _plain(value) else f", e.g. {number:g}"
        )
    if "int" in parameter.kinds and isinstance(value, float) and math.isfinite(value):
        return f", e.g. {max(1, round(value))}"
    if "bool" in parameter.kinds and isinstance(value, str) and value.lower() in ("true", "false"):
        return f", {value.lower()} without quotes"
    return ""


def _plain(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float | None:
    """The number that a text begins with, its unit counted: `10k`, `5%`, `1e-4,`."""
    found = re.match(r"\s*([-+]?[\d_]*\.?\d+(?:[eE][-+]?\d+)?)\s*([kKmM%]?)", text)
    if not found:
        return None
    try:
        number = float(found[1].replace("_", "")) * SCALES.get(found[2].lower(), 1)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
