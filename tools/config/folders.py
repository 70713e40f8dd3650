"""Folders and files that a config names: the model, adapters, checkpoints, the output, configs of DeepSpeed and FSDP."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import DamagedFileError
from tuneloop.core.files import read_text
from tuneloop.tools.config.config_text import (
    LARGEST_FILE,
    ConfigError,
    UnreadableError,
    json_value,
    parse_config,
    read_object,
)
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem

WEIGHTS = (
    *("adapter_model.safetensors", "adapter_model.bin", "model.safetensors.index.json", "model.safetensors"),
    *("pytorch_model.bin.index.json", "pytorch_model.bin"),
)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
NO_FILES = ("/proc", "/sys")
# What a config of DeepSpeed says again, and must say alike.
AGAIN = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
}


def check_places(s: ConfigContext) -> Iterator[KeyProblem]:
    """Every place that is missing, taken or no such thing; a run sets its places itself."""
    if s.in_run:
        return
    yield from _model(s)
    yield from _other_models(s)
    yield from _output(s)
    yield from _resume(s)
    yield from _tokenized(s)
    yield from _configs(s)


def is_hub_name(text: str) -> bool:
    """Whether it would be taken for a model of a hub, where no folder has that name."""
    return bool(HUB_NAME.fullmatch(text)) and not text.startswith(".")


def _model(s: ConfigContext) -> Iterator[KeyProblem]:
    name = s.get("model_name_or_path")
    known = s.model.folder != Path()
    if not name:
        if not known:
            yield "error", "model_name_or_path", "is missing: write the folder of a model"
    elif not known and not s.path(name).is_dir():
        if is_hub_name(name) and not s.path(name).exists():
            yield "warning", "model_name_or_path", f"no folder {name} is here; it would be fetched from the hub"
        else:
            yield "error", "model_name_or_path", f"{s.path(name)} is no folder; write the folder of a model"


def _other_models(s: ConfigContext) -> Iterator[KeyProblem]:
    for key in ("ref_model", "reward_model"):
        name = s.get(key)
        if isinstance(name, str) and name and not s.path(name).is_dir() and not is_hub_name(name) and "://" not in name:
            yield "error", key, f"{s.path(name)} is no folder; write the folder of a model"
    name = s.get("generation_config")
    if isinstance(name, str) and name and not s.path(name).exists() and not is_hub_name(name):
        yield (
            "error",
            "generation_config",
            f"{s.path(name)} is not here; write a generation_config.json, or leave it out",
        )
    for key in s.set("cache_dir", "offload_folder"):
        if wrong := _check_writable(s.path(str(s.get(key)))):
            yield "error", key, wrong
    if s.set("media_dir") and not (media := s.path(str(s.get("media_dir")))).is_dir():
        yield "warning", "media_dir", f"{media} is no folder: images, videos and audios are not found there"


def _output(s: ConfigContext) -> Iterator[KeyProblem]:
    name = s.get("output_dir")
    if name is None:
        yield "error", "output_dir", "is missing: the engine would write into ./trainer_output; name a folder"
        return
    path = s.path(name)
    if not name or (wrong := _check_writable(path)):
        yield "error", "output_dir", wrong if name else "is empty; name a folder"
        return
    model = s.get("model_name_or_path")
    if isinstance(model, str) and model and path.resolve() == s.path(model).resolve():
        yield "error", "output_dir", "is the model's own folder, whose weights would be overwritten; name another"
        return
    if path.resolve() == (s.data or s.path(str(s.get("dataset_dir")))).resolve():
        yield "error", "output_dir", "is dataset_dir, the folder of the data; name another"
        return
    if path.is_dir() and s.trains and not s.set("overwrite_output_dir") and s.get("resume_from_checkpoint") is None:
        yield from _check_output_taken(s, path)
    yield from _room(s, path)


def _check_writable(path: Path) -> str:
    if any(path.is_relative_to(root) for root in NO_FILES):
        return f"{path} is no place for files; name another folder"
    for parent in (path, *path.parents):
        if parent.exists():
            if not parent.is_dir():
                return f"{parent} is a file, not a folder; name another"
            return "" if os.access(parent, os.W_OK) else f"{parent} cannot be written to; name another folder"
    return ""


def _check_output_taken(s: ConfigContext, path: Path) -> Iterator[KeyProblem]:
    """A folder with weights and no checkpoint is refused; one of a finished training is trained on and overwritten."""
    newest = newest_checkpoint(path)
    if newest is None:
        if weights := next((name for name in WEIGHTS if (path / name).is_file()), None):
            yield (
                "error",
                "output_dir",
                f"{path} holds {weights} already; name another, or add overwrite_output_dir: true",
            )
    elif wrong := missing_checkpoint_parts(newest):
        yield "error", "output_dir", f"would be resumed from {newest.name}, {wrong}; remove it or name another folder"
    elif (path / "train_results.json").is_file() and not _has_more_steps(s, newest):
        yield (
            "error",
            "output_dir",
            f"{path} holds a finished training, which would be resumed and overwritten; name another",
        )


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint with the highest number, as the engine picks it."""
    found = [
        (int(match[1]), p)
        for p in folder.iterdir()
        if p.is_dir() and (match := re.fullmatch(r"checkpoint-(\d+)", p.name))
    ]
    return max(found)[1] if found else None


