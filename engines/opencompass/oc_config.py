"""The OpenCompass configuration of one model on one file of items: plain data, printed as Python."""

from __future__ import annotations

import json
import pprint
from pathlib import Path
from typing import Any

DATASET = "items"
COLUMN, GOLD = "tuneloop_prompt", "tuneloop_gold"
# Without this OpenCompass appends an empty system turn, and every prompt ends with one more newline.
CHAT = {
    "round": [{"role": "HUMAN", "api_role": "HUMAN"}, {"role": "BOT", "api_role": "BOT", "generate": True}],
    "reserved_roles": [{"role": "SYSTEM", "api_role": "SYSTEM"}],
}


def config_text(job: dict[str, Any], model: dict[str, Any], items: Path, work: Path) -> str:
    """Source of the configuration file."""
    parts = {"datasets": [dataset(job, items)], "models": [weights(job, model)], "work_dir": str(work)}
    parts["infer"] = stage("OpenICLInferTask")
    parts["eval"] = stage("OpenICLEvalTask")
    return "\n".join(f"{name} = {pprint.pformat(value, width=110)}" for name, value in parts.items()) + "\n"


def dataset(job: dict[str, Any], items: Path) -> dict[str, Any]:
    """Items, how they are asked, how they are scored."""
    turn = {"round": [{"role": "HUMAN", "prompt": f"{{{COLUMN}}}"}]}
    return {
        "abbr": DATASET,
        "type": "CustomDataset",
        "path": str(items),
        "reader_cfg": {"input_columns": [COLUMN], "output_column": GOLD},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": turn},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "GenInferencer", "max_out_len": job["max_new_tokens"]},
        },
        "eval_cfg": {
            "evaluator": {"type": "TuneloopEvaluator", "answer_kind": job["answer_kind"], "scoring": job["scoring"]}
        },
    }


def weights(job: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """One model; float32 on CPU, the checkpoint's own type on a GPU."""
    cpu = job["device"] == "cpu"
    chat = has_chat_template(Path(model["tokenizer"]))
    return {
        "abbr": model["name"],
        "type": "TuneloopChat" if chat else "TuneloopBase",
        **({"meta_template": CHAT} if chat else {}),
        "path": model["path"],
        "tokenizer_path": model["tokenizer"],
        "peft_path": model["adapter"],
        "model_kwargs": {"dtype": "float32" if cpu else "auto", "device_map": "cpu" if cpu else "auto"},
        "max_out_len": job["max_new_tokens"],
        "max_seq_len": longest(Path(model["path"])),
        "batch_size": job["batch_size"],
        "run_cfg": {"num_gpus": 0 if cpu else 1},
    }


def stage(task: str) -> dict[str, Any]:
    """One stage, one process."""
    runner = {"type": "LocalRunner", "max_num_workers": 1, "task": {"type": task}}
    return {"partitioner": {"type": "NaivePartitioner"}, "runner": runner}


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
