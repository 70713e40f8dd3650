"""The one alias table: other names of parameters, and names of methods with what they decide and write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Alias:
    """`parameter`: what it names or turns on; `writes`: lines of train.yaml beside those of its `decisions`."""

    parameter: str
    decisions: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_method(self) -> bool:
        """Whether it stands for a way to train, not only for a parameter's name."""
        return bool(self.decisions or self.writes)


_PARAMETERS = {
    "learning_rate": "lr learning-rate base_lr max_lr initial_lr lr_rate peak_lr learningrate",
    "per_device_train_batch_size": "batch_size train_batch_size micro_batch_size per_gpu_train_batch_size batch bs "
    "per_device_batch_size device_train_batch_size train_micro_batch_size_per_gpu micro_batch mini_batch_size",
    "per_device_eval_batch_size": "eval_batch_size per_gpu_eval_batch_size val_batch_size",
    "gradient_accumulation_steps": "grad_accum grad_accumulation_steps gradient_accumulation accumulation_steps "
    "grad_acc accumulate_grad_batches gradient_accumulation_step",
    "num_train_epochs": "epochs num_epochs epoch n_epochs max_epochs train_epochs num_epoch",
    "max_steps": "steps num_steps total_steps train_steps max_train_steps num_train_steps max_step training_steps",
    "cutoff_len": "max_seq_length max_seq_len max_length_tokens block_size sequence_len seq_length seq_len "
    "context_length model_max_length max_source_length max_target_length cutoff_length max_prompt_length "
    "cut_off_len cutoff max_tokens",
    "lora_rank": "r rank lora_r lora_dim lora_attention_dim adapter_rank",
    "lora_alpha": "alpha lora_scale lora_scaling",
    "lora_dropout": "dropout lora_drop adapter_dropout",
    "lora_target": "target_modules lora_target_modules lora_targets lora_modules lora_target_linear lora_module",
    "additional_target": "modules_to_save lora_modules_to_save",
    "finetuning_type": "finetune_type tuning_type peft_type adapter method train_type finetuning_method peft_method "
    "fine_tuning_type tuner sft_type",
    "optim": "optimizer optimizer_type optimiser optimizer_name",
    "lr_scheduler_type": "scheduler lr_scheduler scheduler_type lr_schedule lr_decay_style",
    "lr_scheduler_kwargs": "scheduler_kwargs lr_scheduler_args cosine_min_lr_ratio min_lr",
    "eval_strategy": "evaluation_strategy eval_interval_strategy",
    "save_strategy": "checkpoint_strategy",
    "eval_steps": "evaluation_steps eval_interval eval_every evals_per_epoch",
    "save_steps": "save_interval checkpoint_every save_every saves_per_epoch checkpoint_interval",
    "logging_steps": "log_steps log_interval log_every print_every logging_interval",
    "warmup_steps": "num_warmup_steps warmup lr_warmup_steps warmup_iters",
    "warmup_ratio": "warmup_proportion lr_warmup_ratio warmup_fraction",
    "max_grad_norm": "gradient_clipping clip_grad grad_clip gradient_clip_val clip_grad_norm max_gradient_norm",
    "use_cpu": "no_cuda device",
    "quantization_bit": "load_in_4bit load_in_8bit bits quant_bits quantize quantization bnb_4bit quant_bit",
    "quantization_type": "bnb_4bit_quant_type quant_type",
    "double_quantization": "bnb_4bit_use_double_quant use_double_quant double_quant",
    "model_name_or_path": "model base_model model_path model_name model_id pretrained_model_name_or_path model_dir",
    "adapter_name_or_path": "checkpoint_dir adapter_path lora_path adapter_model lora_model_dir peft_path",
    "output_dir": "save_dir out_dir output output_path save_path outdir",
    "dataset": "datasets train_dataset dataset_name train_file data_path train_data data dataset_path train_files",
    "eval_dataset": "validation_dataset valid_dataset val_dataset test_datasets validation_file eval_file",
    "val_size": "val_set_size validation_split test_size eval_ratio validation_split_percentage eval_size",
    "dataset_dir": "data_dir data_folder dataset_folder",
    "template": "chat_template prompt_template conversation_template prompt_style template_name",
    "packing": "sample_packing pack use_packing packed",
    "flash_attn": "flash_attention use_flash_attention use_flash_attn attn_implementation flash_attention_2 "
    "use_flash_attention_2 attn_impl",
    "bf16": "mixed_precision dtype torch_dtype precision amp use_bf16 bfloat16",
    "fp16": "half use_fp16 float16",
    "disable_gradient_checkpointing": "gradient_checkpointing activation_checkpointing use_gradient_checkpointing",
    "seed": "random_seed random_state rng_seed",
    "train_on_prompt": "train_on_inputs train_on_input",
    "streaming": "stream",
    "max_samples": "max_train_samples num_samples max_examples max_eval_samples",
    "dataloader_num_workers": "num_workers workers data_loader_workers",
    "preprocessing_num_workers": "dataset_processes num_proc dataset_num_proc",
    "overwrite_cache": "overwrite_cached overwrite_dataset_cache",
    "train_sampling_strategy": "group_by_length",
    "report_to": "logger logging_backend use_wandb log_to wandb_project wandb",
    "deepspeed": "deepspeed_config ds_config zero_stage deepspeed_config_file",
    "early_stopping_steps": "early_stopping_patience early_stopping patience",
    "metric_for_best_model": "best_metric monitor",
    "load_best_model_at_end": "load_best_model save_best_model keep_best",
    "neftune_noise_alpha": "neftune_alpha noise_alpha noisy_embedding_alpha",
    "weight_decay": "wd decay l2",
    "label_smoothing_factor": "label_smoothing",
    "pref_beta": "beta dpo_beta rl_beta kl_beta",
    "pref_loss": "loss_type dpo_loss dpo_loss_type preference_loss",
    "pref_ftx": "dpo_ftx sft_weight ftx",
    "stage": "task training_stage train_stage rl task_type training_type",
    "do_train": "train",
    "resume_from_checkpoint": "resume resume_checkpoint auto_resume_from_checkpoints resume_from",
    "use_rslora": "peft_use_rslora",
    "use_dora": "peft_use_dora",
    "loraplus_lr_ratio": "lora_plus_ratio lora_plus_lr_ratio loraplus_ratio",
    "freeze_trainable_layers": "num_layer_trainable trainable_layers unfreeze_layers",
    "freeze_trainable_modules": "name_module_trainable",
    "rope_scaling": "rope_type rope_scaling_type",
    "default_system": "system_prompt system system_message default_system_prompt",
    "predict_with_generate": "generate_during_eval",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "adam_epsilon": "eps epsilon adam_eps",
    "trust_remote_code": "trust_remote",
    "mask_history": "mask_past train_on_last_turn_only",
}  # fmt: skip
_LORA, _FREEZE, _FULL, _DPO = {"method": "lora"}, {"method": "freeze"}, {"method": "full"}, {"stage": "dpo"}
_4BIT, _8BIT = {"quantization": "4bit"}, {"quantization": "8bit"}
_DEEPSPEED = {"distributed": "deepspeed"}


