"""Base models as GGUF: converted once, by a job in a sandbox, into a folder with bfloat16 safetensors.

Only the converted folder is a base model; what quantization took away is not in it.
"""

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
from tuneloop.sandboxes.jobs import is_disk_full, launch, log_tail, wait
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.housekeeping.disk import check_room, remove_path
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.weights.fingerprints import cached_digest
from tuneloop.tools.weights.formats import PREFERRED, tensor_names
from tuneloop.tools.weights.trained_files import CONFIG, GENERATION, TOKENIZER

Progress = Callable[[str, int, int], None]
SCRIPT = ENGINES / "llamafactory" / "from_gguf.py"
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
    """The converted folder, made when it is not there yet; a conversion that runs or was interrupted is gone on with.

    Raises InvalidRequestError for a file that cannot be converted, InfrastructureError for a full disk or too little memory.
    """
    memory = settings.home.cache / "digests" if settings.enable_cache else None
    key = digest(cached_digest(file, memory), digest_file(SCRIPT))
    folder = settings.home.models / "converted" / f"{file.stem}-{key[:16]}"
    return make_complete(folder, partial(_convert, file, settings, progress, key), keep=True, lost=LOST)


def _convert(file: Path, settings: Settings, progress: Progress, key: str, part: Path) -> None:
    engine = ensure_engine("llamafactory", settings, progress)
    out, jobs = part / "out", part / "jobs"
    out.mkdir(exist_ok=True)
    check_room(out, GROWTH * file.stat().st_size, f"base model {file} as safetensors")
    sandbox = open_run_sandbox("auto", settings.unsandboxed)
    job = launch(sandbox, jobs, "convert", _command(engine, file, out, settings, key), retry=True)
    end = wait(sandbox, job, lambda: progress(f"converting {file.name}", 0, 1))
    if not end.ok:
        full = is_disk_full(log_tail(job))
        for left in (out, jobs):
            remove_path(left)
        raise _failure(file, engine, end, full)
    try:
        _take(out, part)
    except ValueError as e:
        raise InvalidRequestError(f"base model {file}: its converted weights are none: {e}; {CURE}") from e
    finally:
        for left in (out, jobs):
            remove_path(left)
    progress(f"converted {file.name}: {LOST}", 1, 1)


def _command(engine: Engine, file: Path, out: Path, settings: Settings, key: str) -> Command:
    """It reads one file, has no network, and writes one folder."""
    own = {"HOME": str(out), "HF_HOME": str(out / "hf"), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    quiet = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "TQDM_DISABLE": "1"}
    return Command(
        argv=(str(engine.python), str(SCRIPT), str(file), str(out)),
        cwd=str(out),
        env={"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", **own, **quiet, **engine.env},
        read=(*engine.readable, str(SCRIPT), str(file), str(file.resolve())),
        write=(str(out),),
        generated=True,
        limits=job_limits(settings, settings.full_timeout, out),
        key=key,
    )


def _failure(file: Path, engine: Engine, end: Exit, disk_full: bool) -> InvalidRequestError | InfrastructureError:
    """Why there is no copy, in one line; nothing of what the job printed is in it."""
    where = f"base model {file}"
    if disk_full or end.reason == "disk":
        return InfrastructureError(f"{where}: the disk became full while it was converted; free some, then again")
    if end.reason == "memory":
        return InfrastructureError(f"{where}: converting it took more memory than a job may use; {CURE}")
    if end.reason == "finished" and end.code == BROKEN:
        return InvalidRequestError(f"{where}: {file.stat().st_size} bytes are no whole GGUF file; fetch it again")
    if end.reason == "finished" and end.code == UNKNOWN:
        version = engine.packages.get("transformers", "")
        return InvalidRequestError(
            f"{where}: a GGUF of an architecture or tokenizer that transformers {version} cannot read; {CURE}"
        )
    return InvalidRequestError(f"{where}: it could not be converted ({end.reason}, exit status {end.code}); {CURE}")


def _take(out: Path, part: Path) -> None:
    """What belongs to a model, each file looked at as a stranger's. Raises ValueError."""
    weights = sorted(out.glob(WEIGHTS))
    for file in (*weights, *(out / name for name in (CONFIG, GENERATION, *TOKENIZER))):
        if file.suffix == ".safetensors":
            tensor_names(file)
        if file.is_file():
            shutil.copyfile(file, part / file.name, follow_symlinks=False)
    if not (weights and (part / CONFIG).is_file()):
        raise ValueError("weights or config.json are missing")
