"""Adapters and models whose weights are pickled, for evaluations: converted once, by a job in a sandbox, into safetensors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, digest_file
from tuneloop.core.job import Command, Exit
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.housekeeping.disk import check_room, remove_path
from tuneloop.tools.hub.models import ModelFolder
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.jobs.run_tools import AT_IMPORT
from tuneloop.tools.weights.conversion import CURE, FOREIGN, MARGIN, SCRIPT, conversion_folder, write_converted
from tuneloop.tools.weights.fingerprints import cached_digest
from tuneloop.tools.weights.formats import pickled_files, tensor_names
from tuneloop.tools.weights.trained_files import ADAPTER, TOKENIZER

Progress = Callable[[str, int, int], None]
WEIGHTS, PICKLED = "adapter_model.safetensors", "adapter_model.bin"


def resolve_adapter(adapter: Path, settings: Settings, progress: Progress) -> Path:
    """The folder with safetensors: itself, or the copy that is made where it has `adapter_model.bin` alone.

    Raises InvalidRequestError for a file that holds something else than weights, InfrastructureError for too little memory.
    """
    pickled = adapter / PICKLED
    if (adapter / WEIGHTS).is_file() or not pickled.is_file():
        return adapter
    memory = settings.home.cache / "digests" if settings.enable_cache else None
    own = [digest_file(adapter / name) for name in (ADAPTER, *TOKENIZER) if (adapter / name).is_file()]
    key = digest(cached_digest(pickled, memory), *own, digest_file(SCRIPT))
    folder = settings.home.models / "converted" / f"{adapter.name}-{key}"
    source = _Source(f"adapter {adapter}", adapter, (pickled,), key, _take_adapter)
    return make_complete(folder, partial(_convert, source, settings, progress))


def resolve_pickled_model(model: ModelFolder, settings: Settings, progress: Progress) -> Path:
    """The model's folder with safetensors: itself, or the copy, which runs take as well. Raises as `resolve_adapter`."""
    weights = tuple(pickled_files(model.root))
    if not weights:
        return model.root
    folder = conversion_folder(settings, model)
    source = _Source(f"base model {model.root}", model.root, weights, folder.name, write_converted)
    return make_complete(folder, partial(_convert, source, settings, progress))


@dataclass(frozen=True)
class _Source:
    """What is converted: `where` as errors call it; `take(part, out, root)` puts what was made in `out` into `part`."""

    where: str
    root: Path
    weights: tuple[Path, ...]
    key: str
    take: Callable[[Path, Path, Path], None]

    @property
    def files(self) -> str:
        """Names of the weights, as errors call them."""
        return self.weights[0].name if len(self.weights) == 1 else "*.bin"


def _convert(source: _Source, settings: Settings, progress: Progress, part: Path) -> None:
    engine = ensure_engine("llamafactory", settings, progress)
    out, jobs = part / "out", part / "jobs"
    out.mkdir(exist_ok=True)
    room = 2 * sum(file.stat().st_size for file in source.weights) + MARGIN  # shared tensors are not shared any more
    check_room(out, room, f"{source.where} as safetensors")
    sandbox = open_run_sandbox("auto", settings.unsandboxed)
    job = launch(sandbox, jobs, "convert", _command(engine, source, out, settings), retry=True)
    end = wait(sandbox, job, lambda: progress(f"converting {source.files}", 0, 1))
    try:
        if not end.ok:
            raise _failure(source, end)
        source.take(part, out, source.root)
    except ValueError as e:
        raise InvalidRequestError(f"{source.where}: its converted weights are none: {e}; {CURE}") from e
    finally:
        for left in (out, jobs):
            remove_path(left)


def _take_adapter(part: Path, out: Path, adapter: Path) -> None:
    tensor_names(out / WEIGHTS)
    shutil.copyfile(out / WEIGHTS, part / WEIGHTS, follow_symlinks=False)
    for name in (ADAPTER, *TOKENIZER):
        if (adapter / name).is_file():
            shutil.copyfile(adapter / name, part / name)


def _command(engine: Engine, source: _Source, out: Path, settings: Settings) -> Command:
    """It reads the weights, has no network, and writes one folder."""
    return Command(
        argv=(str(engine.python), str(SCRIPT), str(source.root), str(out)),
        cwd=str(out),
        env={**AT_IMPORT, **engine.env, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": str(out)},
        read=(*engine.readable, str(SCRIPT), str(source.root), *(str(file.resolve()) for file in source.weights)),
        write=(str(out),),
        generated=True,
        limits=job_limits(settings, settings.full_timeout, out),
        key=source.key,
    )


def _failure(source: _Source, end: Exit) -> InvalidRequestError | InfrastructureError:
    """Why there is no copy, in one line; nothing of what the job printed is in it."""
    where, files = source.where, source.files
    if end.reason == "memory":
        return InfrastructureError(f"{where}: converting its {files} took more memory than a job may use; {CURE}")
    if end.reason == "finished" and end.code == FOREIGN:
        return InvalidRequestError(
            f"{where}: its {files} holds something else than weights (a pickle can hold code); {CURE}"
        )
    return InvalidRequestError(f"{where}: its {files} was not converted ({end.reason}, exit status {end.code}); {CURE}")
