"""A task that is a Python file: its samples are read, and its checker runs, in the sandbox alone."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import VERIFIER, Benchmark, Item, Verified
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path, digest, read_bytes, write_lines
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_bytes as read_untrusted
from tuneloop.core.untrusted import strict_json
from tuneloop.tools.benchmark_items.folder import TEST, UNSEEN, VALIDATION, BenchmarkFolder, item_line, open_folder
from tuneloop.tools.evaluation.standalone.run_tools import StandaloneRunTools, last_error_line, wait_for
from tuneloop.tools.evaluation.standalone.subjects import file_safe_name
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.jobs.machine import ENGINES, job_limits

SCRIPT = ENGINES / "answers" / "user_task.py"
JOB = "read_task"
SECONDS = 120.0  # in which both splits are read and the checker is tried
LARGEST = 1 << 17  # bytes of the file
FILE = "task.py"
NEW_TOKENS = 512  # of an answer, where eval.yaml does not say
FORM = "right is a Python file with one class that has name, load_train, load_test, extract_answer and check_answer"


@dataclass(frozen=True)
class UserTask:
    """Items to be measured on, and rows of prompt, reply and right answer to be trained on."""

    folder: BenchmarkFolder
    train: tuple[dict[str, str], ...]


def is_task_file(name: str) -> bool:
    """Whether a task's name is that of a Python file."""
    return name.endswith(".py")


def task_name(name: str) -> str:
    """What folders are called. Raises InvalidRequestError where there is no such file."""
    path = absolute_path(name)
    if not path.is_file():
        raise InvalidRequestError(f"task {name}: no such file; {FORM}")
    return file_safe_name(path.stem)


def load_user_task(name: str, settings: Settings, say: Progress, sandbox: SandboxKind) -> UserTask:
    """Both splits of the class in a file. What it reads beside itself may change, so it is asked each time.

    Raises InvalidRequestError where the file is no task, or its checker raises, hangs or turns down what is right.
    """
    title, path = task_name(name), absolute_path(name)
    source = read_source(path)
    run = RunFolder(settings.home.trainings / f"task-{title[:60]}-{digest(str(path))}")
    tools = StandaloneRunTools(run, settings, sandbox, "cpu", say)
    run.root.mkdir(parents=True, exist_ok=True)
    with hold_lease(settings.home.root), exclusive(run.lock):
        out = read_samples(tools, path, name)
        train = rows_of(out / "train.jsonl", ("prompt", "reply", "answer"))
        test = rows_of(out / "test.jsonl", ("prompt", "answer"))
    items = [
        Item(id=f"test-{i:04}", fields={"prompt": row["prompt"]}, answer="", calls=Verified(item=row))
        for i, row in enumerate(test)
    ]
    return UserTask(make_folder(title, source, items, settings), tuple(train))


def read_source(path: Path) -> str:
    """The file's text. Raises InvalidRequestError."""
    try:
        return read_bytes(path, LARGEST).decode()
    except ValueError as e:
        raise InvalidRequestError(f"task {path}: is no text of at most {LARGEST >> 10} KiB; {FORM}") from e


def read_samples(tools: StandaloneRunTools, path: Path, name: str) -> Path:
    """The folder into which a job wrote the samples. Raises InvalidRequestError."""
    engine, work, jobs = tools.engine("opencompass"), tools.run.root / "work" / JOB, tools.run.root / "jobs"
    work.mkdir(parents=True, exist_ok=True)
    command = Command(
        argv=(str(engine.python), "-B", str(SCRIPT), str(path), str(work)),
        cwd=str(work),
        env={**tools.environment(work), **engine.env, "PATH": f"{engine.bin}:/usr/bin:/bin"},
        read=(*engine.readable, str(SCRIPT), str(path.parent)),
        write=(str(work),),
        limits=job_limits(tools.settings, SECONDS, tools.run.root),
        generated=True,
        key=digest(str(time.time_ns())),
    )
    tools.launch(jobs, JOB, command, retry=True)
    status = wait_for(tools, jobs, JOB, tools.say, lambda: tools.stop(jobs, JOB))
    if status.exit is None or not status.exit.ok:
        raise InvalidRequestError(f"task {name}: {why_failed(tools, jobs, status)}; {FORM}")
    return work


def why_failed(tools: StandaloneRunTools, jobs: Path, status: JobStatus) -> str:
    """In words."""
    if status.exit is not None and status.exit.reason == "timeout":
        return f"its samples were not read, and its checker not tried, within {SECONDS:.0f} s"
    reason = status.exit.reason if status.exit else status.state
    return last_error_line(tools, jobs, JOB) or f"reading it ended by {reason}"


def rows_of(file: Path, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Rows that the job wrote. Raises InvalidRequestError where they are something else."""
    try:
        found: list[Any] = [strict_json(line) for line in read_untrusted(file).splitlines()]
        rows = [{name: row[name] for name in fields} for row in found]
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InvalidRequestError(f"task: {file.name} is not what was asked for: {e!r}"[:300]) from e
    if not rows or not all(isinstance(text, str) for row in rows for text in row.values()):
        raise InvalidRequestError(f"task: {file.name} holds something else than texts; {FORM}")
    return rows


def make_folder(title: str, source: str, items: list[Item], settings: Settings) -> BenchmarkFolder:
    """The benchmark, under its content. All items are open: a sealed test is what a run's benchmark has."""
    verifier = f"{SCRIPT.read_text(encoding='utf-8')}\nTASK = load_task({source!r})\n\n\n"
    verifier += "def score(answer, item):\n    return verdict(TASK, answer, item)\n"
    declared = Benchmark(
        name=re.sub(r"^[^A-Za-z0-9]+", "", title) or "task",
        description=f"The task in {title}.py; its own class says what a reply is worth.",
        answer=f"{VERIFIER}{FILE}",
        verifier=verifier,
        max_new_tokens=NEW_TOKENS,
    )

    def fill(part: Path) -> None:
        write_lines(part / VALIDATION, map(item_line, items))
        for name in (UNSEEN, TEST):
            write_lines(part / name, [])

    contents = digest(declared.model_dump_json(), *(item.model_dump_json() for item in items))
    return open_folder(declared, make_complete(settings.home.benchmarks / f"{declared.name}-{contents}", fill))
