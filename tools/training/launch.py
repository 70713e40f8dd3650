"""Start trainings with LLaMA-Factory: the smoke run (`smoke_run`), the full run (`train`), the offer of a stopped one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import checked, digest, digest_file, read_model, write_atomic, write_json
from tuneloop.core.frozen import Frozen
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder, job_input_file
from tuneloop.tools.config.config_text import Config, train_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finalize import finalize_config
from tuneloop.tools.config.grpo_config import as_sft, is_grpo
from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.config.memory import training_bytes
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.sharding import DDP, distribute, sharding_values
from tuneloop.tools.data_gate.report import Lengths
from tuneloop.tools.housekeeping.disk import check_room, remove_path
from tuneloop.tools.jobs.machine import ENGINES, THREADS, job_limits
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.metrics import grace_seconds
from tuneloop.tools.training.smoke_run import smoke_run_data, write_smoke_run_data

FOLDER = ENGINES / "llamafactory"
SCRIPTS = tuple(
    str(FOLDER / name)
    for name in ("train.py", "lf_watch.py", "lf_checkpoints.py", "lf_cost.py", "lf_paths.py", "lf_processes.py")
)
DISCARD = "discard"
KEY = "key"
SPLIT = "split.json"  # beside the config: how the training was split over devices when it began
# Ends from outside: by SIGKILL, by SIGTERM before the first step, and by SIGTERM with a checkpoint.
KILLED = (-9, -15, 75)


def _launch(run_tools: RunTools, folder: ExperimentFolder, name: str, out: Path, data: Path, steps: int | None) -> None:
    engine, settings = run_tools.engine("llamafactory"), run_tools.settings
    work = folder.work / name
    final = partial(
        finalize_config,
        model=run_tools.setup.model_root,
        data=data,
        output=out,
        seed=run_tools.training_seed + folder.seeds_on,
        device=run_tools.setup.device,
        steps_override=steps,
    )
    asked = train_config(folder).values
    text = final(asked)  # the same on any number of devices
    key = digest(text, digest_file(data / "data.json"), run_tools.setup.model_fingerprint, engine.identity)
    inputs = job_input_file(folder.work, name)
    if read_key(folder, name) != key:
        remove_path(out)
        (inputs / SPLIT).unlink(missing_ok=True)
    running = run_tools.status(folder.jobs, name)[0].state == "running"
    if running and (inputs / SPLIT).is_file():  # it may write its first checkpoint yet
        split = read_model(inputs / SPLIT, Split)
    else:
        split = how_to_split(run_tools, folder, inputs / SPLIT, out)
    if not running:
        (inputs / DISCARD).unlink(missing_ok=True)
    write_atomic(inputs / "config.yaml", final({**asked, **sharding_values(split.sharding)}))
    write_json(inputs / SPLIT, split.model_dump())
    write_atomic(inputs / KEY, key)
    for place in (work, out):  # after the key: an output without one is stale
        place.mkdir(parents=True, exist_ok=True)
    env = {"PATH": f"{engine.bin}:/usr/bin:/bin", "LLAMAFACTORY_VERBOSITY": "WARN", "DISABLE_VERSION_CHECK": "1"}
    limits = job_limits(settings, settings.full_timeout if steps is None else settings.smoke_run_timeout, folder.root)
    command = Command(
        argv=(str(engine.python), SCRIPTS[0], "train", str(inputs / "config.yaml")),
        cwd=str(work),
        env={**run_tools.environment(work), **engine.env, **env, **split.environment(run_tools.threads)},
        read=(*engine.readable, *SCRIPTS, str(inputs), str(data), str(run_tools.setup.model_root)),
        write=(str(out), str(work)),
        limits=limits.model_copy(update={"grace": grace_seconds(out)}),
        spans=run_tools.devices.nodes > 1,
        key=key,
    )
    retry = was_training_killed(run_tools.status(folder.jobs, name)[0])
    # Several processes import for themselves: a warm engine would be of no use.
    run_tools.launch(folder.jobs, name, command, retry=retry, worker="" if split.processes > 1 else "llamafactory")


class Split(Frozen):
    """How a training that has begun is split: the settings may say otherwise by then."""

    processes: int
    sharding: str
    asked: bool
    nodes: int = 1

    def environment(self, threads: int) -> dict[str, str]:
        """What says so to the engine; nothing where it starts a process for each GPU that it finds."""
        if self.processes == 1:
            return {"NPROC_PER_NODE": "1"} if self.asked else {}
        shared = {THREADS: str(max(1, threads // self.processes))} if threads > 1 else {}
        return {"FORCE_TORCHRUN": "1", "NPROC_PER_NODE": str(self.processes), **shared}


def how_to_split(run_tools: RunTools, folder: ExperimentFolder, kept: Path, out: Path) -> Split:
    """By what is there now; a training that has a checkpoint in `out` stays split as it is.

    Raises InfrastructureError where its checkpoints need more GPUs than there are.
    """
    case, devices = config_context(run_tools, folder), run_tools.devices
    asked = run_tools.settings.train_processes is not None
    now = Split(processes=devices.processes, sharding=case.sharding, asked=asked, nodes=devices.nodes)
    if not kept.is_file() or not any(out.glob("checkpoint-*")):
        return now
    begun = read_model(kept, Split)
    if not begun.sharding.startswith("zero"):  # whole states, which any number of processes can read
        return now.model_copy(update={"sharding": begun.sharding if now.processes * now.nodes > 1 else DDP})
    if now.processes < begun.processes or now.nodes != begun.nodes:
        was, there = (f"{one.processes}{f' on each of {one.nodes} nodes' * (one.nodes > 1)}" for one in (begun, now))
        raise InfrastructureError(
            f"the training of experiment {folder.number} is split over {was} GPUs by {begun.sharding}, and its "
            f"checkpoints cannot go on with {there}: make {was} visible, or delete {out}; then `tuneloop resume`"
        )
    return begun


def was_training_killed(status: JobStatus) -> bool:
    """Whether somebody else ended the process, or it ended on request: the recipe is not to blame, it goes on."""
    end = status.exit
    return end is not None and (end.reason == "stopped" or (end.reason == "finished" and end.code in KILLED))


def read_key(folder: ExperimentFolder, name: str) -> str:
    """The key that the output of training `name` was begun for; an output of another recipe is stale."""
    try:
        return (job_input_file(folder.work, name) / KEY).read_text()
    except FileNotFoundError:
        return ""


def start_training(run_tools: RunTools, folder: ExperimentFolder) -> str:
    """Launch the full run; returns the job's name. A killed or stopped attempt goes on from its last whole checkpoint.

    Raises InfrastructureError when checkpoints and model would not fit on the disk.
    """
    if run_tools.status(folder.jobs, "train")[0].state != "running" and not (folder.model / "pulse.json").is_file():
        check_room(
            folder.root, training_bytes(config_context(run_tools, folder)), f"training experiment {folder.number}"
        )
    _launch(run_tools, folder, "train", folder.model, folder.data, None)
    return "train"


def config_context(run_tools: RunTools, folder: ExperimentFolder) -> ConfigContext:
    """The experiment's config with everything its size depends on; of a GRPO recipe that of an SFT of the same size."""
    catalog = installed_catalog(run_tools.engine("llamafactory"))
    card, config = read_model_card(run_tools.setup.model_root), train_config(folder)
    if grpo := is_grpo(config.values):
        config = Config(as_sft(config.values))
    context = ConfigContext(config, catalog, card, run_tools.setup.device)
    return context if grpo else distribute(context, run_tools.devices, longest_row(folder))


