"""Weights that are no safetensors: converted once for all runs, by a job in a sandbox; what it made is looked at outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, digest_file
from tuneloop.core.job import Command, Exit
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.sandboxes.jobs import is_disk_full, launch, log_tail, stop_and_wait, wait
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.housekeeping.disk import check_room, remove_path
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.jobs.run_tools import AT_IMPORT
from tuneloop.tools.weights.fingerprints import cached_digest
from tuneloop.tools.weights.formats import check_architecture
from tuneloop.tools.weights.trained_files import CONFIG

Progress = Callable[[str, int, int], None]
SCRIPTS = ENGINES / "llamafactory"
CURE = "right is weights as *.safetensors, as save_pretrained writes them"


@dataclass(frozen=True)
class Conversion:
    """What is converted, and how.

    `where`: as errors call it. `what`: its weights, as they call those. `script SOURCE OUT` makes the weights; `others` are
    files that the copy takes as they are. `room`: bytes that it may need. `take(part, out)` puts what was made in `out` into
    `part`, and raises ValueError where that is not as it should be. `refusals`: what a status at the script's end says.
    `lost`: what the copy has not, for its manifest.
    """

    where: str
    what: str
    script: Path
    source: Path
    weights: tuple[Path, ...]
    room: int
    take: Callable[[Path, Path], None]
    refusals: Mapping[int, str]
    others: tuple[Path, ...] = ()
    lost: str = ""


def convert(conversion: Conversion, settings: Settings, progress: Progress) -> Path:
    """The folder with safetensors, made when it is not there yet; a conversion that runs or was interrupted is gone on with.

    Raises InvalidRequestError for what cannot be converted, or not without a sandbox; InfrastructureError for a full disk or
    too little memory.
    """
    memory = settings.home.cache / "digests" if settings.enable_cache else None
    prints = [cached_digest(file, memory) for file in conversion.weights]
    key = digest(*prints, *map(digest_file, conversion.others), digest_file(conversion.script))
    source = conversion.source
    name = source.name if source.is_dir() else source.stem
    facts = {"lost": conversion.lost} if conversion.lost else {}
    folder = settings.home.models / "converted" / f"{name}-{key[:16]}"
    return make_complete(folder, partial(_convert, conversion, settings, progress, key), keep=True, **facts)


def _convert(conversion: Conversion, settings: Settings, progress: Progress, key: str, part: Path) -> None:
    engine = ensure_engine("llamafactory", settings, progress)
    if (conversion.source / CONFIG).is_file():
        check_architecture(conversion.source, engine)
    out, jobs = part / "out", part / "jobs"
    out.mkdir(exist_ok=True)
    check_room(out, conversion.room, f"{conversion.where} as safetensors")
    sandbox = open_run_sandbox("auto", settings.unsandboxed)
    job = launch(sandbox, jobs, "convert", _command(conversion, engine, settings, out, key), retry=True)
    try:
        end = wait(sandbox, job, lambda: progress(f"converting {conversion.what}", 0, 1))
    except BaseException:
        stop_and_wait(sandbox, job)
        raise
    try:
        if not end.ok:
            raise _failure(conversion, end, log_tail(job))
        conversion.take(part, out)
    except BaseException as e:
        for left in part.iterdir():
            remove_path(left)
        if isinstance(e, ValueError):
            raise InvalidRequestError(f"{conversion.where}: its converted weights are none: {e}; {CURE}") from e
        raise
    for left in (jobs, out):
        remove_path(left)
    if conversion.lost:
        progress(f"converted {conversion.what}: {conversion.lost}", 1, 1)


def _command(conversion: Conversion, engine: Engine, settings: Settings, out: Path, key: str) -> Command:
    """It reads the weights, has no network, and writes one folder."""
    source = conversion.source
    limits = job_limits(settings, settings.full_timeout, out)
    own = {"HOME": str(out), "HF_HOME": str(out / "hf"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    # a hub's own cache has links to its files
    read = (conversion.script, source, *(file.resolve() for file in conversion.weights))
    return Command(
        argv=(str(engine.python), str(conversion.script), str(source), str(out)),
        cwd=str(out),
        env={"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", **AT_IMPORT, **engine.env, **own},
        read=(*engine.readable, *map(str, read)),
        write=(str(out),),
        generated=True,
        limits=limits.model_copy(update={"disk": conversion.room}),
        key=key,
    )


def _failure(conversion: Conversion, end: Exit, log: str) -> InvalidRequestError | InfrastructureError:
    """Why there is no copy, in one line; nothing of what the job printed is in it."""
    about = f"{conversion.where}: its {conversion.what}"
    if end.reason == "disk" or is_disk_full(log):
        return InfrastructureError(f"{about}: the disk became full while it was converted; free some, then again")
    if end.reason == "memory":
        return InfrastructureError(f"{about}: converting it took more memory than a job may use; {CURE}")
    if end.reason == "finished" and end.code in conversion.refusals:
        return InvalidRequestError(f"{about} {conversion.refusals[end.code]}")
    return InvalidRequestError(f"{about} could not be converted ({end.reason}, exit status {end.code}); {CURE}")
