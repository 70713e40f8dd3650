"""Base models as GGUF: converted once, by a job in a sandbox, into a folder with bfloat16 safetensors.

Only the converted folder is a base model; what quantization took away is not in it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.weights.conversion import SCRIPTS, Conversion, Progress, convert
from tuneloop.tools.weights.formats import PREFERRED, tensor_names
from tuneloop.tools.weights.trained_files import CONFIG, GENERATION, TOKENIZER

SCRIPT = SCRIPTS / "from_gguf.py"
MAGIC, SUFFIX = b"GGUF", ".gguf"
WEIGHTS = "model*.safetensors*"
BROKEN, UNKNOWN = 65, 66  # as the script has them
GROWTH = 6  # a weight of four bits becomes one of sixteen; the rest is for what is not quantized
LOST = "its quantized weights are written as bfloat16: what quantization took away stays lost"
CURE = "right is a folder as save_pretrained writes it"


def gguf_file(path: Path) -> Path | None:
    """The GGUF file that `path` is, or holds in place of other weights; None where there is none.

    Raises InvalidRequestError for a folder with several, and for a file that is none.
    """
    if path.is_dir():
        if any((path / name).is_file() for name in PREFERRED):
            return None
        found = sorted(path.glob(f"*{SUFFIX}"))
        if len(found) > 1:
            raise InvalidRequestError(f"base model {path}: {len(found)} GGUF files in it; name one, e.g. {found[0]}")
        path = found[0] if found else path
    if path.suffix != SUFFIX or not path.is_file():
        return None
    with path.open("rb") as f:
        if f.read(len(MAGIC)) != MAGIC:
            raise InvalidRequestError(
                f"base model {path}: no GGUF file: it does not begin with {MAGIC.decode()}; {CURE}"
            )
    return path


def resolve_gguf(file: Path, settings: Settings, progress: Progress) -> Path:
    """The folder with bfloat16 safetensors. Raises as `convert`."""
    conversion = Conversion(
        where=f"base model {file}",
        what=file.name,
        script=SCRIPT,
        source=file,
        weights=(file,),
        room=GROWTH * file.stat().st_size,
        take=_take,
        refusals={
            BROKEN: f"is no whole GGUF file ({file.stat().st_size} bytes); fetch it again",
            UNKNOWN: f"has an architecture or tokenizer that the engine's transformers cannot read; {CURE}",
        },
        lost=LOST,
    )
    return convert(conversion, settings, progress)


def _take(part: Path, out: Path) -> None:
    """What belongs to a model, each file looked at as a stranger's. Raises ValueError."""
    weights = sorted(out.glob(WEIGHTS))
    for file in (*weights, *(out / name for name in (CONFIG, GENERATION, *TOKENIZER))):
        if file.suffix == ".safetensors":
            tensor_names(file)
        if file.is_file():
            shutil.copyfile(file, part / file.name, follow_symlinks=False)
    if not (weights and (part / CONFIG).is_file()):
        raise ValueError("weights or config.json are missing")
