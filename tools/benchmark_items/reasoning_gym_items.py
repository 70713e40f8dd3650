"""Items of `rg:TASK`, made by the engine in a sandbox from seeds that the operating system draws once for each home.

The folder has `validation.jsonl` (shown), `sealed/validation.jsonl`, `sealed/test.jsonl`, `train.jsonl`, and the seeds in
`sealed/seeds.json`: with the seeds of the sealed items anybody could make those items again. The job's own folder lies in
`sealed/` too, and is gone when the folder is whole.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Verified
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file, read_field, read_lines, write_json, write_lines
from tuneloop.core.job import Command, Limits
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, stop_and_wait, wait
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import (
    HALVED_FROM,
    TEST,
    UNSEEN,
    VALIDATION,
    BenchmarkFolder,
    item_line,
    open_folder,
)
from tuneloop.tools.benchmark_items.reasoning_gym import (
    ENGINE,
    SCRIPTS,
    Task,
    declare_reasoning_gym,
    declare_training_pool,
    read_task,
)
from tuneloop.tools.benchmark_items.training_items import TRAIN
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.hub.store import MANIFEST, make_complete
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring import typed_json

SEEDS = "sealed/seeds.json"
MAKE = SCRIPTS / "make_items.py"
TYPED = Path(str(typed_json.__file__)).resolve()
# In the order of their turns: where a task has few items, each gets its share.
COUNTS = {"test": 500, "shown": 500, "unseen": 500, "train": 5000}
APART = 1 << 20  # seeds between the beginnings of two streams at least; a stream tries fewer
SECONDS = 300.0  # after which no further item is begun
SLACK = 300.0
LARGEST = 1 << 29  # bytes
# Of a row to learn from, `steps` where the generator has them, and `entry`, which the task's verifier gets.
ROW = ("question", "steps", "answer", "metadata", "entry")
Made = dict[str, list[dict[str, Any]]]


def resolve_reasoning_gym(name: str, home: Home, settings: Settings, description: str | None = None) -> BenchmarkFolder:
    """The benchmark, made when this home has none; `description` replaces the task's text.

    Raises InvalidRequestError for a wrong name or options that the task turns down, InfrastructureError when the engine
    cannot be built.
    """
    benchmark, root = make_folder(name, home, settings)
    said = description or f"{benchmark.description} {read_field(root / MANIFEST, 'counts', str)}"
    longest = max(benchmark.max_new_tokens, read_field(root / MANIFEST, "longest", int))
    return open_folder(benchmark.model_copy(update={"description": said, "max_new_tokens": longest}), root)


def make_folder(name: str, home: Home, settings: Settings) -> tuple[Benchmark, Path]:
    """Declaration and folder; what a home has once it keeps, with its seeds."""
    benchmark, task = declare_reasoning_gym(name), read_task(name)
    engine = ensure_engine(ENGINE, settings)
    made_by = digest(engine.identity, task.text, *map(digest_file, (MAKE, TYPED)), *ROW)
    folder = home.benchmarks / f"{benchmark.name}-{made_by}"
    return benchmark, make_complete(folder, partial(write_folder, benchmark, task, engine), benchmark=benchmark.name)


def make_training_pool(name: str, home: Home, settings: Settings) -> Path:
    """The folder with the rows to learn from. Raises as `resolve_reasoning_gym`, also for a task without answers."""
    card = declare_training_pool(name)
    _, root = make_folder(name, home, settings)
    made_by = digest(root.name, digest_file(root / TRAIN))
    return make_complete(
        home.datasets / f"{card.name}-{made_by}",
        lambda part: write_lines(part / "rows.jsonl", map(_readable_row, read_lines(root / TRAIN))),
        benchmark=card.name.removesuffix("-train"),
    )


def draw_seeds(names: Sequence[str], bits: int) -> dict[str, int]:
    """A first seed for each stream, drawn by the operating system, far from the others."""
    while True:
        found = {name: secrets.randbelow((1 << bits) - APART) for name in names}
        ordered = sorted(found.values())
        if all(after - before > APART for before, after in itertools.pairwise(ordered)):
            return found


def write_folder(benchmark: Benchmark, task: Task, engine: Engine, part: Path) -> dict[str, Any]:
    """Seeds, items, training rows; returns what the manifest says beside. Raises InvalidRequestError."""
    names = [name for name in COUNTS if name != "train" or task.facts["answers"]]
    (part / "sealed").mkdir()
    seeds = draw_seeds(names, task.facts["seed_bits"])
    write_json(part / SEEDS, seeds)
    made, late = generate_items(task, seeds, engine, part / "sealed" / "work")
    test, shown, unseen = (
        [_item(name, i, row) for i, row in enumerate(made[name])] for name in ("test", "shown", "unseen")
    )
    if len(shown) + len(unseen) < HALVED_FROM:  # of so few all are shown, as everywhere
        shown, unseen = [*shown, *unseen], []
    check_items(benchmark, [*shown, *unseen], test, benchmark.name)
    for file, items in ((VALIDATION, shown), (UNSEEN, unseen), (TEST, test)):
        write_lines(part / file, map(item_line, items))
    write_lines(part / TRAIN, (_training_row(row) for row in made.get("train", ())))
    answers = [item.answer for item in (*shown, *unseen, *test)]
    said = counts_text(len(shown) + len(unseen), len(test), len(made.get("train", ())), late=late)
    return {"counts": said, "longest": max(map(len, answers)) + len("<answer></answer>")}


def counts_text(validation: int, test: int, train: int, *, late: bool) -> str:
    """How many items there are, and why no more."""
    said = f"It has {validation} validation items, {test} test items and {train} training rows, no question twice"
    whole = (validation, test, train) == (COUNTS["shown"] + COUNTS["unseen"], COUNTS["test"], COUNTS["train"])
    if whole or (not late and not train and test == COUNTS["test"]):
        return said + "."
    return said + (f": what was made in {SECONDS:.0f} s." if late else ": the generator has no more.")


def _item(split: str, number: int, row: dict[str, Any]) -> Item:
    side = {"shown": "validation", "unseen": "validation-u"}.get(split, split)
    verified = Verified(item={"entry": row["entry"]})
    return Item(id=f"{side}-{number}", fields={"question": row["question"]}, answer=row["answer"] or "", calls=verified)


def _training_row(row: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an item to learn from."""
    return {name: row[name] for name in ROW if name != "steps" or row[name]}


