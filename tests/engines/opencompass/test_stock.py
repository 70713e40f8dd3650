"""OpenCompass's own command line, with the configuration that `stock.py` writes, gives the verdict of our job on every item."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.benchmark_answers import Answerer, item_set, written
from tuneloop.core.job import Command
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import SCRIPTS, ItemSet, ModelWeights, evaluation_command

NAMES = ("gsm8k", "math500", "bbh", "cmmlu", "arc_c")
ANSWERERS: dict[str, Answerer] = {
    "right": lambda _, item: f"So the answer is {item.answer}. \\boxed{{{item.answer}}}",
    "odd": lambda _, item: ("答案: A", "\\boxed{\\text{even}}", "So the answer is True.", "", "{tuneloop_gold}")[
        len(item.fields) % 2 + len(item.id + item.answer) % 4
    ],
}


def test_the_stock_command_gives_the_same_verdict_on_every_item(
    opencompass: Engine, tiny: Path, tmp_path: Path
) -> None:
    sets = [item_set(name, tmp_path) for name in NAMES]
    small = item_set("hellaswag", tmp_path)
    replies = [
        ModelWeights(name, written(tmp_path, name, sets, answer), replies=True) for name, answer in ANSWERERS.items()
    ]
    command = evaluation_command(opencompass, replies, sets, tmp_path / "out")
    weights = evaluation_command(opencompass, [ModelWeights("tiny", tiny)], [shortened(small)], tmp_path / "weights")
    for one in (command, weights):
        compare(opencompass, one, tmp_path / f"stock-{Path(one.cwd).name}")


def shortened(given: ItemSet) -> ItemSet:
    """Few items and short replies: real weights are slow here."""
    benchmark = given.benchmark.model_copy(update={"max_new_tokens": 8})
    return dataclasses.replace(given, benchmark=benchmark, items=given.items[:6])


def compare(engine: Engine, command: Command, folder: Path) -> None:
    """Run the job, then the stock command on the same job."""
    done(command.argv, command.env, Path(command.cwd))
    folder.mkdir()
    env = {**command.env, "PYTHONPATH": str(SCRIPTS)}
    told = done((str(engine.python), str(SCRIPTS / "stock.py"), command.argv[2], str(folder)), env, folder)
    assert told.strip().endswith(f"opencompass {folder / 'config.py'} --debug")
    done((str(Path(engine.bin) / "opencompass"), str(folder / "config.py"), "--debug"), env, folder)
    results = json.loads((Path(command.cwd) / "results.json").read_text())["results"]
    for row in results:
        (file,) = folder.glob(f"out/*/results/{row['model']}-{row['set']}/{row['set']}.json")
        stock = json.loads(file.read_text())
        verdicts = [detail["verdict"][0] for detail in stock["details"]]
        ours = [{name: item[name] for name in ("parsed", "value", "extra", "error")} for item in row["items"]]
        assert verdicts == ours, (row["model"], row["set"])
        assert stock["accuracy"] == pytest.approx(row["accuracy"])


def done(argv: tuple[str, ...], env: dict[str, str], cwd: Path) -> str:
    ran = subprocess.run(
        argv,
        env={**env, "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-3000:]
    return ran.stdout
