"""A home with a finished and an unfinished run, damage to its files drawn by seed, and commands that meet it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import yaml
from click.testing import CliRunner
from langgraph.graph import END, START, StateGraph

from tests.graph.conftest import experiment, long_run, score
from tests.prepared import prepared
from tests.stand_in_engine import write_model
from tuneloop.cli.main import cli
from tuneloop.core.catalog import Benchmark
from tuneloop.core.directive import Bound, Directive, Line
from tuneloop.core.directive_log import append_row
from tuneloop.core.files import write_atomic, write_json, write_lines
from tuneloop.core.job import Command, Exit
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.transcript import TranscriptEnded, TranscriptStarted, transcript_path
from tuneloop.graph.checkpoints.store import open_checkpoints
from tuneloop.graph.state import State
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.run import Batch, BatchFolder, create_batch
from tuneloop.tools.batch.tasks import BatchTask
from tuneloop.tools.benchmark_items.folder import TEST, UNSEEN, VALIDATION, open_folder
from tuneloop.tools.engines.engine import Engine
from tuneloop.tools.engines.engine import write_manifest as certify
from tuneloop.tools.hub.store import fingerprint, write_manifest

SECONDS = 120  # a command that takes longer hangs
CODES = (0, 1, 2)
TRACEBACK = re.compile(r"^[\s╭─]*Traceback", re.MULTILINE)
# What commands write in place: logs only grow, the others are made again from the rest.
GROWING = ("events.jsonl", "conversation.jsonl", "directives.jsonl", "calls_begun.jsonl", "ledger.jsonl", "reads.jsonl")
RENEWED = (
    "lock",
    "attempts.json",
    "comparison.",
    "signature.json",
    "command.log",
    "pruned.json",
    "stamps.json",
    "stores.json",
    "budget.json",
    "checkpoint.sqlite",
    "checkpoint.sqlite-wal",
)
RENEWED_FOLDERS = ("cache", "inbox", "lease", "profiles")
COMMANDS = (
    ("list", "runs"), ("list", "runs", "--json"), ("list", "benchmarks"), ("status",), ("status", "RUN", "--json"),
    ("status", "RUN", "--all"), ("report", "RUN"), ("report", "RUN", "--json"), ("watch", "RUN", "--json"), ("watch", "RUN"),
    ("chat", "RUN", "status"), ("chat", "RUN", "why 1"), ("chat", "RUN", "limit num_train_epochs<=2"), ("chat", "RUN", "report"),
    ("chat", "RUN", "show data 1"), ("chat", "RUN", "show config 3"), ("chat", "RUN", "budget"), ("resume", "RUN", "--step-n", "1"),
    ("resume", "open", "--step-n", "2"), ("stop", "RUN"), ("replay", "RUN", "--show"), ("replay", "RUN"), ("clean", "--dry-run"),
    ("clean", "--json", "--runs", "1d"),
    ("engines", "list"), ("data", "inspect", "DATA"), ("fork", "RUN", "--at", "9"), ("fork", "done", "--at", "1"),
    ("run", "--repeat", "RUN"),
    ("params", "check", "CONFIG"), ("batch", "report"), ("batch", "report", "one", "--json"), ("batch", "resume", "one"),
    ("batch", "stop", "one"),
    ("list", "models", "--json"), ("list", "datasets"), ("resume", "RUN", "--trust-folder", "--step-n", "1"),
    ("data", "check", "ROWS", "--benchmark", "BENCHMARK", "--model", "MODEL"),
    ("data", "overlap", "DATA", "--benchmark", "BENCHMARK"),
)  # fmt: skip


def make_home(home: Path) -> None:
    """What two runs of a benchmark, a model and a data set of one's own leave; no engine runs in it."""
    model, data, root = home / "models" / "m", home / "datasets" / "mine", home / "benchmarks" / "b"
    for folder in (model, data, root):
        folder.mkdir(parents=True)
    write_model(model)
    write_manifest(model)
    write_lines(data / "rows.jsonl", [{"question": f"{i} + 1?", "answer": str(i + 1)} for i in range(40)])
    for split in (VALIDATION, UNSEEN, TEST):
        write_lines(root / split, [{"id": str(i), "prompt": f"{i}?", "answer": str(i)} for i in range(200)])
    write_manifest(root)
    write_lines(home / "benchmarks" / "reads.jsonl", [{"test": "abc", "run": "done", "created": "2026"}])
    for name in ("llamafactory", "opencompass"):
        folder = home / "engines" / f"{name}-abc"
        folder.mkdir(parents=True)
        python = Path(sys.executable)
        certify(Engine(name, folder, python, python.parent, (), "1.0", f"{name}-id"), folder / "manifest.json")
    for name in ("open", "done"):
        make_run(RunFolder(home / "runs" / name), root, model, data, finished=name == "done")
    tasks = [BatchTask(run_id=name, benchmark="b", model="m", options={"benchmark": "b"}) for name in ("done", "lost")]
    batch = BatchFolder(Home(home), "one")
    create_batch(batch, Batch(parallel=1, tasks=tuple(tasks)), Devices({}))
    write_json(batch.attempts, {"started": {"lost": 3}, "gpus": {"lost": []}, "failed": {"lost": "no memory"}})


