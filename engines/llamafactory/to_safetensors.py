"""Write pickled weights anew as safetensors: `python to_safetensors.py SOURCE OUT`.

Each `pytorch_model*.bin` or `adapter_model.bin` of SOURCE becomes one file in OUT, there when it is whole, with the same
tensors under the same names. Only plain tensors are unpickled. Exit status 65: a file holds something else.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file

PICKLED = re.compile(r"(?:pytorch_(model)|(adapter_model))(-\d+-of-\d+)?\.bin")
FOREIGN = 65  # EX_DATAERR


def main(source: Path, out: Path) -> None:
    """Every file in order of its name; what is written already is written again."""
    for file in sorted(source.iterdir()):
        if name := PICKLED.fullmatch(file.name):
            convert(file, out / f"{name[1] or name[2]}{name[3] or ''}.safetensors")


def convert(file: Path, target: Path) -> None:
    """One file. Ends the process when it holds something else than tensors by name."""
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
        mine = dict(own(tensors))
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001 - whatever a stranger's file makes of the reader
        print(f"{file.name} holds something else than weights: {type(e).__name__}", flush=True)
        raise SystemExit(FOREIGN) from None
    part = target.with_name(f".{target.name}.part")
    save_file(mine, part, metadata={"format": "pt"})
    part.replace(target)


def own(tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor with memory of its own: the form knows no shared ones. Raises TypeError."""
    seen: set[int] = set()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise TypeError(name)
        plain = tensor.detach().contiguous()
        memory = plain.untyped_storage()
        shared = memory.data_ptr() in seen or memory.nbytes() != plain.numel() * plain.element_size()
        seen.add(memory.data_ptr())
        yield name, plain.clone() if shared else plain


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
