"""Replies of a training are scored as they come: by a benchmark's own scorer, or by a verifier that they attack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.files import write_lines
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring.scorer import JUDGING, SCORING

HARNESS = ENGINES / "answers" / "serve_rewards.py"
GOLDS = [{"answer": "3", "item": {"sum": 3}}, {"answer": "4", "item": {"sum": 4}}]
NAIVE = "def score(answer, item):\n    return float(eval(answer) == item['sum'])\n"


@contextmanager
def scorer(place: Path, idle: float = 60.0, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Scores what lies in `place/exchange`."""
    for name in ("exchange", "out"):
        (place / name).mkdir(exist_ok=True)
    (place / "golds.jsonl").write_text("".join(json.dumps(one) + "\n" for one in GOLDS))
    job = {"exchange": str(place / "exchange"), "out": str(place / "out"), "golds": str(place / "golds.jsonl")}
    plain = {"loader": str(JUDGING), "scoring": str(SCORING), "kind": "boxed", "scorer": "", "files": ""}
    (place / "job.json").write_text(json.dumps({**job, **plain, "seconds": 1, "idle": idle, "stop": [], **more}))
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*apart, sys.executable, "-B", str(HARNESS), str(place / "job.json")]
    env = {"PYTHONPATH": str(ENGINES), "TMPDIR": str(place)}
    with subprocess.Popen(argv, env=env, cwd=place / "out", text=True, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(place: Path, name: str, *asked: tuple[int, str]) -> list[float]:
    part = place / "exchange" / f"{name}.part"
    part.write_text(json.dumps([{"row": row, "reply": reply} for row, reply in asked]))
    part.rename(place / "exchange" / f"{name}.ask")
    told, end = place / "exchange" / f"{name}.told", time.monotonic() + 60
    while not told.exists():
        assert time.monotonic() < end, "nobody scored"
        time.sleep(0.01)
    found: list[float] = json.loads(told.read_text())
    return found


def test_a_benchmark_scores_as_in_its_evaluations(tmp_path: Path) -> None:
    with scorer(tmp_path):
        assert ask(tmp_path, "a", (0, "So \\boxed{3}."), (1, "\\boxed{3}"), (1, "4"), (0, "")) == [1, 0, 0, 0]
        assert ask(tmp_path, "b", (1, "\\boxed{4}")) == [1]
        assert not list((tmp_path / "exchange").glob("*.part"))


def test_a_reply_ends_before_the_first_stop_text(tmp_path: Path) -> None:
    with scorer(tmp_path, stop=["Q:", "\n\n\n"]):
        said = "\\boxed{3}\n\n\nQ: And now? \\boxed{4}"
        assert ask(tmp_path, "a", (0, said), (1, said), (0, "Q: \\boxed{3}")) == [1, 0, 0]


def test_what_only_looks_like_the_end_of_a_line_ends_no_row(tmp_path: Path) -> None:
    write_lines(tmp_path / "other.jsonl", [{"answer": "\u2028\u2029\x85 3"}, {"answer": "4"}])
    with scorer(tmp_path, golds=str(tmp_path / "other.jsonl")):
        assert ask(tmp_path, "a", (1, "\\boxed{4}")) == [1]


def test_a_reply_that_attacks_a_verifier_is_worth_nothing(tmp_path: Path) -> None:
    (tmp_path / "verifier.py").write_text(NAIVE)
    hostile = (
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "open('/proc/self/cwd/../../golds.jsonl').read()",
        "[0 for _ in iter(int, 1)]",
        "__import__('os')._exit(0)",
        "len(bytearray(8 << 30))",
        "float('nan')",
    )
    with scorer(tmp_path, kind="verifier", verifier=str(tmp_path / "verifier.py")):
        found = ask(tmp_path, "a", (0, "3"), *((0, f"<answer>{text}</answer>") for text in hostile), (1, "4"), (1, "3"))
    assert found == [1, *(0 for _ in hostile), 1, 0]


def test_it_ends_where_nobody_asks(tmp_path: Path) -> None:
    with scorer(tmp_path, idle=0.3) as process:
        assert process.wait(60) == 75


@pytest.mark.parametrize("what", ["link", "pipe", "object"])
def test_what_is_no_question_is_not_read(tmp_path: Path, what: str) -> None:
    with scorer(tmp_path) as process:
        place = tmp_path / "exchange" / "a.ask"
        if what == "link":
            place.symlink_to(tmp_path / "golds.jsonl")
        elif what == "pipe":
            os.mkfifo(place)
        else:
            (tmp_path / "exchange" / "a.part").write_text("{}")
            (tmp_path / "exchange" / "a.part").rename(place)
        assert process.wait(60) not in (0, 75)
    assert not (tmp_path / "exchange" / "a.told").exists()
