"""What a key that is no parameter of this release was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tuneloop.tools.config.aliases import alias_of
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.decisions import method_named

# Keys that this release takes no more, and what became of them.
GONE: Mapping[str, str] = {
    "save_safetensors": "weights are always safetensors; leave it out",
    "include_inputs_for_metrics": "was removed; write include_for_metrics: [inputs]",
    "include_tokens_per_second": "was removed; write include_num_input_tokens_seen: true",
    "past_index": "was removed; leave it out",
    "jit_mode_eval": "was removed; leave it out",
    "use_ipex": "was removed; leave it out",
    "fp16_opt_level": "was removed; leave it out",
    "fp16_backend": "was removed; leave it out",
    "half_precision_backend": "was removed; leave it out",
    "use_legacy_prediction_loop": "was removed; leave it out",
    "torchdynamo": "was removed; write torch_compile: true",
    "ray_scope": "was removed; leave it out",
    "tpu_num_cores": "was removed; leave it out",
    "fsdp_min_num_params": "belongs into fsdp_config",
    "fsdp_transformer_layer_cls_to_wrap": "belongs into fsdp_config as transformer_layer_cls_to_wrap",
    "use_mps_device": "was removed; leave it out",
    "dispatch_batches": "belongs into accelerator_config",
    "split_batches": "belongs into accelerator_config",
    "eval_do_sample": "is no parameter of a training; leave it out",
    "do_sample_eval": "is no parameter of a training; leave it out",
    "grpo_beta": "belongs to GRPO, which this release does not have; leave it out",
    "num_generations": "belongs to GRPO, which this release does not have; leave it out",
    "reward_funcs": "belongs to GRPO, which this release does not have; leave it out",
}


def parameter_named(name: str, catalog: Catalog) -> str | None:
    """The parameter of that name, of that alias, or that turns the method of that name on."""
    plain = name.strip().strip("-").lower().replace("-", "_").replace(" ", "_").replace(".", "_")
    if plain in catalog.parameters:
        return plain
    alias = method_named(plain) or alias_of(plain)
    return alias.parameter if alias and alias.parameter in catalog.parameters else None


def closest_name(name: str, catalog: Catalog) -> str | None:
    """The parameter that was probably meant."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), catalog.parameters, n=1, cutoff=0.7)
    return parameter_named(name, catalog) or next(iter(near), None)


def unknown_key(name: str, value: Any, catalog: Catalog) -> str:
    """What is wrong with a key that is no parameter, and what would be right."""
    if name in GONE:
        return f"is no parameter of this release: {GONE[name]}"
    near = closest_name(name, catalog)
    if isinstance(value, dict) and near is None:
        return "is no parameter of this release; its keys are written at the left margin, one a line"
    return f"is no parameter of this release{f'; did you mean {near}?' if near else '; leave it out'}"
