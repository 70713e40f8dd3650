"""Models and adapters whose weights are pickled: unpickled in a sandbox, written as safetensors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tuneloop.core.files import read_json, write_json
from tuneloop.core.settings import Settings
from tuneloop.tools.weights.conversion import CURE, SCRIPTS, Conversion, Progress, convert
from tuneloop.tools.weights.formats import INDEX, pickled_files, tensor_names
from tuneloop.tools.weights.trained_files import ADAPTER, CONFIG, GENERATION, TOKENIZER

SCRIPT = SCRIPTS / "to_safetensors.py"
FOREIGN = 65  # as the script has it
MARGIN = 64 << 20
Take = Callable[[Path, Path, Path], None]  # of what was made for a source: into a folder, from where it was made
WEIGHTS, PICKLED = "adapter_model.safetensors", "adapter_model.bin"


def resolve_pickled(model: Path, settings: Settings, progress: Progress) -> Path:
    """The model's folder with safetensors: itself, or the copy. Raises as `convert`."""
    weights = tuple(pickled_files(model))
    if not weights:
        return model
    beside = (CONFIG, GENERATION, *TOKENIZER, INDEX)
    return convert(_conversion("base model", model, weights, beside, _take_model), settings, progress)


def resolve_adapter(adapter: Path, settings: Settings, progress: Progress) -> Path:
    """The adapter's folder with safetensors: itself, or the copy where it has `adapter_model.bin` alone. Raises as `convert`."""
    pickled = adapter / PICKLED
    if (adapter / WEIGHTS).is_file() or not pickled.is_file():
        return adapter
    return convert(
        _conversion("adapter", adapter, (pickled,), (ADAPTER, *TOKENIZER), _take_adapter), settings, progress
    )


def _conversion(kind: str, source: Path, weights: tuple[Path, ...], beside: tuple[str, ...], take: Take) -> Conversion:
    what = weights[0].name if len(weights) == 1 else "*.bin"
    return Conversion(
        where=f"{kind} {source}",
        what=what,
        script=SCRIPT,
        source=source,
        weights=weights,
        others=tuple(source / name for name in beside if (source / name).is_file()),
        room=2 * sum(file.stat().st_size for file in weights) + MARGIN,  # shared tensors are not shared any more
        take=partial(take, source),
        refusals={FOREIGN: f"holds something else than weights (a pickle can hold code); {CURE}"},
    )


def _take_model(source: Path, part: Path, out: Path) -> None:
    """Weights, an index over them where there are several, and the other files. Raises ValueError."""
    where: dict[str, str] = {}
    names = [file.name.removeprefix("pytorch_").removesuffix(".bin") + ".safetensors" for file in pickled_files(source)]
    for name in names:
        tensors = tensor_names(out / name)
        if twice := where.keys() & set(tensors):
            raise ValueError(f"{min(twice)[:100]!r} is in two files")
        where |= dict.fromkeys(tensors, name)
        shutil.copyfile(out / name, part / name, follow_symlinks=False)
    if (source / INDEX).is_file() and set(read_json(source / INDEX)["weight_map"]) != where.keys():
        raise ValueError(f"{INDEX} names others")
    if len(names) > 1:
        total = sum((part / name).stat().st_size for name in names)
        write_json(part / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})
    _copy(source, part, (CONFIG, GENERATION, *TOKENIZER))


def _take_adapter(source: Path, part: Path, out: Path) -> None:
    tensor_names(out / WEIGHTS)
    shutil.copyfile(out / WEIGHTS, part / WEIGHTS, follow_symlinks=False)
    _copy(source, part, (ADAPTER, *TOKENIZER))


def _copy(source: Path, part: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, part / name)
