"""Adapters whose weights are pickled: converted once, by a job in a sandbox, into a folder with safetensors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.jobs.run_tools import AT_IMPORT
from tuneloop.tools.weights.conversion import CURE, FOREIGN, MARGIN, SCRIPT
from tuneloop.tools.weights.fingerprints import cached_digest
from tuneloop.tools.weights.formats import tensor_names
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
    return make_complete(folder, partial(_convert, adapter, settings, progress, key))


def _convert(adapter: Path, settings: Settings, progress: Progress, key: str, part: Path) -> None:
    engine = ensure_engine("llamafactory", settings, progress)
    out, jobs = part / "out", part / "jobs"
    out.mkdir(exist_ok=True)
    room = 2 * (adapter / PICKLED).stat().st_size + MARGIN  # tensors that were shared are not any more
    check_room(out, room, f"adapter {adapter} as safetensors")
    sandbox = open_run_sandbox("auto", settings.unsandboxed)
    job = launch(sandbox, jobs, "convert", _command(engine, adapter, out, settings, key), retry=True)
    end = wait(sandbox, job, lambda: progress(f"converting {PICKLED}", 0, 1))
    try:
        if not end.ok:
            raise _failure(adapter, end)
        tensor_names(out / WEIGHTS)
        shutil.copyfile(out / WEIGHTS, part / WEIGHTS, follow_symlinks=False)
    except ValueError as e:
        raise InvalidRequestError(f"adapter {adapter}: its converted weights are none: {e}; {CURE}") from e
    finally:
        for left in (out, jobs):
            remove_path(left)
    for name in (ADAPTER, *TOKENIZER):
        if (adapter / name).is_file():
            shutil.copyfile(adapter / name, part / name)


def _command(engine: Engine, adapter: Path, out: Path, settings: Settings, key: str) -> Command:
    """It reads the adapter, has no network, and writes one folder."""
    pickled = adapter / PICKLED
    return Command(
        argv=(str(engine.python), str(SCRIPT), str(adapter), str(out)),
        cwd=str(out),
        env={**AT_IMPORT, **engine.env, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": str(out)},
        read=(*engine.readable, str(SCRIPT), str(adapter), str(pickled.resolve())),
        write=(str(out),),
        generated=True,
        limits=job_limits(settings, settings.full_timeout, out),
        key=key,
    )


def _failure(adapter: Path, end: Exit) -> InvalidRequestError | InfrastructureError:
    """Why there is no copy, in one line; nothing of what the job printed is in it."""
    where = f"adapter {adapter}"
    if end.reason == "memory":
        return InfrastructureError(f"{where}: converting its {PICKLED} took more memory than a job may use; {CURE}")
    if end.reason == "finished" and end.code == FOREIGN:
        return InvalidRequestError(
            f"{where}: its {PICKLED} holds something else than weights (a pickle can hold code); {CURE}"
        )
    return InvalidRequestError(
        f"{where}: its {PICKLED} was not converted ({end.reason}, exit status {end.code}); {CURE}"
    )