def make_run(run: RunFolder, benchmark: Path, model: Path, data: Path, *, finished: bool) -> None:
    """A run of two experiments that are over; of the unfinished one a third is begun."""
    run.root.mkdir(parents=True)
    long_run(run, experiments=2, progress=2)
    spec = RunSpec(benchmark="b", base_model="m", loop_n=2 if finished else 4, datasets=("mine",))
    found = open_folder(Benchmark(name="b", description="d"), benchmark)
    facts = {"datasets": {"mine": data}, "dataset_fingerprints": {"mine": fingerprint(data)}}
    prepared(run, spec, found, model, model_fingerprint=fingerprint(model), **facts,
             versions={name: f"1.0 ({name}-id)" for name in ("llamafactory", "opencompass")})  # fmt: skip
    write_json(run.validation, {"limit": None, "order": {"b": [str(i) for i in range(200)]}})
    append_row(run.directives, Directive(id="1", text="limit", command=Bound(parameter="num_train_epochs", at_most=3)))
    append_row(run.conversation, Line(id="m1", who="user", text="limit num_train_epochs<=3"))
    append_row(run.conversation, Line(id="m2", who="tuneloop", text="noted", answers="m1"))
    write_json(run.budget, {"warned": {"time": 60.0}})
    for number in (1, 2) if finished else (1, 2, 3):
        make_experiment(run, number)
    if finished:
        write_json(run.final / "test.json", {"baseline": 1})
        write_atomic(run.report, "# Report\n")
        write_json(run.report_json, report(run.id))
    with open_checkpoints(run, None) as store:
        graph = StateGraph(State)
        stage = END if finished else "critique"
        graph.add_node("node", lambda _: {"stage": stage, "experiment": 2 if finished else 3})
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        graph.compile(checkpointer=store.saver).invoke(State(run_id=run.id), store.config)
    if not finished:
        write_json(run.inbox / "2026-1.json", {"do": "say", "id": "2026-1", "text": "status"})


def report(run_id: str) -> dict[str, Any]:
    """What is read again of a report."""
    test = {"value": 10.0, "n": 200, "low": 8.0, "high": 12.0}
    best = {"experiment": None, "delivered": False, "claimed": False, "test": None}
    budget = {"experiments": 2, "seconds": 60.0, "spent": {"money": None}}
    return {
        "run_id": run_id,
        "best": best,
        "baseline": {"test": test},
        "budget": budget,
        "claim": None,
        "experiments": [],
    }


