"""The parameter tools in one process: reading the catalog, answering questions, checking configs against large data."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from figures import figure
from gate import written
from place import ROOT, Place
from processes import environment, spend, well
from stock import plain_environment

from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.installed import find_catalog, installed_catalog, site_packages
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.query import answer

CORPORA = ROOT / "tests/tools/config"
ROUNDS, ROWS, SMALL_ROWS = 5, 100_000, 2_000
BAD = "finetuning_type: lora\nlearning_rat: 0.001\ncutoff_len: 256\nstage: sft\ndo_train: true\noutput_dir: out\n"
COLD = """\
import sys
from pathlib import Path
from tuneloop.tools.config.catalog import load_catalog
found = load_catalog(Path(sys.argv[1]))
sys.exit("torch" in sys.modules or len(found.parameters) < 300)
"""


@dataclass(frozen=True)
class Spread:
    """Milliseconds, of the least of all rounds for each call."""

    p50: float
    p95: float


def spread(calls: Iterable[Callable[[], object]], rounds: int) -> Spread:
    """Each call once to warm it, then in rounds."""
    work = list(calls)
    times = [[timed(call) for call in work] for _ in range(rounds + 1)][1:]
    return spread_of([min(of_call) for of_call in zip(*times, strict=True)])


def spread_of(milliseconds: list[float]) -> Spread:
    """The middle, and what all but a twentieth are within."""
    found = sorted(milliseconds)
    return Spread(found[len(found) // 2], found[-(-95 * len(found) // 100) - 1])


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def questions(place: Place) -> list[str]:
    """Those of the tests; small: every tenth."""
    names = ("questions.yaml", "held_out_questions.yaml")
    asked = [q["ask"] for name in names for q in yaml.safe_load((CORPORA / name).read_text(encoding="utf-8"))]
    return asked[:: 10 if place.small else 1]


@figure("catalog cold, without torch", "CPU s", "<= 0.3")
def cold(place: Place) -> float:
    """A fresh interpreter that imports what it needs and reads all parameters; the least of three."""
    log = place.root / "catalog.txt"
    argv = [sys.executable, "-c", COLD, str(site_packages(place.engines["llamafactory"]))]
    return min(well(spend(argv, env=environment(place.home), log=log), log).cpu for _ in range(3))


@figure("parameter query in process, p95", "ms", "<= 10")
def query(place: Place) -> float:
    """The tests' questions, the catalog read before; for each the least of five, then p95 of all."""

    def asked(text: str) -> Callable[[], object]:
        return lambda: answer(text, find_catalog(place.settings))

    found = spread(map(asked, questions(place)), ROUNDS)
    place.note("parameter query in process, ms", {"p50": found.p50, "p95": found.p95})
    return found.p95


def world_module() -> Any:
    """What the tests build: models, data sets and other places that their configs name."""
    spec = importlib.util.spec_from_file_location("params_world", CORPORA / "world.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{CORPORA}: no world.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def large_world(place: Place) -> Path:
    """That world, its first data set with 100,000 rows."""
    root: Path = world_module().build(place.root / "world")
    written(root / "data/alpaca.json", SMALL_ROWS if place.small else ROWS)
    return root


def checks(place: Place) -> Spread:
    """Every config of the tests, good and bad, against that world; what the data hold is known after the first look."""
    root, world = place.once(large_world), world_module()
    catalog, card = installed_catalog(place.engines["llamafactory"]), read_model_card(root / "model")
    cases = [case for name in ("bad_configs.yaml", "good_engine_configs.yaml") for case in world.cases(name)]

    def checked(case: Any) -> Callable[[], list[Any]]:
        model, how = (card if case.profile == "run" else None), {"profile": case.profile, "overrides": case.overrides}
        return lambda: check_config(case.text, catalog, model, case.device, here=root, **how)

    work = [checked(case) for case in (cases[::20] if place.small else cases)]
    found = spread(work, ROUNDS)
    refused = sum(any(f.level == "error" for f in call()) for call in work)
    place.note("check_config, ms", {"p50": found.p50, "p95": found.p95, "configs": len(work), "refused": refused})
    return found


@figure("check_config with 100k rows, p50", "ms", "<= 20")
def check_middle(place: Place) -> float:
    """Of the tests' configs, each the least of five."""
    return place.once(checks).p50


@figure("check_config with 100k rows, p95", "ms", "<= 100")
def check_slow(place: Place) -> float:
    """Of the same."""
    return place.once(checks).p95


@figure("stock refusal / check_config with 100k rows", "ratio", ">= 100")
def against_stock(place: Place) -> float:
    """Seconds of `llamafactory-cli train` until it refuses a misspelt key, by p95 of ours."""
    root = place.once(large_world)
    config = place.root / "bad-with-data.yaml"
    config.write_text(f"{BAD}model_name_or_path: {place.tiny}\ndataset_dir: {root / 'data'}\ndataset: alpaca\n")
    engine = place.engines["llamafactory"]
    argv = (str(engine.bin / "llamafactory-cli"), "train", str(config))
    env = {**plain_environment(place, "llamafactory"), "DISABLE_VERSION_CHECK": "1"}
    stock = spend(argv, env=env, cwd=place.root, log=place.root / "refusal.txt")
    if stock.end == 0:
        raise RuntimeError("the stock tool let a misspelt key pass")
    return 1000 * stock.wall / place.once(checks).p95
