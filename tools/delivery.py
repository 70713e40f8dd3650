"""Make the candidate a whole model folder, an adapter merged into its base; it becomes `best/` when it is delivered."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import digest, digest_file, sync, write_atomic
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder, RunFolder, given
from tuneloop.tools.disk import TRASH, check_room, remove
from tuneloop.tools.limits import job_limits
from tuneloop.tools.model_files import CONFIG, GENERATION, LEFT_OUT, TOKENIZER, clean, plain
from tuneloop.tools.params.config_text import dump_config, parse_config
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.store import MANIFEST, declare
from tuneloop.tools.workbench import Workbench

MARGIN = 64 << 20
MODEL = re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?")


def is_adapter(model: Path) -> bool:
    """Whether a trained folder holds an adapter, not a whole model."""
    return (model / "adapter_config.json").is_file()


def start_merge(bench: Workbench, folder: ExperimentFolder) -> str:
    """Launch the engine's own merge of an adapter; returns the job's name."""
    engine, final = bench.engine("llamafactory"), bench.run.final
    out, work = final / "merged", final / "work" / "merge"
    for place in (out, work):
        place.mkdir(parents=True, exist_ok=True)
    model = sum(
        file.stat().st_size for place in (bench.setup.model_root, folder.model) for file in place.glob("*.safetensors")
    )
    check_room(bench.run.root, model + MARGIN, "merging the adapter")
    trained = parse_config((given(folder.work, "train") / "config.yaml").read_text()).values
    values = {
        "model_name_or_path": str(bench.setup.model_root),
        "adapter_name_or_path": str(folder.model),
        "finetuning_type": trained["finetuning_type"],
        "template": trained.get("template"),
        "export_dir": str(out),
        "export_size": 5,
        "export_device": "cpu",
        "trust_remote_code": False,
    }
    text = dump_config({k: v for k, v in values.items() if v is not None})
    inputs = given(work, "merge")
    write_atomic(inputs / "merge.yaml", text)
    script = ENGINES / "llamafactory" / "train.py"
    command = Command(
        argv=(str(engine.python), str(script), "export", str(inputs / "merge.yaml")),
        cwd=str(work),
        env={**bench.environment(work), **engine.env, "LLAMAFACTORY_VERBOSITY": "WARN", "DISABLE_VERSION_CHECK": "1"},
        read=(*engine.readable, str(script), str(inputs), str(folder.model), str(bench.setup.model_root)),
        write=(str(out), str(work)),
        limits=job_limits(bench.settings, bench.settings.full_timeout, bench.run.root),
        key=digest(text, digest_file(folder.model / "adapter_model.safetensors"), engine.identity),
    )
    bench.launch(final / "jobs", "merge", command, retry=True, worker="llamafactory")
    return "merge"


def merge_status(bench: Workbench) -> JobStatus:
    """State of the merge."""
    return bench.status(bench.run.final / "jobs", "merge")[0]


def make_whole_model(bench: Workbench, folder: ExperimentFolder) -> Path:
    """`final/candidate/`: weights, config, the base's tokenizer; there only when all of it would survive a power cut.

    Raises WorldError when it does not fit on the disk; nothing half-made is left then.
    """
    whole_model = bench.run.candidate
    if (whole_model / MANIFEST).is_file():
        return whole_model
    copies = parts(bench, folder)
    check_room(bench.run.root, sum(file.stat().st_size for file in copies) + MARGIN, "the whole model")
    remove(whole_model)
    part = whole_model.with_name(f".{whole_model.name}{TRASH}")
    remove(part)
    part.mkdir(parents=True)
    try:
        for file in copies:
            shutil.copyfile(file, part / file.name)
        declare(part)
    except OSError as e:
        shutil.rmtree(part)
        raise WorldError(
            f"the whole model could not be written: {e.strerror}; free some disk, then `tuneloop resume`"
        ) from e
    part.rename(whole_model)
    sync(whole_model.parent)
    return whole_model


def hand_over(run: RunFolder, *, delivered: bool) -> None:
    """The candidate becomes `best/`, or is removed: its experiment still has it. Doing it again changes nothing."""
    if not delivered:
        remove(run.candidate)
    elif (run.candidate / MANIFEST).is_file():
        remove(run.best)
        run.candidate.rename(run.best)
        sync(run.best.parent)
        sync(run.final)


def parts(bench: Workbench, folder: ExperimentFolder) -> list[Path]:
    """Files that a delivered model is made of. Raises WorldError."""
    source, base = folder.model, bench.setup.model_root
    if is_adapter(folder.model):
        source = bench.run.final / "merged"
        clean_merged(bench, source)
    weights = sorted(file for file in source.iterdir() if whole(file))
    # The engine saves tokenizers anew in its own release's form; the base's files say the same and load everywhere.
    tokenizer = [file for name in TOKENIZER if (file := base / name).is_file()]
    return [*weights, *tokenizer, folder.script, folder.config]


def clean_merged(bench: Workbench, merged: Path) -> None:
    """What the merge left, without what is foreign. Raises WorldError where it is another model than the base."""
    try:
        clean(merged, bench.run.final / "work" / LEFT_OUT, bench.setup.model_root)
    except RecipeError as e:
        raise WorldError(f"the merged model is not the base's: {e}; see {bench.run.final / 'jobs'}") from e


def whole(file: Path) -> bool:
    """Whether a plain file is part of a whole model's weights and configuration."""
    return plain(file) and bool(file.name in (CONFIG, GENERATION) or MODEL.fullmatch(file.name))


def drop_merged(run: RunFolder) -> None:
    """Once the whole model is there, the engine's merged copy is not needed any more."""
    if (run.candidate / MANIFEST).is_file():
        for place in (run.final / "merged", *run.final.glob(f".merged.*{TRASH}")):
            remove(place)
