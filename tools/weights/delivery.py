"""Make the candidate a whole model folder, an adapter merged into its base; it becomes `best/` when it is delivered."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.files import digest, digest_file, fsync_path, write_atomic
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder, RunFolder, job_input_file
from tuneloop.tools.config.config_text import dump_config, engine_config, readable_train_config
from tuneloop.tools.config.grpo_config import is_grpo
from tuneloop.tools.housekeeping.disk import TRASH, check_room, remove_path, unfinished_removals
from tuneloop.tools.hub.store import MANIFEST, write_manifest
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.launch import SCRIPTS
from tuneloop.tools.weights.trained_files import (
    CONFIG,
    GENERATION,
    LEFT_OUT,
    TOKENIZER,
    is_plain_file,
    move_foreign_aside,
)

MARGIN = 64 << 20
MODEL = re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?")


def is_adapter(model: Path) -> bool:
    """Whether a trained folder holds an adapter, not a whole model."""
    return (model / "adapter_config.json").is_file()


def start_merge(run_tools: RunTools, folder: ExperimentFolder) -> str:
    """Launch the engine's own merge of an adapter; returns the job's name."""
    engine, final = run_tools.engine("llamafactory"), run_tools.run.final
    out, work = final / "merged", final / "work" / "merge"
    for place in (out, work):
        place.mkdir(parents=True, exist_ok=True)
    model = sum(
        file.stat().st_size
        for place in (run_tools.setup.model_root, folder.model)
        for file in place.glob("*.safetensors")
    )
    check_room(run_tools.run.root, model + MARGIN, "merging the adapter")
    trained = trained_values(folder)
    values = {
        "model_name_or_path": str(run_tools.setup.model_root),
        "adapter_name_or_path": str(folder.model),
        "finetuning_type": trained["finetuning_type"],
        "template": trained.get("template"),
        "export_dir": str(out),
        "export_size": 5,
        "export_device": "cpu",
        "trust_remote_code": False,
    }
    text = dump_config({k: v for k, v in values.items() if v is not None})
    inputs = job_input_file(work, "merge")
    write_atomic(inputs / "merge.yaml", text)
    command = Command(
        argv=(str(engine.python), SCRIPTS[0], "export", str(inputs / "merge.yaml")),
        cwd=str(work),
        env={
            **run_tools.environment(work),
            **engine.env,
            "LLAMAFACTORY_VERBOSITY": "WARN",
            "DISABLE_VERSION_CHECK": "1",
        },
        read=(
            *engine.readable,
            *SCRIPTS,
            str(inputs),
            str(folder.model),
            str(run_tools.setup.model_root),
        ),
        write=(str(out), str(work)),
        limits=job_limits(run_tools.settings, run_tools.settings.full_timeout, run_tools.run.root),
        key=digest(text, digest_file(folder.model / "adapter_model.safetensors"), engine.identity),
    )
    run_tools.launch(final / "jobs", "merge", command, retry=True, worker="llamafactory")
    return "merge"


def trained_values(folder: ExperimentFolder) -> Mapping[str, Any]:
    """What LLaMA-Factory needs to know of how an adapter was made; TRL's are plain LoRA."""
    grpo = is_grpo(readable_train_config(folder).values)
    return {"finetuning_type": "lora"} if grpo else engine_config(folder, "train").values


def merge_status(run_tools: RunTools) -> JobStatus:
    """State of the merge."""
    return run_tools.status(run_tools.run.final / "jobs", "merge")[0]


def make_whole_model(run_tools: RunTools, folder: ExperimentFolder) -> Path:
    """`final/candidate/`: weights, config, the base's tokenizer; there only when all of it would survive a power cut.

    Raises InfrastructureError when it does not fit on the disk; nothing half-made is left then.
    """
    whole_model = run_tools.run.candidate
    if (whole_model / MANIFEST).is_file():
        return whole_model
    copies = model_parts(run_tools, folder)
    check_room(run_tools.run.root, sum(file.stat().st_size for file in copies) + MARGIN, "the whole model")
    remove_path(whole_model)
    part = whole_model.with_name(f".{whole_model.name}{TRASH}")
    remove_path(part)
    part.mkdir(parents=True)
    try:
        for file in copies:
            shutil.copyfile(file, part / file.name)
        write_manifest(part)
    except OSError as e:
        shutil.rmtree(part)
        raise InfrastructureError(
            f"the whole model could not be written: {e.strerror}; free some disk, then `tuneloop resume`"
        ) from e
    part.rename(whole_model)
    fsync_path(whole_model.parent)
    return whole_model


def deliver_candidate(run: RunFolder, *, delivered: bool) -> None:
    """The candidate becomes `best/`, or is removed: its experiment still has it. Doing it again changes nothing."""
    if not delivered:
        remove_path(run.candidate)
    elif (run.candidate / MANIFEST).is_file():
        remove_path(run.best)
        run.candidate.rename(run.best)
        fsync_path(run.best.parent)
        fsync_path(run.final)


def model_parts(run_tools: RunTools, folder: ExperimentFolder) -> list[Path]:
    """Files that a delivered model is made of. Raises InfrastructureError."""
    source, base = folder.model, run_tools.setup.model_root
    if is_adapter(folder.model):
        source = run_tools.run.final / "merged"
        clean_merged_model(run_tools, source)
    weights = sorted(file for file in source.iterdir() if is_model_file(file)) if source.is_dir() else []
    if not any(file.suffix == ".safetensors" for file in weights):
        raise InfrastructureError(f"{source} holds no weights (*.safetensors), so nothing can be delivered from it")
    # The engine saves tokenizers anew in its own release's form; the base's files say the same and load everywhere.
    tokenizer = [file for name in TOKENIZER if (file := base / name).is_file()]
    return [*weights, *tokenizer, folder.script, folder.config]


def clean_merged_model(run_tools: RunTools, merged: Path) -> None:
    """What the merge left, without what is foreign. Raises InfrastructureError where it is another model than the base."""
    try:
        move_foreign_aside(merged, run_tools.run.final / "work" / LEFT_OUT, run_tools.setup.model_root)
    except RecipeError as e:
        raise InfrastructureError(f"the merged model is not the base's: {e}; see {run_tools.run.final / 'jobs'}") from e


def is_model_file(file: Path) -> bool:
    """Whether a plain file is part of a whole model's weights and configuration."""
    return is_plain_file(file) and bool(file.name in (CONFIG, GENERATION) or MODEL.fullmatch(file.name))


def drop_merged(run: RunFolder) -> None:
    """Once the whole model is there, the engine's merged copy is not needed any more."""
    if (run.candidate / MANIFEST).is_file():
        merged = run.final / "merged"
        for place in (merged, *unfinished_removals(merged)):
            remove_path(place)
