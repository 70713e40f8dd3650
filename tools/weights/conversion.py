"""Give a base model whose weights are pickled a copy in safetensors: unpickled in a sandbox, looked at outside."""

from __future__ import annotations

import shutil
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, digest_file, read_json, write_json
from tuneloop.core.job import Command, Exit, JobStatus
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import launch
from tuneloop.tools.engines import Engine
from tuneloop.tools.housekeeping.disk import check_room, remove_path
from tuneloop.tools.hub.models import ModelFolder
from tuneloop.tools.hub.store import MANIFEST, fingerprint, make_complete
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.jobs.run_tools import AT_IMPORT, RunTools
from tuneloop.tools.weights.formats import INDEX, pickled_files, tensor_names
from tuneloop.tools.weights.trained_files import CONFIG, GENERATION, TOKENIZER

SCRIPT = ENGINES / "llamafactory" / "to_safetensors.py"
JOB = "convert"
FOREIGN = 65  # as the script has it
MARGIN = 64 << 20
CURE = "right is weights as *.safetensors, as save_pretrained writes them"


def conversion_folder(settings: Settings, model: ModelFolder) -> Path:
    """Where the copy lies, for all runs: named after what is converted, and by what."""
    key = digest(fingerprint(model.root), digest_file(SCRIPT))
    return settings.home.models / "converted" / f"{model.root.name}-{key[:16]}"


def is_converted(place: Path) -> bool:
    """Whether the copy is whole."""
    return (place / MANIFEST).is_file()


def start_conversion(run_tools: RunTools, engine: Engine, model: ModelFolder) -> None:
    """Launch it; doing it again changes nothing. It reads the weights, no network, and writes one folder.

    Raises InvalidRequestError in the `process` sandbox without the user's word: unpickling runs what a stranger wrote.
    """
    weights, out = pickled_files(model.root), _out(run_tools)
    if not out.is_dir():  # what an earlier job left there is gone: its end proves nothing
        for job in _jobs(run_tools).glob(f"{JOB}.*"):
            remove_path(job)
    room = 2 * sum(file.stat().st_size for file in weights) + MARGIN  # tensors that were shared are not any more
    out.mkdir(parents=True, exist_ok=True)
    check_room(out, room, f"base model {model.name} as safetensors")
    command = Command(
        argv=(str(engine.python), str(SCRIPT), str(model.root), str(out)),
        cwd=str(out),
        env={**AT_IMPORT, **engine.env, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": str(out)},
        # a hub's own cache has links to its files
        read=(*engine.readable, str(SCRIPT), str(model.root), *(str(file.resolve()) for file in weights)),
        write=(str(out),),
        generated=True,
        limits=job_limits(run_tools.settings, run_tools.settings.full_timeout, out).model_copy(update={"disk": room}),
        key=conversion_folder(run_tools.settings, model).name,
    )
    launch(run_tools.sandbox, _jobs(run_tools), JOB, command, retry=True)


def conversion_status(run_tools: RunTools) -> JobStatus:
    """State of the conversion."""
    return run_tools.status(_jobs(run_tools), JOB)[0]


def stop_conversion(run_tools: RunTools) -> None:
    """End it."""
    run_tools.stop(_jobs(run_tools), JOB)


def conversion_proof(run_tools: RunTools) -> Path | None:
    """The file by which it will say that it is over."""
    return run_tools.proof(_jobs(run_tools), JOB)


def take_converted(run_tools: RunTools, model: ModelFolder) -> Path:
    """The copy, whole, once the job is over. Raises InvalidRequestError when it holds something else than weights."""
    end = conversion_status(run_tools).exit
    if end is None or not end.ok:
        raise conversion_failure(run_tools, model, end)
    try:
        made = make_complete(
            conversion_folder(run_tools.settings, model),
            lambda part: write_converted(part, _out(run_tools), model.root),
        )
    except ValueError as e:
        raise InvalidRequestError(f"base model {model.root}: its converted weights are none: {e}; {CURE}") from e
    remove_path(_out(run_tools))
    return made


def conversion_failure(
    run_tools: RunTools, model: ModelFolder, end: Exit | None
) -> InvalidRequestError | InfrastructureError:
    """Why there is no copy, in one line; nothing of what the job printed is in it."""
    where = f"base model {model.root}"
    if end is not None and end.ok is False and end.reason == "memory":
        return InfrastructureError(f"{where}: converting its *.bin took more memory than a job may use; {CURE}")
    if end is not None and end.reason == "finished" and end.code == FOREIGN:
        return InvalidRequestError(
            f"{where}: its *.bin hold something else than weights (a pickle can hold code); {CURE}"
        )
    how = f"{end.reason}, exit status {end.code}" if end else "it was lost"
    return InvalidRequestError(f"{where}: its *.bin could not be converted ({how}, see {_jobs(run_tools)}); {CURE}")


def write_converted(part: Path, out: Path, source: Path) -> None:
    """Converted weights, an index over them where there are several, and the other files. Raises ValueError."""
    where: dict[str, str] = {}
    names = [file.name.removeprefix("pytorch_").removesuffix(".bin") + ".safetensors" for file in pickled_files(source)]
    for name in names:
        tensors = tensor_names(out / name)
        if twice := where.keys() & set(tensors):
            raise ValueError(f"{min(twice)[:100]!r} is in two files")
        where |= dict.fromkeys(tensors, name)
        shutil.copyfile(out / name, part / name, follow_symlinks=False)
    check_index(source, where)
    if len(names) > 1:
        total = sum((part / name).stat().st_size for name in names)
        write_json(part / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})
    for name in (CONFIG, GENERATION, *TOKENIZER):
        if (source / name).is_file():
            shutil.copyfile(source / name, part / name)


def check_index(source: Path, where: dict[str, str]) -> None:
    """Raises ValueError where the model's own index names other tensors than were found."""
    if (source / INDEX).is_file() and set(read_json(source / INDEX)["weight_map"]) != where.keys():
        raise ValueError(f"{INDEX} names others")


def _jobs(run_tools: RunTools) -> Path:
    return run_tools.run.baseline / "jobs"


def _out(run_tools: RunTools) -> Path:
    return run_tools.run.baseline / "work" / JOB
