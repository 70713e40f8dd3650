"""What replies are worth: the verifier in its harness gives what the task's `score_answer` gives when it is called directly."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.reasoning_gym import ENGINE, declare_reasoning_gym
from tuneloop.tools.benchmark_items.reasoning_gym_items import MAKE, TYPED
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring.code_results import verified_answer

HARNESS = ENGINES / "answers" / "run_verifier.py"
TASKS = (
    "ab", "advanced_geometry", "base_conversion", "calendar_arithmetic", "chain_sum", "complex_arithmetic", "countdown",
    "family_relationships", "fraction_simplification", "game_of_life", "group_anagrams", "leg_counting", "letter_counting",
    "mini_sudoku", "needle_haystack", "number_sorting", "prime_factorization", "spell_backward", "syllogism", "word_ladder",
)  # fmt: skip
ITEMS = 50
# Right ones in several dresses, another item's, broken ones: scored by the library alone, its own reader of tags included.
DIRECT = """\
import importlib.util, json, re, sys, warnings
warnings.simplefilter("ignore")
import reasoning_gym
from reasoning_gym.utils import extract_answer
make, typed, out, count, *tasks = sys.argv[1:]
spec = importlib.util.spec_from_file_location("make_items", make)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
typed = module.load(typed)
DRESSES = (
    lambda own, other: own,
    lambda own, other: f"First <answer>{other}</answer>, no: <answer> {own} </answer>.",
    lambda own, other: f"<answer>{other}</answer>",
    lambda own, other: re.sub(r"\\d", lambda d: str((int(d[0]) + 1) % 10), own) if re.search(r"\\d", own) else own.swapcase() + "x",
)
def worth(dataset, reply, entry):
    found = extract_answer(reply)
    try:
        return float(dataset.score_answer(reply.strip() if found is None else found, entry))
    except Exception as e:
        return type(e).__name__
rows = {}
for task in tasks:
    dataset = reasoning_gym.create_dataset(task, seed=7, size=1000)
    entries = [one for one in (dataset[i] for i in range(2 * int(count))) if one["answer"].strip()][: int(count)]
    rows[task] = []
    for i, entry in enumerate(entries):
        row = module.as_row(entry, typed)
        for dress in DRESSES:
            reply = dress(row["answer"], str(entries[i - 1]["answer"]))
            worthy = worth(dataset, reply, entry)
            rows[task].append(dict(entry=row["entry"], right=row["answer"], reply=reply, worth=worthy))
with open(out, "w") as f:
    json.dump(rows, f)
"""


@pytest.mark.slow
def test_twenty_tasks_score_as_the_library_does(shared_settings: Settings, tmp_path: Path) -> None:
    engine = ensure_engine(ENGINE, shared_settings)

    def runs(*argv: object) -> None:
        env = {**engine.env, "PYTHONPATH": str(ENGINES), "PYTHONHASHSEED": "0", "TMPDIR": str(tmp_path)}
        words = [str(engine.python), *map(str, argv)]
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    runs("-c", DIRECT, MAKE, TYPED, tmp_path / "direct.json", ITEMS, *TASKS)
    direct = json.loads((tmp_path / "direct.json").read_text())
    sets = []
    for task, rows in direct.items():
        items, verifier = tmp_path / f"{task}.jsonl", tmp_path / f"{task}.py"
        verifier.write_text(declare_reasoning_gym(f"rg:{task}").verifier)
        asked = [
            {"id": str(i), "answer": verified_answer(r["reply"]), "right": r["right"], "item": {"entry": r["entry"]}}
            for i, r in enumerate(rows)
        ]
        items.write_text("".join(json.dumps(row) + "\n" for row in asked))
        sets.append({"model": "m", "set": task, "verifier": str(verifier), "items": str(items)})
    (tmp_path / "job.json").write_text(json.dumps({"out": str(tmp_path / "out"), "seconds": 10, "sets": sets}))
    (tmp_path / "out").mkdir()
    runs("-B", HARNESS, tmp_path / "job.json")
    for found in json.loads((tmp_path / "out" / "results.json").read_text())["results"]:
        rows = direct[found["set"]]
        said = [one["results"][0].get("value", one["results"][0].get("error")) for one in found["items"]]
        assert said == [row["worth"] for row in rows], found["set"]
        assert len(rows) == 4 * ITEMS
        assert said[::4] == [1.0] * ITEMS, found["set"]
        assert sum(said[3::4]) < ITEMS, found["set"]
