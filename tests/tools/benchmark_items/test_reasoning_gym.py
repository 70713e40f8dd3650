"""`rg:TASK`: names and options are checked without the engine; items of all sides are distinct; seeds stay sealed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from tests.prepared import prepared
from tests.tools.evaluation.test_code_execution import evaluated
from tests.tools.evaluation.test_code_execution import home as home  # noqa: PLC0414 - a fixture
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import read_command
from tuneloop.tools.benchmark_items.folder import TEST, UNSEEN, VALIDATION, read_items
from tuneloop.tools.benchmark_items.reasoning_gym import (
    ENGINE,
    SCRIPTS,
    declare_reasoning_gym,
    declare_training_pool,
    known_tasks,
    read_task,
)
from tuneloop.tools.benchmark_items.reasoning_gym_items import APART, COUNTS, MAKE, TYPED, draw_seeds
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.engines.engine import run_json_script
from tuneloop.tools.evaluation.run_evaluation import validation_scores
from tuneloop.tools.hub.datasets import check_dataset
from tuneloop.tools.jobs.run_tools import RunTools


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rg:leg_countin", "did you mean 'leg_counting'"),
        ("rg:leg_counting?max_animal=5", "did you mean 'max_animals'"),
        ("rg:leg_counting?max_animals=five", "right is int, usual is 10"),
        ("rg:leg_counting?max_animals=true", "right is int, usual is 10"),
        ("rg:leg_counting?max_animals", "no option given once"),
        ("rg:leg_counting?max_animals=5&max_animals=6", "no option given once"),
        ("rg:leg_counting?seed=1", "seed is no option here"),
        ("rg:gsm_symbolic?difficulty=NaN", "right is float"),
        ("rg:time_intervals?min_date=2000-01-01", "takes no value that can be written"),
        ("rg:basic_arithmetic?format_style=odd", "right is simple or natural"),
        ("rg:composite", "no item of this task can be made"),
        ("rg:", "task '' is unknown"),
    ],
)
def test_wrong_names_are_one_line_that_says_what_is_right(name, says):
    with pytest.raises(InvalidRequestError) as refused:
        declare_reasoning_gym(name)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_options_are_part_of_the_benchmark_and_defaults_are_none():
    asked = declare_reasoning_gym("rg:leg_counting?max_animals=5&min_animals=3")
    assert asked.name == "rg-leg_counting-max_animals-5"
    assert asked.own_dataset == "rg:leg_counting?max_animals=5"
    assert declare_reasoning_gym("rg:leg_counting?max_animals=10") == declare_reasoning_gym("rg:leg_counting")
    assert read_task('rg:countdown?operators=["+"]').title.startswith("rg-countdown-")
    assert read_task(asked.own_dataset).options == {"max_animals": 5}


def test_a_task_without_answers_has_no_training_rows():
    assert declare_reasoning_gym("rg:rush_hour").own_dataset == ""
    with pytest.raises(InvalidRequestError, match="have no answers to learn from"):
        check_dataset("rg:rush_hour")
    assert declare_training_pool("rg:leg_counting").name == "rg-leg_counting-train"


def test_the_list_of_tasks_is_that_of_the_locked_release():
    listed = json.loads((SCRIPTS / "tasks.json").read_text())
    assert listed["release"] == ENGINE_BLUEPRINTS["reasoning_gym"].pins["reasoning-gym"]
    assert len(known_tasks()) == 106


@pytest.mark.parametrize("bits", [31, 62])
def test_seeds_are_far_apart_and_other_ones_each_time(bits):
    drawn = [draw_seeds(list(COUNTS), bits) for _ in range(20)]
    for seeds in drawn:
        ordered = sorted(seeds.values())
        assert all(b - a > APART for a, b in itertools.pairwise(ordered))
        assert 0 <= ordered[0] <= ordered[-1] + APART < 1 << max(bits, 32)
    assert len({tuple(seeds.values()) for seeds in drawn}) == 20


class Few:
    """A generator of a few numbers, as reasoning_gym's are called."""

    def __init__(self, seed: int, few: int) -> None:
        self.seed, self.few = seed, few

    def __getitem__(self, index: int) -> dict[str, object]:
        number = Random(self.seed + index).randrange(self.few)
        answer = "" if number == self.few - 1 else str(number)
        return {"question": f"Which is {number}?", "answer": answer, "metadata": {"pair": (number, number)}}