def make_experiment(run: RunFolder, number: int) -> None:
    """What beside its result lies in an experiment's folder."""
    folder = run.experiment(number)
    idea = {"statement": "s", "reason": "r", "disproof": "d", "aspect": "rate"}
    write_json(folder.hypothesis, idea)
    write_atomic(folder.script, "print('rows')\n")
    write_atomic(folder.config, "stage: sft\nlearning_rate: 1.0e-4\n")
    write_json(folder.data / "data.json", [{"instruction": "1?", "input": "", "output": "1"}])
    write_json(folder.data / "report.json", {"rows": 1, "warnings": ["few"], "lengths": {"longest": 9}})
    write_json(folder.root / "warnings.json", ["a warning"])
    write_json(folder.failures / "0.json", {"node": "train", "culprit": "config", "text": "NaN", "leads": "critique"})
    job = folder.jobs / "train.1"
    write_json(job / "command.json", Command(argv=("true",), cwd="/").model_dump(mode="json"))
    write_atomic(job / "log.txt", "done\n")
    write_json(job / "exit.json", Exit(code=0, reason="finished", seconds=2).model_dump(mode="json"))
    begun = TranscriptStarted(
        agent="researcher", planner="m", want="Hypothesis", tools=(), prompt="x", brief={}, steps=9, tokens=99
    )
    lines = (begun, TranscriptEnded(by="m", answer=idea))
    write_atomic(
        transcript_path(folder.answers, "researcher", 0), "".join(line.model_dump_json() + "\n" for line in lines)
    )
    write_json(folder.answers / "researcher.0.json", idea)
    write_atomic(folder.answers / "researcher.0.md", "Begin.\n")
    write_atomic(folder.scores, score(55, items=200).model_dump_json())
    trained = experiment(number).training
    assert trained is not None
    write_atomic(folder.training, trained.model_dump_json())


# Damage: what happens to one file or folder.

SPARSE = 1 << 34  # bytes, at least, of a file that is all hole


def damage(home: Path, noise: random.Random) -> list[str]:
    """Damage one to three places below `home`; what was done where."""
    done = []
    for _ in range(noise.randint(1, 3)):
        places = [p for p in sorted(home.rglob("*")) if "engines" not in p.parts and not p.is_symlink()]
        places = [
            p for p in places if p.lstat().st_size < SPARSE
        ]  # what is all hole is damaged, and no memory holds it
        files = [p for p in places if p.is_file()]
        parsed = [p for p in files if p.suffix in (".json", ".jsonl", ".yaml")]
        place = noise.choice(noise.choices([parsed, files, places], [6, 3, 1])[0])
        kind = noise.choice(
            [k for k in KINDS if place.is_file() or k in (remove, replace_by_file, replace_by_link, lock_away)]
        )
        kind(place, noise)
        done.append(f"{kind.__name__} {place.relative_to(home)}")
    return done


def truncate(place: Path, noise: random.Random) -> None:
    place.write_bytes(place.read_bytes()[: noise.randrange(1 + place.stat().st_size)])


def flip_bytes(place: Path, noise: random.Random) -> None:
    data = bytearray(place.read_bytes() or b"x")
    for _ in range(noise.randint(1, 20)):
        data[noise.randrange(len(data))] = noise.randrange(256)
    place.write_bytes(data)


def empty(place: Path, noise: random.Random) -> None:
    place.write_bytes(b"")


def remove(place: Path, noise: random.Random) -> None:
    shutil.rmtree(place) if place.is_dir() else place.unlink()


def replace_by_file(place: Path, noise: random.Random) -> None:
    remove(place, noise)
    place.write_bytes(noise.randbytes(100))


def replace_by_folder(place: Path, noise: random.Random) -> None:
    place.unlink()
    place.mkdir()


def replace_by_link(place: Path, noise: random.Random) -> None:
    remove(place, noise)
    place.symlink_to(noise.choice([place.name, "/nowhere", "/dev/zero", "/etc/passwd", ".."]))


def replace_by_pipe(place: Path, noise: random.Random) -> None:
    place.unlink()
    os.mkfifo(place)


def lock_away(place: Path, noise: random.Random) -> None:
    place.chmod(0)


def make_sparse(place: Path, noise: random.Random) -> None:
    os.truncate(place, SPARSE << noise.randint(0, 8))


def insert_text(place: Path, noise: random.Random) -> None:
    data = place.read_bytes()
    at = noise.randrange(1 + len(data))
    strange = [
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\u0000",
        b'"\0"',
        b"1e999",
        b"NaN",
        b"\r",
        b"\xe2\x80\xae",
    ]
    place.write_bytes(data[:at] + noise.choice(strange) + data[at:])


def nest(place: Path, noise: random.Random) -> None:
    place.write_bytes(noise.choice([b"[", b'{"a":', b"- ", b"{a: "]) * noise.choice([2_000, 200_000]))