def zero(stage: int, offload: bool = False) -> dict[str, Any]:
    """A DeepSpeed config in place; transformers fills in what is auto. `offload`: optimizer states lie in main memory.

    The optimizer is PyTorch's in all of them: DeepSpeed's own are compiled when a training begins.
    """
    sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    split: dict[str, Any] = {"stage": stage}
    if stage == 3:
        split |= {"stage3_gather_16bit_weights_on_model_save": True}
    if offload:
        split |= {"offload_optimizer": {"device": "cpu"}}
    return {
        "zero_optimization": split,
        **dict.fromkeys(sizes, "auto"),
        **{half: {"enabled": "auto"} for half in ("bf16", "fp16")},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


_METHODS: Mapping[str, Alias] = {
    "qlora": Alias("quantization_bit", _LORA | _4BIT),
    "qoft": Alias("quantization_bit", {"method": "oft"} | _4BIT),
    "dora qdora": Alias("use_dora", _LORA, {"use_dora": True}),
    "rslora rank_stabilized_lora rank_stabilised_lora": Alias("use_rslora", _LORA, {"use_rslora": True}),
    "loraplus lora_plus lora+": Alias("loraplus_lr_ratio", _LORA, {"loraplus_lr_ratio": 16.0}),
    "pissa": Alias("pissa_init", _LORA, {"pissa_init": True}),
    "longlora shift_short_attention s2_attn": Alias("shift_attn", _LORA, {"shift_attn": True}),
    "unsloth": Alias("use_unsloth", _LORA, {"use_unsloth": True}),
    "llama_pro block_expansion": Alias("use_llama_pro", _FREEZE, {"use_llama_pro": True}),
    "freeze_tuning partial_finetuning": Alias("finetuning_type", _FREEZE),
    "full_finetuning full_fine_tuning full_parameter full_tuning fft full_sft": Alias("finetuning_type", _FULL),
    "galore": Alias("use_galore", {"optimizer": "galore"}),
    "apollo": Alias("use_apollo", {"optimizer": "apollo"}),
    "badam": Alias("use_badam", {"optimizer": "badam"}),
    "adam_mini": Alias("use_adam_mini", _FULL, {"use_adam_mini": True}),
    "adamw adam": Alias("optim", {"optimizer": "standard"}),
    "muon": Alias("use_muon", _FULL, {"use_muon": True}),
    "mod": Alias("mixture_of_depths", _FULL, {"mixture_of_depths": "convert"}),
    "dft": Alias("use_dft_loss", _FULL, {"use_dft_loss": True}),
    "orpo": Alias("pref_loss", _DPO, {"pref_loss": "orpo"}),
    "simpo": Alias("pref_loss", _DPO, {"pref_loss": "simpo"}),
    "cdpo": Alias("dpo_label_smoothing", _DPO, {"dpo_label_smoothing": 0.1}),
    "direct_preference_optimization": Alias("stage", _DPO),
    "pretraining pre_training continued_pretraining continual_pretraining cpt": Alias("stage", {"stage": "pt"}),
    "reward_modeling reward_modelling": Alias("stage", {"stage": "rm"}),
    "supervised_finetuning supervised_fine_tuning instruction_tuning": Alias("stage", {"stage": "sft"}),
    "int4 nf4": Alias("quantization_bit", _4BIT),
    "float32 full_precision": Alias("tf32", {"precision": "fp32"}),
    "int8": Alias("quantization_bit", _8BIT),
    "zero2 zero_stage_2 ds_z2": Alias("deepspeed", _DEEPSPEED, {"deepspeed": zero(2)}),
    "zero3 zero_stage_3 ds_z3": Alias("deepspeed", _DEEPSPEED, {"deepspeed": zero(3)}),
    "fsdp2": Alias("fsdp", {"distributed": "fsdp"}),
    "multi_gpu torchrun": Alias("ddp_timeout", {"distributed": "ddp"}),
    "vlm mllm": Alias("image_max_pixels", {"modality": "multimodal"}),
    "neftune": Alias("neftune_noise_alpha", {}, {"neftune_noise_alpha": 5.0}),
    "liger liger_kernel": Alias("enable_liger_kernel", {}, {"enable_liger_kernel": True}),
    "fa2": Alias("flash_attn", {}, {"flash_attn": "fa2"}),
}  # fmt: skip
ALIASES: Mapping[str, Alias] = {
    **{word: Alias(name) for name, words in _PARAMETERS.items() for word in words.split()},
    **{word: alias for words, alias in _METHODS.items() for word in words.split()},
}


def squash(text: str) -> str:
    """A name without case and separators: `ZeRO-3`, `zero_3` and `zero 3` are the same."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("lora+", "loraplus"))


_SQUASHED = {squash(name): alias for name, alias in ALIASES.items()}


def alias_of(text: str) -> Alias | None:
    """What another name stands for."""
    return _SQUASHED.get(squash(text))
