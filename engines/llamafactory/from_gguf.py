"""Write a GGUF file anew as an ordinary model folder: `python from_gguf.py FILE OUT`.

Weights are dequantized and written as bfloat16 safetensors, beside the configuration, tokenizer and chat template that the
file holds. Exit status 65: the file is no whole GGUF; 66: its architecture or tokenizer is none that transformers reads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

import gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

BROKEN, UNKNOWN = 65, 66
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
LOADED_WITH = ("local_files_only", "is_local", "gguf_file")  # transformers keeps these as if they were the tokenizer's


def main(file: Path, out: Path) -> None:
    """Ends the process with a status of its own for a file that cannot be converted; nothing of the file is printed."""
    try:
        read = gguf.GGUFReader(file)
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001 - whatever a stranger's file makes of the reader
        end(BROKEN, e)
    gguf.GGUFReader = lambda *_: read  # transformers reads the file three times, and a vocabulary takes seconds
    given: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        AutoConfig.from_pretrained(file.parent, **given)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **given)
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001 - transformers has no error of its own for it
        end(UNKNOWN, e)
    model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.bfloat16, **given)
    set_special_tokens(tokenizer, read)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


def set_special_tokens(tokenizer: Any, read: Any) -> None:
    """As the file says: transformers takes the token that begins a text for the one that ends it."""
    for name, said in SPECIAL.items():
        field = read.fields.get(f"tokenizer.ggml.{said}_token_id")
        if field is not None:
            setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(int(field.contents())))
    for name in (*LOADED_WITH, *(f"{name}_id" for name in SPECIAL)):
        tokenizer.init_kwargs.pop(name, None)


def end(status: int, error: Exception) -> NoReturn:
    """Leave with `status`."""
    print(f"cannot be converted: {type(error).__name__}", flush=True)
    raise SystemExit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