def change_value(place: Path, noise: random.Random) -> None:
    """A value of another type, at any depth of a JSON or YAML text."""
    text = place.read_text(errors="replace")
    try:
        lines = text.splitlines() if place.suffix == ".jsonl" else [text]
        which = noise.randrange(len(lines))
        value = yaml.safe_load(lines[which]) if place.suffix == ".yaml" else json.loads(lines[which])
    except (ValueError, yaml.YAMLError):
        return flip_bytes(place, noise)
    lines[which] = json.dumps(changed(value, noise))
    place.write_text("\n".join(lines) + "\n")
    return None


def changed(value: Any, noise: random.Random) -> Any:
    if isinstance(value, dict | list) and value and noise.random() < 0.8:
        key = noise.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value, dict) and noise.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        copy = value.copy()
        copy[key] = changed(value[key], noise)
        return copy
    return noise.choice(
        [None, True, -1, 0, 10**400, 1e308, "", "x" * 70_000, "a\0b", "\ud800", "../../etc", [], {}, [[]], {"a": 1}]
    )


KINDS = (truncate, flip_bytes, empty, remove, replace_by_file, replace_by_folder, replace_by_link, replace_by_pipe,
         lock_away, make_sparse, insert_text, insert_text, nest, change_value, change_value, change_value)  # fmt: skip


# Commands that meet it.


class TooLongError(BaseException):
    """A command hangs."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> NoReturn:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def draw_command(home: Path, noise: random.Random) -> list[str]:
    run = noise.choice(["open", "open", "done"])
    names = {
        "RUN": run,
        "DATA": str(home / "datasets" / "mine"),
        "CONFIG": str(home / "runs/open/experiments/003/train.yaml"),
        "ROWS": str(home / "runs/open/experiments/003/data/data.json"),
        "BENCHMARK": str(home / "benchmarks/b"),
        "MODEL": str(home / "models/m"),
    }
    return [names.get(word, word) for word in noise.choice(COMMANDS)]


def run_command(words: list[str]) -> str:
    """What is wrong with how the command line took it; "" when nothing is."""
    try:
        with time_limit(SECONDS):
            found = CliRunner().invoke(cli, words, input="")
    except TooLongError:
        return f"takes longer than {SECONDS} s:\n{traceback.format_exc()}"
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        return "".join(traceback.format_exception(found.exception))
    lines = [line for line in found.stderr.splitlines() if line.startswith("tuneloop: ")]
    if TRACEBACK.search(found.output) or found.exit_code not in CODES or (found.exit_code and not found.output.strip()):
        return f"exit code {found.exit_code}:\n{found.output[-3000:]}"
    return f"{len(lines)} lines:\n{found.stderr}" if len(lines) > 1 else ""


# Nothing is lost.


def photograph(home: Path) -> dict[str, tuple[int, str]]:
    """Size and hash of every plain file that no command may change, of logs that may only grow."""
    found = {}
    for place in home.rglob("*"):
        at = place.relative_to(home)
        if place.is_symlink() or not place.is_file() or place.stat().st_size > 1 << 24:
            continue
        if at.name.startswith(RENEWED) or set(RENEWED_FOLDERS) & set(at.parts) or "engines" in at.parts:
            continue
        found[str(at)] = (place.stat().st_size, head_hash(place, place.stat().st_size))
    return found


def head_hash(place: Path, size: int) -> str:
    with place.open("rb") as f:
        return hashlib.sha256(f.read(size)).hexdigest()


def losses(home: Path, before: dict[str, tuple[int, str]]) -> list[str]:
    """Files that are gone or changed."""
    found = []
    for name, (size, sha) in before.items():
        place = home / name
        grows = place.name in GROWING
        if not place.is_file() or (place.stat().st_size != size and not grows) or head_hash(place, size) != sha:
            found.append(name)
    return found


def meet_damage(pristine: Path, home: Path, seed: int, commands: int = 5) -> list[str]:
    """Copy the home, damage it, run commands; everything that went wrong, with the commands that show it."""
    for place in (home, *home.rglob("*")) if home.exists() else ():
        if not place.is_symlink() and place.is_dir():
            place.chmod(0o755)
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(pristine, home, symlinks=True)
    noise = random.Random(seed)
    done = damage(home, noise)
    wrong = []
    for _ in range(commands):
        words, before = draw_command(home, noise), photograph(home)
        said = run_command(words) or "".join(f"lost {name}\n" for name in losses(home, before))
        if said:
            wrong.append(f"seed {seed}, {', '.join(done)}: tuneloop {' '.join(words)}\n{said}")
    return wrong