def missing_checkpoint_parts(checkpoint: Path) -> str:
    """What a checkpoint lacks to be resumed as if nothing had happened; empty when nothing."""
    if not any((checkpoint / name).is_file() for name in WEIGHTS):
        return "which holds no weights"
    lacking = [
        name for name in ("trainer_state.json", "optimizer.pt", "scheduler.pt") if not (checkpoint / name).is_file()
    ]
    return f"which lacks {lacking[0]}" if lacking else ""


def _has_more_steps(s: ConfigContext, checkpoint: Path) -> bool:
    """Whether the config asks for more steps than the finished training made."""
    try:
        state = read_object(checkpoint / "trainer_state.json")
    except UnreadableError:
        return False
    if not isinstance(state, Mapping):
        return False
    steps = s.get("max_steps")
    if steps > 0:
        return bool(steps > state.get("global_step", 0))
    return bool(s.get("num_train_epochs") > (state.get("epoch") or 0) + 0.5)


def _room(s: ConfigContext, path: Path) -> Iterator[KeyProblem]:
    from tuneloop.tools.config.memory import checkpoint_bytes, saved_model_bytes

    if not s.model.shape.linears or not s.trains:
        return
    need = saved_model_bytes(s) + (checkpoint_bytes(s) if s.get("save_strategy") != "no" else 0)
    at = next(parent for parent in (path, *path.parents) if parent.exists())
    if (free := shutil.disk_usage(at).free) < need:
        yield (
            "error",
            "output_dir",
            f"{at} has {free / (1 << 30):.1f} GiB free and about {need / (1 << 30):.1f} are needed; name another",
        )


def _resume(s: ConfigContext) -> Iterator[KeyProblem]:
    value, out = s.get("resume_from_checkpoint"), s.get("output_dir")
    if value is True:
        folder = s.path(str(out)) if out else None
        if folder is None or not folder.is_dir() or newest_checkpoint(folder) is None:
            yield "error", "resume_from_checkpoint", "is true and output_dir holds no checkpoint; leave it out"
    elif isinstance(value, str):
        path = s.path(value)
        if not path.is_dir():
            yield "error", "resume_from_checkpoint", f"{path} is no folder; write a checkpoint's, or leave it out"
        elif wrong := missing_checkpoint_parts(path):
            yield "error", "resume_from_checkpoint", f"names {path}, {wrong}; write a whole checkpoint"


def _tokenized(s: ConfigContext) -> Iterator[KeyProblem]:
    if not s.set("tokenized_path"):
        return
    path = s.path(str(s.get("tokenized_path")))
    if path.is_file():
        yield "error", "tokenized_path", f"{path} is a file; name a folder"
    elif path.is_dir() and any(path.iterdir()):
        if not any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json", "state.json")):
            yield (
                "error",
                "tokenized_path",
                f"{path} holds no tokenized data; name an empty folder, or that of such data",
            )
    elif s.set("streaming"):
        yield "error", "tokenized_path", "is not there yet, and streaming cannot save it; leave one of them out"
    elif wrong := _check_writable(path):
        yield "error", "tokenized_path", wrong


def _configs(s: ConfigContext) -> Iterator[KeyProblem]:
    for key in ("deepspeed", "fsdp_config", "accelerator_config", "new_special_tokens_config"):
        value = s.get(key)
        if not isinstance(value, str) or not value or (key == "fsdp_config" and not s.set("fsdp")):
            continue
        if value.startswith("{") and key != "new_special_tokens_config":
            continue  # JSON, looked at with the other mappings
        if not s.path(value).is_file():
            yield "error", key, f"{s.path(value)} is no file"
        elif key != "new_special_tokens_config" and not isinstance(json_value(value, s.here), Mapping):
            yield "error", key, f"{value[:80]} is no JSON mapping"
        elif key == "new_special_tokens_config" and not _is_mapping(s.path(value)):
            yield "error", key, f"{s.path(value)} is no YAML mapping of tokens to descriptions"
    yield from _deepspeed(s)
    yield from _fsdp(s)


def _is_mapping(path: Path) -> bool:
    try:
        return bool(parse_config(read_text(path, LARGEST_FILE)).values)
    except (ConfigError, DamagedFileError):
        return False


def _deepspeed(s: ConfigContext) -> Iterator[KeyProblem]:
    given = json_value(s.get("deepspeed"), s.here)
    if not isinstance(given, Mapping) or not given:
        return
    for theirs, ours in AGAIN.items():
        value: Any = given.get(theirs, "auto")
        if isinstance(value, int | float) and value != s.get(ours):
            yield "error", "deepspeed", f"{theirs} is {value} there and {ours} is {s.get(ours)} here; write auto there"
    for name in ("fp16", "bf16"):
        part = given.get(name)
        value = part.get("enabled", "auto") if isinstance(part, Mapping) else "auto"
        if isinstance(value, bool) and value != bool(s.set(name)):
            yield "error", "deepspeed", f"{name} is {str(value).lower()} there and not here; write auto there"
    if not s.in_run:
        yield "note", "deepspeed", "needs torchrun: start with FORCE_TORCHRUN=1"


def _fsdp(s: ConfigContext) -> Iterator[KeyProblem]:
    value = s.get("fsdp")
    names = value if isinstance(value, list) else str(value).split() if isinstance(value, str) else []
    if names == ["offload"]:
        yield "error", "fsdp", "offload alone shards nothing; write full_shard offload"
    elif "full_shard" in names and "shard_grad_op" in names:
        yield "error", "fsdp", "full_shard cannot go with shard_grad_op; keep one of them"
    if names and s.set("deepspeed"):
        yield "error", "fsdp", "cannot go with deepspeed; leave one of them out"
