"""Which parameter matters for which decisions: a table that gives every parameter a group, and every group its reason.

A parameter of an owner class that is in no group is kept and called new, so that a later release loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Weight = Literal["needed", "useful", "aside"]
When = Mapping[str, tuple[str, ...]]

# At most so many parameters of a combination: what is needed stays, details and then what is useful fill the room, in order.
MOST = 70


@dataclass(frozen=True)
class Group:
    """`names` and everything of `owners` that begins with one of `starts`. `when`: decision → values, all must hold."""

    why: str
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    when: When = field(default_factory=dict)
    weight: Weight = "needed"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Of what is needed: refinements whose defaults serve nearly always. Where several large groups meet the last go first.
DETAILS = _names(
    "top_k temperature do_sample quantization_type double_quantization eval_steps buffer_size additional_target "
    "create_new_adapter ref_model_adapters ppo_score_norm ppo_whiten_rewards ppo_target apollo_scale galore_scale "
    "image_min_pixels video_min_pixels use_audio_in_video audio_sampling_rate pref_bco_weight dpo_label_smoothing "
    "apollo_proj apollo_proj_type apollo_layerwise galore_proj_type galore_layerwise badam_update_ratio badam_start_block "
    "ld_alpha reward_model_quantization_bit ref_model_quantization_bit image_do_pan_and_scan crop_to_patches "
    "init_special_tokens new_special_tokens_config master_addr master_port ray_init_kwargs pissa_convert pissa_iter "
    "loraplus_lr_embedding apollo_scale_type apollo_scale_front badam_mask_mode badam_verbose"
)
STANDARD: When = {"optimizer": ("standard",)}
FULL: When = {"method": ("full",), "optimizer": ("standard",)}

GROUPS: tuple[Group, ...] = (
    # What every training says.
    Group(
        "names model, data or output", _names("model_name_or_path dataset dataset_dir eval_dataset output_dir template")
    ),
    Group("says what is trained", _names("stage finetuning_type do_train")),
    Group(
        "core of every training",
        _names(
            "learning_rate num_train_epochs per_device_train_batch_size gradient_accumulation_steps lr_scheduler_type "
            "warmup_steps warmup_ratio optim max_grad_norm"
        ),
    ),
    Group(
        "core of every data set",
        _names("cutoff_len max_samples val_size overwrite_cache preprocessing_num_workers dataloader_num_workers"),
    ),
    Group("evaluation while training", _names("eval_strategy eval_steps per_device_eval_batch_size")),
    Group(
        "logging, saving and going on",
        _names(
            "logging_steps save_steps save_only_model plot_loss report_to overwrite_output_dir resume_from_checkpoint "
            "ddp_timeout trust_remote_code"
        ),
    ),
    # The method.
    Group("method lora", owners=("LoraArguments",), when={"method": ("lora",)}),
    Group("an adapter to start from", _names("adapter_name_or_path"), when={"method": ("lora", "oft"), **STANDARD}),
    Group("method freeze", owners=("FreezeArguments",), when={"method": ("freeze",)}),
    Group("expanded blocks (LLaMA Pro)", _names("use_llama_pro"), when={"method": ("freeze",)}),
    Group("method oft", owners=("OFTArguments",), when={"method": ("oft",)}),
    Group("modules and adapters beside oft", _names("additional_target create_new_adapter"), when={"method": ("oft",)}),
    Group(
        "losses and models for full fine-tuning",
        _names("use_dft_loss use_asft_loss asft_alpha use_eaft_loss eaft_alpha"),
        when={"stage": ("sft",), "method": ("full", "freeze"), **STANDARD},
    ),
    Group("full fine-tuning with another optimizer", _names("use_adam_mini use_muon"), when=FULL),
    Group("full fine-tuning of another architecture", _names("mixture_of_depths use_v1_kernels"), when=FULL),
    # Quantization.
    Group(
        "quantized base model",
        _names("quantization_bit quantization_method"),
        when={"quantization": ("4bit", "8bit")},
    ),
    Group("4-bit form", _names("quantization_type double_quantization"), when={"quantization": ("4bit",)}),
    # The optimizer.
    Group("optimizer apollo", owners=("ApolloArguments",), when={"optimizer": ("apollo",)}),
    Group("optimizer badam", owners=("BAdamArgument",), when={"optimizer": ("badam",)}),
    Group("optimizer galore", owners=("GaloreArguments",), when={"optimizer": ("galore",)}),
    # Devices.
    Group("splits the model by ZeRO", _names("deepspeed"), when={"distributed": ("deepspeed",)}),
    Group("splits the model by FSDP", _names("fsdp fsdp_config"), when={"distributed": ("fsdp",)}),
    Group("several devices", _names("ddp_find_unused_parameters"), when={"distributed": ("ddp",)}),
    Group(
        "several devices under Ray",
        _names("ray_num_workers ray_init_kwargs master_addr master_port"),
        when={"distributed": ("ddp",), **STANDARD},
    ),
    Group(
        "FP8 on newest accelerators",
        _names("fp8 fp8_backend fp8_enable_fsdp_float8_all_gather use_fast_tokenizer do_eval"),
        when={"distributed": ("deepspeed", "fsdp"), "precision": ("bf16",), **FULL},
    ),
    Group(
        "experts on the CPU (KTransformers)",
        _names("use_kt"),
        when={"method": ("lora",), "quantization": ("none",), "distributed": ("single", "fsdp"), **STANDARD},
    ),
    # Numbers.
    Group("precision bf16", _names("bf16"), when={"precision": ("bf16",)}),
    Group("precision fp16", _names("fp16"), when={"precision": ("fp16",)}),
    Group("precision pure_bf16", _names("pure_bf16"), when={"precision": ("pure_bf16",)}),
    Group("precision fp32", _names("tf32"), when={"precision": ("fp32",)}),
    # Records.
    Group("data strategy streaming", _names("streaming buffer_size max_steps"), when={"data_strategy": ("streaming",)}),
    Group("data strategy packing", _names("packing neat_packing"), when={"data_strategy": ("packing",)}),
    Group("pre-training packs records", _names("packing"), when={"stage": ("pt",)}),
    Group("images, video and audio", owners=("ProcessorArguments",), when={"modality": ("multimodal",)}),
    Group(
        "parts of a multimodal model",
        _names("freeze_vision_tower freeze_multi_modal_projector freeze_language_model media_dir"),
        when={"modality": ("multimodal",)},
    ),
    Group("keeps tokenized data", _names("tokenized_path"), when=STANDARD),
    Group(
        "new tokens",
        _names("add_tokens add_special_tokens new_special_tokens_config init_special_tokens resize_vocab"),
        when={"quantization": ("none",), **STANDARD},
    ),
    # Stages.
    Group(
        "predicting instead of training",
        _names("do_predict predict_with_generate"),
        when={"stage": ("sft",), **STANDARD},
    ),
    Group(
        "stage dpo",
        _names("pref_beta pref_ftx pref_loss pref_bco_weight dpo_label_smoothing simpo_gamma ld_alpha"),
        when={"stage": ("dpo",)},
    ),
    Group("stage kto", _names("pref_beta pref_ftx kto_chosen_weight kto_rejected_weight"), when={"stage": ("kto",)}),
    Group("stage ppo", owners=("RLHFArguments",), starts=("ppo_", "reward_model"), when={"stage": ("ppo",)}),
    Group(
        "the reference model",
        _names("ref_model ref_model_adapters ref_model_quantization_bit"),
        when={"stage": ("dpo", "kto", "ppo")},
    ),
    Group(
        "answers drawn while training",
        _names("max_new_tokens top_k top_p temperature do_sample"),
        when={"stage": ("ppo",)},
    ),
    # Useful, in order, while there is room.
    Group(
        "often set",
        _names("max_steps flash_attn disable_gradient_checkpointing weight_decay seed save_strategy"),
        weight="useful",
    ),
    Group(
        "advised with a quantized model",
        _names("upcast_layernorm"),
        when={"quantization": ("4bit", "8bit")},
        weight="useful",
    ),
    Group(
        "advised with several devices",
        _names("ddp_find_unused_parameters"),
        when={"distributed": ("fsdp",)},
        weight="useful",
    ),
    Group(
        "keeps the best checkpoint",
        _names("load_best_model_at_end metric_for_best_model early_stopping_steps save_total_limit"),
        when={"stage": ("sft", "pt", "dpo", "kto")},
        weight="useful",
    ),
    Group(
        "which tokens count, and noise on them",
        _names("neftune_noise_alpha train_on_prompt mask_history"),
        when={"stage": ("sft",)},
        weight="useful",
    ),
    Group("does the evaluation", _names("do_eval"), weight="useful"),
    Group("mixes data sets", _names("mix_strategy interleave_probs"), weight="useful"),
    Group("spends less memory or time", _names("enable_liger_kernel rope_scaling"), weight="useful"),
    Group("spends less memory or time", _names("use_unsloth"), when={"method": ("lora",)}, weight="useful"),
    # Known, and of no use for deciding about a training.
    Group(
        "speaks to a hub or holds a token",
        _names(
            "hf_hub_token ms_hub_token om_hub_token push_to_hub hub_token hub_private_repo hub_model_id hub_strategy "
            "hub_always_push hub_revision push_to_hub_model_id push_to_hub_organization push_to_hub_token model_revision "
            "cache_dir"
        ),
        weight="aside",
    ),
    Group("exporting a model", owners=("ExportArguments",), weight="aside"),
    Group("serving a model", owners=("VllmArguments", "SGLangArguments"), weight="aside"),
    Group("serving a model", _names("infer_backend infer_dtype offload_folder use_kv_cache use_cache"), weight="aside"),
    Group("generating text", owners=("GeneratingArguments",), weight="aside"),
    Group(
        "generating text",
        _names("generation_max_length generation_num_beams generation_config eval_num_beams sortish_sampler"),
        weight="aside",
    ),
    Group("sending figures to a tracker", owners=("SwanLabArguments",), weight="aside"),
    Group(
        "sending figures to a tracker",
        _names("run_name project trackio_space_id trackio_bucket_id trackio_static_space_id logging_dir"),
        weight="aside",
    ),
    Group("profiling and debugging", owners=("ProfilerArguments",), weight="aside"),
    Group(
        "profiling and debugging",
        _names(
            "debug print_param_status skip_memory_metrics log_level log_level_replica log_on_each_node disable_tqdm "
            "include_num_input_tokens_seen include_tokens_per_second include_effective_tokens_per_second "
            "tpu_metrics_debug compute_accuracy"
        ),
        weight="aside",
    ),
    Group("other parameters of a group that is not chosen", owners=("RayArguments", "Fp8Arguments"), weight="aside"),
    Group(
        "other parameters of a group that is not chosen",
        owners=("KTransformersArguments", "RLHFArguments"),
        weight="aside",
    ),
    Group("other parameters of a group that is not chosen", owners=("QuantizationArguments",), weight="aside"),
    Group(
        "another back end",
        _names("use_mca use_hyper_parallel hyper_parallel_args train_from_scratch use_v1_kernels"),
        weight="aside",
    ),
    Group(
        "set by the engine",
        _names("compute_dtype device_map model_max_length block_diag_attn label_names"),
        weight="aside",
    ),
    Group(
        "replaced by another parameter",
        _names(
            "gradient_checkpointing use_liger_kernel no_cuda evaluation_strategy group_by_length adafactor fp16_backend "
            "half_precision_backend fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap per_gpu_train_batch_size "
            "per_gpu_eval_batch_size include_inputs_for_metrics use_legacy_prediction_loop torchdynamo mp_parameters "
            "save_safetensors past_index fp16_opt_level jit_mode_eval use_ipex use_mps_device ray_scope tpu_num_cores local_rank"
        ),
        weight="aside",
    ),
    Group(
        "rarely changed",
        _names(
            "adapter_folder use_fast_tokenizer split_special_tokens low_cpu_mem_usage shift_attn mixture_of_depths "
            "use_unsloth_gc moe_aux_loss_coef use_reentrant_gc upcast_layernorm upcast_lmhead_output "
            "ignore_pad_token_for_loss eval_on_each_dataset tool_format default_system enable_thinking "
            "preserve_thinking data_shared_file_system disable_shuffling preprocessing_batch_size mode"
        ),
        weight="aside",
    ),
    Group("rarely changed", owners=("TrainingArguments", "Seq2SeqTrainingArguments"), weight="aside"),
)
