"""Start trainings with LLaMA-Factory: the micro-run (`rehearse`), the full run (`train`), the offer of a stopped one."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.files import digest, write_atomic
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder, given
from tuneloop.tools.disk import check_room, remove
from tuneloop.tools.limits import job_limits
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.disk import training_bytes
from tuneloop.tools.params.finalize import finalize
from tuneloop.tools.params.installed import installed_catalog
from tuneloop.tools.params.model_card import read_model_card
from tuneloop.tools.params.situation import Situation
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.rehearsed import sample, write_sample
from tuneloop.tools.watching import grace
from tuneloop.tools.workbench import Workbench

FOLDER = ENGINES / "llamafactory"
SCRIPTS = tuple(str(FOLDER / name) for name in ("train.py", "lf_watch.py", "lf_checkpoints.py", "lf_cost.py"))
DISCARD = "discard"
KEY = "key"
# Ends from outside: by SIGKILL, by SIGTERM before the first step, and by SIGTERM with a checkpoint.
KILLED = (-9, -15, 75)


def _launch(bench: Workbench, folder: ExperimentFolder, name: str, out: Path, data: Path, steps: int | None) -> None:
    engine, settings = bench.engine("llamafactory"), bench.settings
    work = folder.work / name
    text = finalize(
        folder.config.read_text(),
        model=bench.setup.model_root,
        data=data,
        output=out,
        seed=bench.spec.seed + folder.seeds_on,
        device=bench.setup.device,
        steps_override=steps,
    )
    key = digest(text, (data / "data.json").read_bytes(), bench.setup.model_fingerprint, engine.identity)
    inputs = given(folder.work, name)
    if read_key(folder, name) != key:
        remove(out)
    if bench.status(folder.jobs, name)[0].state != "running":
        (inputs / DISCARD).unlink(missing_ok=True)
    write_atomic(inputs / "config.yaml", text)
    write_atomic(inputs / KEY, key)
    for place in (work, out):  # after the key: an output without one is stale
        place.mkdir(parents=True, exist_ok=True)
    env = {"PATH": f"{engine.bin}:/usr/bin:/bin", "LLAMAFACTORY_VERBOSITY": "WARN", "DISABLE_VERSION_CHECK": "1"}
    limits = job_limits(settings, settings.full_timeout if steps is None else settings.rehearsal_timeout, folder.root)
    command = Command(
        argv=(str(engine.python), SCRIPTS[0], "train", str(inputs / "config.yaml")),
        cwd=str(work),
        env={**bench.environment(work), **engine.env, **env},
        read=(*engine.readable, *SCRIPTS, str(inputs), str(data), str(bench.setup.model_root)),
        write=(str(out), str(work)),
        limits=limits.model_copy(update={"grace": grace(out)}),
        key=key,
    )
    retry = was_killed(bench.status(folder.jobs, name)[0])
    bench.launch(folder.jobs, name, command, retry=retry, worker="llamafactory")


def was_killed(status: JobStatus) -> bool:
    """Whether somebody else ended the process, or it ended on request: the recipe is not to blame, it goes on."""
    end = status.exit
    return end is not None and (end.reason == "stopped" or (end.reason == "finished" and end.code in KILLED))


def read_key(folder: ExperimentFolder, name: str) -> str:
    """The key that the output of training `name` was begun for; an output of another recipe is stale."""
    try:
        return (given(folder.work, name) / KEY).read_text()
    except FileNotFoundError:
        return ""


def start_training(bench: Workbench, folder: ExperimentFolder) -> str:
    """Launch the full run; returns the job's name. A killed or stopped attempt goes on from its last whole checkpoint.

    Raises WorldError when checkpoints and model would not fit on the disk.
    """
    if bench.status(folder.jobs, "train")[0].state != "running" and not (folder.model / "pulse.json").is_file():
        check_room(folder.root, training_bytes(situation(bench, folder)), f"training experiment {folder.number}")
    _launch(bench, folder, "train", folder.model, folder.data, None)
    return "train"


def situation(bench: Workbench, folder: ExperimentFolder) -> Situation:
    """The experiment's config with everything its size depends on."""
    catalog = installed_catalog(bench.engine("llamafactory"))
    card = read_model_card(bench.setup.model_root)
    return Situation(parse_config(folder.config.read_text()), catalog, card, bench.setup.device)


def start_rehearsal(bench: Workbench, folder: ExperimentFolder) -> str:
    """Launch a few optimizer steps on the longest and on typical rows; returns the job's name."""
    steps = write_sample(folder, bench.setup.model_root / "tokenizer.json")
    _launch(bench, folder, "rehearse", folder.work / "rehearsal_model", sample(folder), steps)
    return "rehearse"


def stop_training(bench: Workbench, folder: ExperimentFolder, kind: str, *, save: bool) -> None:
    """Ask a training to end after the step at hand; with `save` it leaves a checkpoint there. Returns at once."""
    out = folder.model if kind == "train" else folder.work / "rehearsal_model"
    if not save:
        write_atomic(given(folder.work, kind) / DISCARD, "")
    bench.stop(folder.jobs, kind, grace(out))


def start_offer(bench: Workbench, folder: ExperimentFolder, last: int) -> None:
    """Launch what makes the newest whole checkpoint at or before step `last` the experiment's model."""
    engine, work = bench.engine("llamafactory"), folder.work / "offer"
    work.mkdir(parents=True, exist_ok=True)
    command = Command(
        argv=(str(engine.python), SCRIPTS[2], "offer", str(folder.model), str(last)),
        cwd=str(work),
        env={**bench.environment(work), **engine.env},
        read=(*engine.readable, SCRIPTS[2]),
        write=(str(folder.model), str(work)),
        limits=job_limits(bench.settings, bench.settings.full_timeout, folder.root),
        key=digest(read_key(folder, "train"), str(last)),
    )
    bench.launch(folder.jobs, "offer", command)


def offer_status(bench: Workbench, folder: ExperimentFolder) -> JobStatus:
    """State of that job; exit status 3: no whole checkpoint is old enough."""
    return bench.status(folder.jobs, "offer")[0]
