"""What of a folder that a training wrote is taken: plain files of known names, configurations that name no code.

The training's job is over when this is done, and no later job writes there: nothing changes between look and use.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.housekeeping.disk import is_trash, remove_path

WEIGHTS = re.compile(r"(model|adapter_model)(-\d+-of-\d+)?\.safetensors(\.index\.json)?")
CONFIG, GENERATION, ADAPTER = "config.json", "generation_config.json", "adapter_config.json"
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
    "sentencepiece.model", "spm.model", "tekken.json", "video_preprocessor_config.json",
    "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
LOGS = (
    "trainer_state.json", "trainer_log.jsonl", "watch.jsonl", "pulse.json", "cost.json", "finished.json",
    "all_results.json", "train_results.json", "eval_results.json", "README.md",
)  # fmt: skip
# The engine's own leavings, which nobody needs afterwards: a pickle, and checkpoints with pickles in them.
SPENT = re.compile(r"training_args\.bin|(broken-|last-)?checkpoint-\d+")
LARGEST_TEXT = 64 << 20  # bytes
# Keys by which a configuration names code or other weights, in transformers and in peft.
CODE = (
    "auto_map", "custom_pipelines", "custom_generate", "trust_remote_code", "auto_mapping", "megatron_config",
    "attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation",
    "_experts_implementation", "transformers_weights",
)  # fmt: skip
LEFT_OUT = "left_out"
MOST_NAMES = 20


def is_plain_file(path: Path) -> bool:
    """Whether it is a regular file, no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def accept_model(folder: ExperimentFolder, base: Path) -> None:
    """What may be shown to an evaluation stays in an experiment's `model/`. Raises as `move_foreign_aside`."""
    with exclusive(folder.work / f".{LEFT_OUT}.lock"):
        move_foreign_aside(folder.model, folder.work / LEFT_OUT, base)


def move_foreign_aside(model: Path, aside: Path, base: Path) -> None:
    """Leave in `model` only what is known; what is foreign goes to `aside`. Doing it again changes nothing.

    Raises RecipeError when a configuration is broken or of another kind of model than `base`.
    """
    for path in sorted(model.iterdir()):
        if SPENT.fullmatch(path.name) or is_trash(path):
            remove_path(path)
        elif not is_known_file(path):
            move_aside(path, aside)
        elif path.stat().st_nlink > 1:
            break_hard_link(path)
    if (model / CONFIG).is_file():
        rewrite_config(model / CONFIG, lambda found: check_same_architecture(base, without_code(found)))
    if (model / GENERATION).is_file():
        rewrite_config(model / GENERATION, without_code)
    if (model / ADAPTER).is_file():
        rewrite_config(model / ADAPTER, lambda found: {**without_code(found), "base_model_name_or_path": str(base)})


def foreign_names(model: Path) -> tuple[str, ...]:
    """Names that `move_foreign_aside` will put aside, in plain letters, at most MOST_NAMES of them."""
    names = [
        p.name for p in sorted(model.iterdir()) if not (SPENT.fullmatch(p.name) or is_trash(p) or is_known_file(p))
    ]
    return tuple(ascii(name)[1:-1][:100] for name in names[:MOST_NAMES])


def is_known_file(path: Path) -> bool:
    """Whether it is a plain file that a model, or a training's own log, consists of."""
    if not is_plain_file(path):
        return False
    if WEIGHTS.fullmatch(path.name) and path.suffix == ".safetensors":
        return True
    text = path.name in (CONFIG, GENERATION, ADAPTER, *TOKENIZER, *LOGS) or WEIGHTS.fullmatch(path.name)
    return bool(text) and path.stat().st_size <= LARGEST_TEXT


def move_aside(path: Path, place: Path) -> None:
    """Move it aside, whatever it is: it is neither followed nor opened."""
    place.mkdir(parents=True, exist_ok=True)
    remove_path(place / path.name)
    path.rename(place / path.name)


def break_hard_link(path: Path) -> None:
    """A file that has a second name somewhere becomes one of its own."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.copyfile(path, part, follow_symlinks=False)
    part.replace(path)


def rewrite_config(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace a configuration that `change` changes. Raises RecipeError when it is none."""
    try:
        found = read_untrusted_json(path, LARGEST_TEXT)
        wanted = change(found)
    except (ValueError, TypeError, AttributeError) as e:
        raise RecipeError(f"training left a broken {path.name}: {e}"[:500], culprit="config") from e
    if wanted != found:
        write_json(path, wanted)


def check_same_architecture(base: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for another kind of model than the base; quantization stays only as the base has it."""
    own = json.loads((base / CONFIG).read_text(encoding="utf-8"))
    for name in ("model_type", "architectures"):
        # Old releases wrote LLaMAForCausalLM where those of today write LlamaForCausalLM.
        if own.get(name) and str(config.get(name)).casefold() != str(own[name]).casefold():
            raise ValueError(f"its {name} is {config.get(name)!r}, the base model's is {own[name]!r}")
    same = config.get("quantization_config") == own.get("quantization_config")
    return config if same else {k: v for k, v in config.items() if k != "quantization_config"}


def without_code(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without keys that name code, at every depth."""
    return {
        name: without_code(inner) if isinstance(inner, dict) else inner
        for name, inner in config.items()
        if name not in CODE or inner is None
    }
