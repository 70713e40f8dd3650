"""The embedded base model: 0.7 M parameters, pre-trained here in minutes on little stories and equations."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.catalog import BaseModelCard
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import launch, log_tail
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.embedded.corpus import write_corpus, write_tokenizer_corpus
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.jobs.progress import last_progress

MODEL = BaseModelCard(
    name="tiny",
    description="Qwen2 architecture, 0.7 M parameters: reads little stories, writes equations. For trying things out.",
    licence="Apache-2.0",
    template="chatml",
)
SEED = 1


def fetch(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> None:
    """Pre-train into `folder`; same bytes every time on one kind of processor. Raises InfrastructureError when it fails."""
    work = settings.home.models / ".tiny.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    write_corpus(work / "corpus.jsonl", SEED)
    write_tokenizer_corpus(work / "tokenizer.jsonl", SEED)
    engine = ensure_engine("llamafactory", settings, progress)
    command = Command(
        argv=(
            *(str(engine.python), str(ENGINES / "llamafactory" / "pretrain.py"), "--out", str(folder)),
            *("--corpus", str(work / "corpus.jsonl"), "--tokenizer-corpus", str(work / "tokenizer.jsonl")),
        ),
        cwd=str(work),
        env={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **engine.env},
        read=(*engine.readable, str(ENGINES)),
        write=(str(work), str(folder)),
    )
    job = _finish(command, work / "jobs", progress)
    if not (folder / "model.safetensors").is_file():
        raise InfrastructureError(f"base model tiny was not made: {log_tail(job, 3)}")
    shutil.rmtree(work)


def _finish(command: Command, jobs: Path, progress: Callable[[str, int, int], None]) -> Path:
    sandbox = ProcessSandbox()
    job = launch(sandbox, jobs, "pretrain", command)
    while sandbox.poll(job).state == "running":
        progress("base model tiny", *last_progress(job / "log.txt"))
        pause(0.5)
    return job
