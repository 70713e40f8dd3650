"""OpenCompass's configuration of a model and of a set of items: plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COLUMN, GOLD = "tuneloop_prompt", "tuneloop_gold"
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
# Without this OpenCompass appends an empty system turn, and every prompt ends with one more newline.
CHAT = {
    "round": [{"role": "HUMAN", "api_role": "HUMAN"}, {"role": "BOT", "api_role": "BOT", "generate": True}],
    "reserved_roles": [{"role": "SYSTEM", "api_role": "SYSTEM"}],
}


def dataset_config(job: dict[str, Any], given: dict[str, Any], items: Path) -> dict[str, Any]:
    """A set's items, how they are asked, how they are scored."""
    turn = {"round": [{"role": "HUMAN", "prompt": f"{{{COLUMN}}}"}]}
    return {
        "abbr": given["name"],
        "type": "CustomDataset",
        "path": str(items),
        "reader_cfg": {"input_columns": [COLUMN], "output_column": GOLD},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": turn},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer", "max_out_len": given["max_new_tokens"]},
        },
        "eval_cfg": {
            "evaluator": {
                "type": "TuneloopEvaluator",
                "answer_kind": given["answer_kind"],
                "scorer": given["scorer"],
                "scoring": job["scoring"],
                "judging": job["judging"],
                "files": given["files"],
            }
        },
    }


def model_config(job: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """One model as it is built; float32 on CPU, the checkpoint's own type on a GPU."""
    if model.get("replies"):
        return {"abbr": model["name"], "type": "TuneloopReplies", "path": model["replies"]}
    cpu = job["device"] == "cpu"
    chat = has_chat_template(Path(model["tokenizer"]))
    kinds = {"hf": ("TuneloopBase", "TuneloopChat"), "vllm": ("TuneloopVLLMBase", "TuneloopVLLMChat")}
    return {
        "abbr": model["name"],
        "type": kinds[job["backend"]][chat],
        **({"meta_template": CHAT} if chat else {}),
        "path": model["path"],
        "tokenizer_path": model["tokenizer"],
        "peft_path": model["adapter"],
        "model_kwargs": {"dtype": "float32" if cpu else "auto", "device_map": "cpu" if cpu else "auto"},
        "rows": job["batch_size"],
        "again": model["again"],
        "rank": model["rank"],
        "seed": job["seed"],
        "max_seq_len": min(longest(Path(model["path"])), job["longest"] or 1 << 62),
    }


def asked_config(model: dict[str, Any], count: int) -> dict[str, Any]:
    """The built model as the tasks see it: it gets all `count` items at once and makes the batches itself.

    Without a `max_seq_len` no prompt is counted beforehand, which only serves to drop examples, and there are none.
    """
    return {"abbr": model["name"], "batch_size": count}


def has_chat_template(tokenizer: Path) -> bool:
    """Whether the tokenizer's folder brings a chat template."""
    if any((tokenizer / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    return bool(json.loads((tokenizer / "tokenizer_config.json").read_text()).get("chat_template"))


def longest(model: Path) -> int:
    """Tokens of prompt and answer together, from the model's own configuration."""
    values = json.loads((model / "config.json").read_text())
    values = {**values, **values.get("text_config", {})}
    for key in ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length"):
        if isinstance(values.get(key), int):
            return int(values[key])
    raise ValueError(f"{model / 'config.json'}: names no longest sequence (max_position_embeddings)")


def vllm_options(
    path: str, tokenizer: str, dtype: str, longest: int, rank: int, seed: int, gpus: int = 1
) -> dict[str, Any]:
    """Arguments of `vllm.LLM`; `rank`: the largest of the adapters to come, 0 without any. Raises ValueError above 512.

    `gpus`: what the model is spread over.

    The type is named because vLLM's own choice would make float32 checkpoints half precision.
    """
    options: dict[str, Any] = {
        "model": path,
        "tokenizer": tokenizer,
        "dtype": dtype.removeprefix("torch."),
        "max_model_len": longest,
        "seed": seed,
        "load_format": "safetensors",
        "trust_remote_code": False,
    }
    if rank:
        options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": allowed_rank(rank)}
    if gpus > 1:
        options["tensor_parallel_size"] = tensor_parallel(path, gpus)
    return options


def tensor_parallel(path: str, gpus: int) -> int:
    """The largest number of GPUs up to `gpus` that vLLM can spread the attention heads over; says where that is fewer."""
    values = json.loads((Path(path) / "config.json").read_text())
    values = {**values, **values.get("text_config", {})}
    heads = values["num_attention_heads"]
    shared = values.get("num_key_value_heads") or heads
    fitting = (n for n in range(gpus, 0, -1) if heads % n == 0 and (shared % n == 0 or n % shared == 0))
    count = next(fitting)
    if count < gpus:
        print(f"{count} GPUs instead of {gpus}: {heads} attention heads ({shared} of keys) divide by it", flush=True)
    return count


def allowed_rank(rank: int) -> int:
    """The smallest rank that vLLM knows and that holds `rank`."""
    for known in LORA_RANKS:
        if rank <= known:
            return known
    raise ValueError(f"an adapter of rank {rank}: vLLM holds at most {LORA_RANKS[-1]}")