def made(monkeypatch, few):
    spec = importlib.util.spec_from_file_location("make_items", MAKE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    library = SimpleNamespace(create_dataset=lambda task, seed, size, few: Few(seed, few))
    monkeypatch.setitem(sys.modules, "reasoning_gym", library)
    streams = [{"name": name, "seed": i << 21, "count": 20} for i, name in enumerate(COUNTS)]
    job = {"typed": str(TYPED), "task": "few", "options": {"few": few}, "seconds": 60, "streams": streams}
    found = module.make(job)
    assert found["late"] is False
    return found["streams"]


@pytest.mark.parametrize(("few", "each"), [(1000, 20), (41, 10)])
def test_no_question_is_on_two_sides_and_few_are_spread_over_all(monkeypatch, few, each):
    streams = made(monkeypatch, few)
    questions = [row["question"] for rows in streams.values() for row in rows]
    assert len(set(questions)) == len(questions) == 4 * each
    assert {name: len(rows) for name, rows in streams.items()} == dict.fromkeys(COUNTS, each)
    assert all(row["answer"] for rows in streams.values() for row in rows), "an empty answer cannot be given"
    assert streams["test"][0]["entry"]["d"][2][1]["d"][0][1]["t"]  # tuples stay tuples


@pytest.mark.slow
def test_a_real_task_is_made_and_its_seeds_lie_in_sealed_only(shared_settings: Settings, tmp_path: Path):
    home = Home(tmp_path, shared_settings.home.engines)
    name = "rg:leg_counting?max_animals=5"
    folder = resolve_benchmark(name, home, settings=shared_settings)
    sides = [
        [item.fields["question"] for item in read_items(folder.root / file)] for file in (VALIDATION, UNSEEN, TEST)
    ]
    sides.append([json.loads(line)["question"] for line in (folder.root / "train.jsonl").open()])
    assert [len(side) for side in sides] == [500, 500, 500, 5000]
    assert len({question for side in sides for question in side}) == 6500
    seeds = json.loads((folder.root / "sealed/seeds.json").read_text())
    holding = {
        p for p in tmp_path.rglob("*") if p.is_file() for s in seeds.values() if str(s).encode() in p.read_bytes()
    }
    assert holding == {folder.root / "sealed/seeds.json"}
    assert resolve_benchmark(name, home, settings=shared_settings).test_split == folder.test_split


@pytest.mark.slow
def test_replies_are_worth_what_the_task_itself_says(home: Path, shared_settings: Settings, monkeypatch):
    stand_in, real = RunTools.engine, ensure_engine("reasoning_gym", shared_settings)
    monkeypatch.setattr(RunTools, "engine", lambda self, name: real if name == ENGINE else stand_in(self, name))
    place = Home(home)
    folder = resolve_benchmark("rg:fraction_simplification", place, settings=shared_settings)
    spec = RunSpec.model_validate({"benchmark": "x", "base_model": "m", "benchmark_limit": 40})
    run = prepared(place.run("r"), spec, folder, home / "base")
    b = RunTools(run, Settings.model_validate({"FT_FILE_PATH": home, "TUNELOOP_UNSANDBOXED": "always"}))
    items = b.validation(folder).every
    forms = ("{}", "So it is <answer> {} </answer>.", "nonsense", "")
    write_json(home / "replies.json", [forms[i % 4].format(item.answer) for i, item in enumerate(items)])
    assert evaluated(b) == ["evaluate", "verify_reasoning_gym"]
    (score,) = validation_scores(b, 0)
    assert [item.value for item in score.items] == [1, 1, 0.01, 0] * 10
    command = read_command(b.run.baseline / "jobs" / "verify_reasoning_gym.1")
    assert (command.generated, command.network, command.argv[0]) == (True, False, str(real.python))


@pytest.mark.slow
def test_options_that_the_task_turns_down_are_one_line(shared_settings: Settings, tmp_path: Path):
    home = Home(tmp_path, shared_settings.home.engines)
    with pytest.raises(InvalidRequestError, match=r"only difficulty 1\.0 is supported"):
        resolve_benchmark("rg:gsm_symbolic?difficulty=2", home, settings=shared_settings)
    assert not list(home.benchmarks.glob("*/")) + list(home.benchmarks.rglob("*.json")), "no seed is left"


@pytest.mark.slow
def test_the_list_of_tasks_is_what_the_engine_says(shared_settings: Settings, tmp_path: Path):
    engine = ensure_engine("reasoning_gym", shared_settings)
    assert run_json_script(engine.python, SCRIPTS / "snapshot.py") == json.loads((SCRIPTS / "tasks.json").read_text())