def _readable_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row as it is learned from: what the entry says more is for the verifier alone."""
    return {name: value for name, value in row.items() if name != "entry"}


def generate_items(task: Task, seeds: dict[str, int], engine: Engine, work: Path) -> tuple[Made, bool]:
    """Rows of each stream, made by a job without a network, and whether its time ended it. Raises InvalidRequestError."""
    out = work / "out"
    out.mkdir(parents=True)
    streams = [{"name": name, "seed": seed, "count": COUNTS[name]} for name, seed in seeds.items()]
    job = {"out": str(out), "typed": str(TYPED), "task": task.name, "options": dict(task.options), "seconds": SECONDS}
    write_json(work / "job.json", {**job, "streams": streams})
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    command = Command(
        argv=(str(engine.python), "-W", "ignore", str(MAKE), str(work / "job.json")),
        cwd=str(out),
        env={"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(out), **quiet, **engine.env},
        read=(*engine.readable, str(SCRIPTS), str(TYPED), str(ENGINES / "check.py"), str(work / "job.json")),
        write=(str(out),),
        generated=True,
        limits=Limits(seconds=SECONDS + SLACK),
        key=digest(task.text, digest_file(MAKE)),
    )
    sandbox = open_sandbox("auto")
    place = launch(sandbox, work / "jobs", "make_items", command)
    try:
        done = wait(sandbox, place)
    except BaseException:
        stop_and_wait(sandbox, place)
        raise
    if not done.ok:
        raise InvalidRequestError(
            f"{task.text}: its items could not be made: {done.reason}: {log_tail(place, 1).strip()[:300]}"
        )
    found = read_rows(task, out / "items.json", list(seeds))
    remove_path(work)
    return found


def read_rows(task: Task, file: Path, names: Sequence[str]) -> tuple[Made, bool]:
    """What the job left: a stranger's file. Raises InvalidRequestError."""
    try:
        found = read_untrusted_json(file, LARGEST)
        if "error" in found:
            raise InvalidRequestError(f"{task.text}: {' '.join(str(found['error']).split())[:300]}")
        made = {name: [_checked(row) for row in found["streams"][name][: COUNTS[name]]] for name in names}
    except (FileNotFoundError, ValueError, LookupError, TypeError) as e:
        raise InvalidRequestError(f"{task.text}: its items cannot be read: {str(e)[:200]}") from e
    return made, found["late"] is True


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the right form. Raises TypeError."""
    texts = [row["question"], row["steps"], *([row["answer"]] if row["answer"] is not None else [])]
    if not all(isinstance(text, str) for text in texts) or not isinstance(row["metadata"], dict):
        raise TypeError("a row of another form")
    return row