def longest_row(folder: ExperimentFolder) -> int | None:
    """Tokens of the experiment's longest row, by its data report; None: there is none, or it does not say."""
    file = folder.data / "report.json"
    lengths = read_model(file, dict[str, Any]).get("lengths") if file.is_file() else None
    return checked(file, lengths, Lengths).longest or None if lengths else None


def start_smoke_run(run_tools: RunTools, folder: ExperimentFolder) -> str:
    """Launch a few optimizer steps on the longest and on typical rows; returns the job's name."""
    steps = write_smoke_run_data(folder, run_tools.setup.model_root / "tokenizer.json")
    _launch(run_tools, folder, "smoke_run", folder.work / "smoke_run_model", smoke_run_data(folder), steps)
    return "smoke_run"


def stop_training(run_tools: RunTools, folder: ExperimentFolder, kind: str, *, save: bool) -> None:
    """Ask a training to end after the step at hand; with `save` it leaves a checkpoint there. Returns at once."""
    out = folder.model if kind == "train" else folder.work / "smoke_run_model"
    if not save:
        write_atomic(job_input_file(folder.work, kind) / DISCARD, "")
    run_tools.stop(folder.jobs, kind, grace_seconds(out))


def start_mark_complete(run_tools: RunTools, folder: ExperimentFolder, last: int) -> None:
    """Launch what makes the newest whole checkpoint at or before step `last` the experiment's model."""
    engine, work = run_tools.engine("llamafactory"), folder.work / "offer"
    work.mkdir(parents=True, exist_ok=True)
    command = Command(
        argv=(str(engine.python), SCRIPTS[2], "offer", str(folder.model), str(last)),
        cwd=str(work),
        env={**run_tools.environment(work), **engine.env},
        read=(*engine.readable, SCRIPTS[2]),
        write=(str(folder.model), str(work)),
        limits=job_limits(run_tools.settings, run_tools.settings.full_timeout, folder.root),
        key=digest(read_key(folder, "train"), str(last)),
    )
    run_tools.launch(folder.jobs, "offer", command)


def mark_complete_status(run_tools: RunTools, folder: ExperimentFolder) -> JobStatus:
    """State of that job; exit status 3: no whole checkpoint is old enough."""
    return run_tools.status(folder.jobs, "offer")[0]
