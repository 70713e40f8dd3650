"""Chemistry, code and charts: from the source's files through the real engine, by answerers of known worth."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_answers import item_set, splits
from tests.tools.benchmarks.test_coding_sets import solutions
from tuneloop.core.catalog import Item
from tuneloop.core.job import Limits
from tuneloop.core.score import Score
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.code_execution import add_code_results, execution_command
from tuneloop.tools.evaluation.item_sets import ItemSet, ModelWeights, Pair, evaluation_command
from tuneloop.tools.scoring.verdicts import make_score, read_rows

CHEMISTRY = ("chemcotbench_mol_und", "chemcotbench_mol_edit", "chemcotbench_mol_opt", "chemcotbench_reaction")
CODE = ("humaneval", "mbpp", "tablebench_visualization")
Answerer = Callable[[str, Item], str]


@pytest.mark.parametrize("name", [*CHEMISTRY, "tablebench_visualization"])
def test_splits_of_the_source_are_whole_and_apart(name: str, tmp_path: Path) -> None:
    benchmark = resolve.load_entry(name)[0]
    validation, test = splits(name, tmp_path)
    check_items(benchmark, validation, test, name)
    assert benchmark.source and benchmark.licence != "unknown"
    for item in (*validation, *test):
        assert len(render_prompt(benchmark, item)) > 60


def test_the_families_name_their_parts() -> None:
    assert resolve.family_members("chemcotbench") == CHEMISTRY
    assert resolve.family_members("tablebench_gen")[-1] == "tablebench_visualization"


def test_replies_have_room_for_reasoning() -> None:
    """The original cuts chemistry and math at 1,024 tokens and mbpp at 512, while training data must hold long reasoning."""
    limits = {name: resolve.load_entry(name)[0].max_new_tokens for name in (*CHEMISTRY, "math", "math500", "mbpp")}
    assert all(limit > (512 if name == "mbpp" else 1024) for name, limit in limits.items())


def test_prompts_of_chemistry_are_the_sources_own(tmp_path: Path) -> None:
    asked = {
        i.id: render_prompt(resolve.load_entry(n)[0], i)
        for n in CHEMISTRY
        for side in splits(n, tmp_path)
        for i in side
    }
    rows = [row for path in tmp_path.rglob("chemcotbench/*/*.json") for row in json.loads(path.read_text())]
    assert len(rows) == len(asked) + 18
    assert all(asked[row["id"]] == row["query"] for row in rows if row["subtask"] not in ("drd", "gsk", "jnk"))


def test_what_no_oracle_is_there_for_is_left_out_and_named(tmp_path: Path) -> None:
    """The original asks an oracle that is not there and counts a miss each time."""
    benchmark = resolve.load_entry("chemcotbench_mol_opt")[0]
    groups = {item.group for side in splits(benchmark.name, tmp_path) for item in side}
    assert groups == {"logp", "qed", "solubility"}
    assert benchmark.unavailable.keys() == {"drd", "gsk", "jnk"}
    assert all("Therapeutics Data Commons" in why for why in benchmark.unavailable.values())
    assert all("chemcotbench_mol_opt_oracles" in why for why in benchmark.unavailable.values())
    with_oracles = {item.group for side in splits("chemcotbench_mol_opt_oracles", tmp_path) for item in side}
    assert with_oracles == benchmark.unavailable.keys()


def test_a_source_molecule_may_have_several_pieces(tmp_path: Path) -> None:
    """The original cuts it at its first dot."""
    benchmark, module = resolve.load_entry("chemcotbench_mol_opt")
    folder = tmp_path / "chemcotbench"
    folder.mkdir()
    row = {
        "id": "1",
        "query": "Raise it.\nSource Molecule: CC[NH3+].[Cl-].",
        "gt": "",
        "task": "mol_opt",
        "subtask": "logp",
        "meta": "{}",
    }
    (folder / "logp.json").write_text(json.dumps([row]))
    (item,) = module.pool(benchmark, tmp_path)
    assert json.loads(item.answer) == {"property": "logp", "source": "CC[NH3+].[Cl-]"}


KEYS = {"fg_count": "count", "ring_count": "count", "Murcko_scaffold": "Output Scaffold"}
KEYS |= {"fs": "Major Product", "retro": "Reactants", "rcr": "SMILES", "nepp": "pred_smi", "mechsel": "choice"}
DRAW = {
    "bar": "df['visits'][:4].plot.bar()",
    "hbar": "plt.barh(df['town'][:4], df['visits'][:4])",
    "line": "fig, ax = plt.subplots()\nax.plot(df['visits'][:4])\nfig.savefig('x.png')\nplt.close(fig)",
    "pie": "plt.pie(df['visits'][:4])\nplt.show()",
    "scatter": "plt.scatter(range(4), df['visits'][:4])",
    "area": "df[['visits']][:4].plot.area()",
}
HEAD = "import pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.read_csv('table.csv')\n"


def right(name: str, item: Item, known: dict[str, str]) -> str:
    """What earns all."""
    if name in CODE:
        code = known.get(item.id) or HEAD + DRAW[item.group]
        return f"Let us see.\n```python\n{code}\n```"
    gold = json.loads(item.answer)
    if name == "chemcotbench_mol_edit":
        return json.dumps({"output": gold["reference"]})
    if name == "chemcotbench_mol_opt":
        better = f"O{gold['source']}" if gold["property"] == "solubility" else f"{gold['source']}Cl"
        return f'{{\n  "Final Target Molecule": "{better}",\n}}'
    text = gold["gold"].replace("N#C", ".N#C") if gold["task"] == "retro" else gold["gold"]
    return "It follows that\n" + json.dumps({KEYS.get(gold["task"], "output"): text})


CONSTANT = {
    "chemcotbench_mol_und": json.dumps({"count": "3", "output": "Yes", "Output Scaffold": "c1ccccc1"}),
    "chemcotbench_mol_edit": json.dumps({"output": "CCCCO"}),
    "chemcotbench_mol_opt": json.dumps({"output": "C" * 60}),
    "chemcotbench_reaction": json.dumps({"choice": "B", "SMILES": "[Ni]", "output": "CCO"}),
    "humaneval": "```python\ndef count_rivers(values, least):\n    return sum(least <= v <= 20 for v in values)\n```",
    "mbpp": "```python\nimport math\ndef area_of_letters_2(r): return 3 * math.pi * r * r\n```",
    "tablebench_visualization": f"```python\n{HEAD}{DRAW['bar']}\n```",
}


def constant_share(name: str, items: tuple[Item, ...]) -> float:
    """What the constant reply is worth: by the golds alone."""
    if name in ("humaneval", "mbpp"):
        return 1 / len(items)
    if name == "tablebench_visualization":
        return sum(item.group == "bar" for item in items) / len(items)
    if name in ("chemcotbench_mol_edit", "chemcotbench_mol_opt"):
        return 0
    golds = [json.loads(item.answer) for item in items]
    said = {"fg_count": "3", "ring_count": "3", "Murcko_scaffold": "c1ccccc1", "ring_system_scaffold": "Yes"}
    said |= {"equivalence": "Yes", "mechsel": "B", "rcr": "[Ni]"}
    return len([gold for gold in golds if gold["gold"] == said.get(gold["task"])]) / len(golds)


@pytest.fixture(scope="module")
def scores(opencompass: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[Pair, Score]:
    """Everything in one job that answers and judges, and one that runs code."""
    folder = tmp_path_factory.mktemp("measured")
    sets = [item_set(name, folder) for name in (*CHEMISTRY, *CODE)]
    known = {item: code for name in ("humaneval", "mbpp") for item, code in solutions(name, folder).items()}
    answerers: dict[str, Answerer] = {
        "oracle": lambda name, item: right(name, item, known),
        "nothing": lambda name, item: "",
        "echo": lambda name, item: render_prompt(resolve.load_entry(name)[0], item),
        "constant": lambda name, item: CONSTANT[name],
        "unreadable": lambda name, item: f"<think>{right(name, item, known)}",
    }
    return measured(opencompass, folder, sets, answerers)


def measured(engine: Engine, folder: Path, sets: list[ItemSet], answerers: dict[str, Answerer]) -> dict[Pair, Score]:
    models = []
    for who, answer in answerers.items():
        rows = [{"set": s.name, "id": i.id, "prediction": answer(s.name, i)} for s in sets for i in s.items]
        (folder / f"{who}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        models.append(ModelWeights(who, folder / f"{who}.jsonl", replies=True))
    given = {one.name: one for one in sets}
    run(evaluation_command(engine, models, sets, folder / "answered"))
    told = read_rows(folder / "answered")
    coded = {pair: row for pair, row in told.items() if given[pair[1]].benchmark.executed}
    command = execution_command(engine, coded, given, folder / "work" / "executed", Limits())
    sandbox = ProcessSandbox() if probe_bubblewrap() else BubblewrapSandbox()
    job = launch(sandbox, folder / "jobs", "executed", command)
    assert wait(sandbox, job).ok, log_tail(job)
    told |= add_code_results(folder / "work" / "executed", coded)
    return {pair: make_score(row, given[pair[1]]) for pair, row in told.items()}


def run(command: Any) -> None:
    done = subprocess.run(command.argv, env=command.env, cwd=command.cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("name", [*CHEMISTRY, *CODE])
def test_answerers_get_what_they_are_worth(name: str, scores: dict[Pair, Score]) -> None:
    oracle = scores["oracle", name]
    assert (oracle.value, oracle.parsed) == (100, 100), [i for i in oracle.items if not i.correct][:2]
    for who in ("nothing", "unreadable"):
        assert (scores[who, name].value, scores[who, name].parsed) == (0, 0)
        assert scores[who, name].n == oracle.n
    assert scores["echo", name].value == 0
    assert scores["constant", name].value == pytest.approx(100 * constant_share(name, given_items(scores, name)))
    assert not any(item.error for who in ("oracle", "constant", "echo") for item in scores[who, name].items)


def given_items(scores: dict[Pair, Score], name: str) -> tuple[Item, ...]:
    found = scores["oracle", name].items
    return tuple(Item(id=one.id, fields={}, answer=one.answer, group=one.group) for one in found)


def test_further_metrics_tell_what_the_original_would_have_said(scores: dict[Pair, Score]) -> None:
    assert scores["constant", "chemcotbench_mol_opt"].metrics["success_rate_any"] > 30
    assert scores["oracle", "chemcotbench_reaction"].metrics["levenshtein"] == 0
    assert scores["nothing", "chemcotbench_mol_und"].metrics["mae_fg_count"] == 20
    charts = [scores[who, "tablebench_visualization"].metrics for who in ("oracle", "constant", "nothing")]
    assert charts == [{"Parse@1": 100, "ECR@1": 100}] * 2 + [{"Parse@1": 0, "ECR@1": 0}]
    for name in CHEMISTRY:
        benchmark = resolve.load_entry(name)[0]
        assert scores["oracle", name].metrics.keys() == set(benchmark.metrics)
        assert len(scores["oracle", name].groups) == len({i.group for i in scores["oracle", name].items})
