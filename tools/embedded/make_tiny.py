"""Pre-train the embedded base model again: `python -m tuneloop.tools.embedded.make_tiny FOLDER` (three minutes).

The result is what `tiny_model/` holds: the same bytes on the same kind of processor with the same torch, else another
model of the same score.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command
from tuneloop.core.settings import Settings, load_settings
from tuneloop.sandboxes.jobs import launch, log_tail
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.embedded.corpus import write_corpus, write_tokenizer_corpus
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.jobs.progress import last_progress

SEED = 1


def make(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> None:
    """Pre-train into `folder`, with a corpus and a job beside it. Raises InfrastructureError when it fails."""
    work = folder.with_name(f".{folder.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
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


def _show(what: str, done: int, total: int) -> None:
    sys.stdout.write(f"\r{what}: {done}/{total}")
    sys.stdout.flush()


def main() -> None:
    """The folder is the only argument; it must not exist or be empty."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tuneloop.tools.embedded.make_tiny FOLDER")
    folder = Path(sys.argv[1]).absolute()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty: name a new folder")
    make(folder, load_settings(), _show)


if __name__ == "__main__":
    main()
