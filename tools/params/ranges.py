"""Sensible ranges of numeric parameters: outside is an error, and the sentence names what is usual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

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
