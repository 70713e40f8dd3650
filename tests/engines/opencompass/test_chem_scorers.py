"""Chemistry is judged by RDKit in the engine: what is right, and what the original evaluators got wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.catalog import Item
from tuneloop.tools.benchmark_items.resolve import load_entry
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.scoring.failures import explain_failures
from tuneloop.tools.scoring.scorer import JUDGING, THEIRS
from tuneloop.tools.scoring.verdicts import make_score

Verdict = dict[str, Any]
Judged = Callable[..., list[Verdict]]
SCRIPT = Path(__file__).with_name("judge_replies.py")


def told(engine: Engine, scorer: str, pairs: list[tuple[Any, str]]) -> Any:
    asked = [(json.dumps(gold), reply) for gold, reply in pairs]
    argv = [str(engine.python), "-B", str(SCRIPT), str(JUDGING), str(THEIRS / f"{scorer}.py")]
    done = subprocess.run(
        argv, input=json.dumps(asked), env=engine.env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def out(key: str, value: Any) -> str:
    return json.dumps({key: value})


def values(engine: Engine, scorer: str, pairs: list[tuple[Any, str]]) -> list[float]:
    return [one["value"] for one in told(engine, scorer, pairs)["verdicts"]]


COUNT = {"task": "fg_count", "gold": "3"}
SAME = {"task": "equivalence", "gold": "Yes"}
SCAFFOLD = {"task": "Murcko_scaffold", "gold": "c1ccc(Cc2ccccc2)cc1"}
UNDERSTOOD: list[tuple[dict[str, str], str, float]] = [
    (COUNT, out("count", 3), 1),
    (COUNT, out("count", "3"), 1),
    (COUNT, out("count", 3.0), 1),
    (COUNT, '```json\n{"output": "3"}\n```', 1),
    (COUNT, 'There are 5 candidates, two fall away.\n{"count": "3"}', 1),
    (COUNT, '{"count": 5} Wait, no: {"count": 3}', 1),
    (COUNT, "<think>{\"count\": 5}</think>{'count': 3}", 0),
    (COUNT, out("count", 4), 0),
    (COUNT, "about 3 of them", 0),  # the original takes any number
    (COUNT, out("count", True), 0),
    (COUNT, out("count", None), 0),
    (COUNT, "3", 1),
    (SAME, out("output", "yes"), 1),
    (SAME, out("output", "Yes."), 1),
    (SAME, out("output", "No"), 0),
    (SAME, "I cannot say yes or no.", 0),  # the original finds a yes
    (SCAFFOLD, out("Output Scaffold", "c1ccccc1Cc1ccccc1"), 1),
    (SCAFFOLD, out("output", "C(c1ccccc1)c1ccccc1"), 1),
    (SCAFFOLD, out("Output Scaffold", "c1ccccc1"), 0),
    (SCAFFOLD, out("Output Scaffold", "c1cccc"), 0),
]


def test_understanding(opencompass: Engine) -> None:
    found = values(opencompass, "chem_und", [(gold, reply) for gold, reply, _ in UNDERSTOOD])
    assert found == [value for *_, value in UNDERSTOOD]


def test_an_unreadable_count_is_the_worst_and_no_zero(opencompass: Engine) -> None:
    """The original counts it as 0, so that to say nothing is nearly right where little is to be counted."""
    near, nothing = {"task": "ring_count", "gold": "1"}, "no idea"
    one = told(opencompass, "chem_und", [(near, nothing)])
    assert (one["verdicts"][0]["parsed"], one["summary"]) == (None, {"mae_ring_count": 20})
    assert (
        told(opencompass, "chem_und", [(near, nothing), (near, out("count", 0))])["summary"]["mae_ring_count"] == 10.5
    )
    assert told(opencompass, "chem_und", [(near, out("count", 999999))])["summary"]["mae_ring_count"] == 20


def test_every_item_has_its_own_verdict_and_failures_are_shown(opencompass: Engine) -> None:
    """The original gives numbers of the whole alone, so that nobody sees what was wrong; some of its parts' numbers are
    called by other names than its page looks for, and are left out of the average.
    """
    asked = [(COUNT, out("count", 3)), (COUNT, "about 5"), (SAME, out("output", "No")), (SCAFFOLD, out("output", "CC"))]
    benchmark = load_entry("chemcotbench_mol_und")[0]
    items = tuple(
        Item(id=f"i{n}", fields={}, answer=json.dumps(gold), group=gold["task"]) for n, (gold, _) in enumerate(asked)
    )
    found = told(opencompass, "chem_und", asked)
    rows = [
        {"id": i.id, "prediction": reply, "answer": i.answer, **verdict}
        for i, (_, reply), verdict in zip(items, asked, found["verdicts"], strict=True)
    ]
    row = {"model": "m", "set": "s", "accuracy": 25.0, "metrics": found["summary"], "items": rows}
    score = make_score(row, ItemSet("s", benchmark, "validation", items))
    assert score.value == 25
    assert {name: group.value for name, group in score.groups.items()} == {
        "fg_count": 50,
        "equivalence": 0,
        "Murcko_scaffold": 0,
    }
    shown = explain_failures(score, {i.id: "" for i in items}, benchmark.max_new_tokens)["items"]
    assert [(one["kind"], one["prediction"]) for one in shown] == [
        ("unparsed", "about 5"),
        ("wrong", out("output", "No")),
        ("wrong", out("output", "CC")),
    ]


def test_a_ring_of_another_size_is_not_the_scaffold(opencompass: Engine) -> None:
    """By the original's fingerprints it is: similarity 1."""
    found = told(
        opencompass, "chem_und", [({"task": "Murcko_scaffold", "gold": "C1CCCCC1"}, out("output", "C1CCCCCCC1"))]
    )
    assert (found["verdicts"][0]["value"], found["summary"]) == (0, {"murcko_tanimoto": 1})


SOURCE = "CCCC(=O)Nc1ccc(Cl)cc1"


def edit(
    added: str = "", removed: str = "", reference: str = "CCCC(=O)Nc1ccc(O)cc1", source: str = SOURCE
) -> dict[str, str]:
    return {"source": source, "added": added, "removed": removed, "reference": reference}


EDITED: list[tuple[dict[str, str], str, float]] = [
    (edit("hydroxyl", "halo"), "CCCC(=O)Nc1ccc(O)cc1", 1),
    (edit("hydroxyl", "halo"), "CCCC(=O)Nc1cccc(O)c1", 1),
    (edit(removed="halo"), "c1ccccc1NC(=O)CCC", 1),
    (edit("hydroxyl"), "CC(O)CC(=O)Nc1ccc(Cl)cc1", 1),
    (edit("hydroxyl"), "OC(O)CC(=O)Nc1ccc(Cl)cc1", 0),  # two
    (edit("hydroxyl", "halo"), SOURCE, 0),
    (edit("hydroxyl"), "CCCCO", 0),  # one more, and nothing else of the source: right by the original
    (edit("hydroxyl"), f"{SOURCE}.O", 0),  # water is one more
    (edit("hydroxyl"), f"{SOURCE}.CCO", 0),  # so is any alcohol beside it
    (edit("hydroxyl"), "not a molecule", 0),
    (
        edit(removed="amide", reference="CCC.Nc1ccc(Cl)cc1"),
        "CCC.Nc1ccc(Cl)cc1",
        1,
    ),  # what falls apart by the reference may
    (
        edit("sulfide", source="CCCCc1ccccc1"),
        "CSSCCCc1ccccc1",
        0,
    ),  # a disulfide is none; the original counts one of its two
]


def test_editing(opencompass: Engine) -> None:
    found = values(opencompass, "chem_edit", [(gold, out("output", reply)) for gold, reply, _ in EDITED])
    assert found == [value for *_, value in EDITED]


def test_answers_that_the_original_accepts_are_distinguished(opencompass: Engine) -> None:
    found = told(opencompass, "chem_edit", [(edit("hydroxyl"), out("output", "CCCCO")), (edit("hydroxyl"), "?")])
    assert found["summary"]["counted_rate"] == found["summary"]["valid_rate"] == 50


def test_an_item_that_cannot_be_judged_is_named(opencompass: Engine) -> None:
    wrong = [(edit("unobtainium"), out("output", SOURCE)), (edit("halo", source="C1CC"), out("output", SOURCE))]
    found = told(opencompass, "chem_edit", wrong)
    assert [one["value"] for one in found["verdicts"]] == [0, 0]
    assert ["unknown groups" in one["error"] or "no molecule" in one["error"] for one in found["verdicts"]] == [
        True,
        True,
    ]


KIN, GREASE = "CCCC(=O)Nc1ccc(Cl)cc1C", "C" * 60
OPTIMISED: list[tuple[str, str, float]] = [
    ("logp", KIN, 1),
    ("logp", SOURCE, 0),
    ("logp", "c1cc(Cl)ccc1NC(=O)CCC", 0),  # the source, written otherwise
    ("logp", GREASE, 0),  # right by the original, for any source
    ("logp", "CCCC(=O)Nc1ccc(O)cc1", 0),
    ("solubility", "CCCC(=O)Nc1ccc(O)cc1", 1),
    ("solubility", KIN, 0),
    ("qed", KIN, 1),
    ("qed", GREASE, 0),
    ("logp", "C1CC", 0),
]


def test_optimising(opencompass: Engine) -> None:
    pairs = [
        ({"property": name, "source": SOURCE}, out("Final Target Molecule", reply)) for name, reply, _ in OPTIMISED
    ]
    found = told(opencompass, "chem_opt", pairs)
    assert [one["value"] for one in found["verdicts"]] == [value for *_, value in OPTIMISED]
    assert found["summary"]["success_rate_any"] == 40
    assert found["summary"]["valid_rate"] == 90


def test_a_trailing_comma_as_in_the_prompt_is_read(opencompass: Engine) -> None:
    reply = f'{{\n    "Final Target Molecule": "{KIN}",\n}}'
    assert values(opencompass, "chem_opt", [({"property": "logp", "source": SOURCE}, reply)]) == [1]


def wants(task: str, gold: str) -> dict[str, str]:
    return {"task": task, "gold": gold}


SALT = "CC(=O)[O-].C[NH3+]"
REACTED: list[tuple[dict[str, str], str, float]] = [
    (wants("fs", "CCOC(C)=O"), out("Major Product", "CC(=O)OCC"), 1),
    (wants("fs", "CCOC(C)=O"), '{"Major Product": "CC(=O)OCC"\n"Byproduct(s)": "O"}', 1),  # no comma, as in the prompt
    (wants("fs", "CCOC(C)=O"), out("Major Product", "CC(=O)OC"), 0),
    (wants("fs", "F/C=C/F"), '{"output": "F/C=C/F"}', 1),
    (wants("fs", "F/C=C/F"), '{"output": "F/C=C\\F"}', 0),  # no JSON, but a molecule: the other one
    (wants("fs", "F/C=C\\F"), '{"output": "F/C=C\\F"}', 1),
    (wants("retro", "CCO.CC(=O)O"), out("Reactants", ["CC(O)=O", "OCC"]), 1),
    (wants("retro", "CCO.CC(=O)O"), out("Reactants", "CCO"), 0),
    (
        wants("retro", "CC(C)(O)c1ccccc1N#CCCl"),
        out("Reactants", "N#CCCl.CC(C)(O)c1ccccc1"),
        1,
    ),  # lost its dot in the set
    (wants("retro", "CC(C)(O)c1ccccc1N#CCCl"), out("Reactants", "N#CCCl.CC(O)c1ccccc1"), 0),
    (wants("rcr", "CCOC(C)=O.ClCCl"), out("output", "ClCCl.CC(=O)OCC"), 1),  # the original reads `output` as nothing
    (wants("rcr", "CCOC(C)=O.ClCCl"), out("SMILES", "ClCCl.CCOC(C)=O"), 1),  # and the prompt's own key neither
    (wants("rcr", "c1ccccc1"), out("condition", "C1CCCCC1"), 0),  # lower case makes benzene of it
    (wants("rcr", "[Ni]"), "Nickel is best.\n" + out("SMILES", "[Ni]"), 1),  # reasoning before JSON without a fence
    (wants("nepp", SALT), "First the proton.\n" + out("pred_smi", "C[NH3+].CC([O-])=O"), 1),
    (wants("nepp", SALT), out("pred_smi", "CN.CC(=O)O"), 0),  # the step not done: one InChI for both
    (wants("mechsel", "B"), out("choice", "b"), 1),
    (wants("mechsel", "B"), out("output", "(B)"), 1),  # the original does not read `output`
    (wants("mechsel", "B"), out("choice", "B: Halide leaves"), 1),
    (wants("mechsel", "T"), out("choice", "the answer is B"), 0),  # its first letter, for the original
    (wants("mechsel", "A"), "A mechanism like that is hard to tell", 0),
]


def test_reactions(opencompass: Engine) -> None:
    found = values(opencompass, "chem_reaction", [(gold, reply) for gold, reply, _ in REACTED])
    assert found == [value for *_, value in REACTED]


def test_what_is_no_molecule_counts_in_every_metric(opencompass: Engine) -> None:
    """The original gives it a distance of 0, the best there is."""
    gold = wants("fs", "CCOC(C)=O")
    found = told(opencompass, "chem_reaction", [(gold, out("output", "C1CC")), (gold, out("output", "CCOC(C)=O"))])[
        "summary"
    ]
    assert found == {
        "validity": 50,
        "morgan_similarity": 0.5,
        "maccs_similarity": 0.5,
        "rdk_similarity": 0.5,
        "levenshtein": 4.5,
    }


HOSTILE = {
    "long": "C" * 100_000,
    "brackets": "C(" * 499,
    "many atoms": "C" * 999,
    "many pieces": ".".join("C" * 400),
    "many rings": "C1CC1" * 199,
    "a tangle": "".join("[U]" + "".join(f"%{10 + i + j}" for j in range(12)) for i in range(12)),
    "branches": "C(C)(C)" * 100,
    "centres": "C[C@H](O)" * 30,
    "charges": "[Fe+9]" * 50,
    "nothing": "\x00",
    "letters": "ÇÇÇ",
    "a reaction": "C>>C",
    "a pattern": "[#6]~[!#1]",
}
DEEP = ['{"a":' * 4000, "{" * 20_000, '{"output": "' + "\\" * 9000, '"output": ' * 2000]


@pytest.mark.parametrize("scorer", ["chem_und", "chem_edit", "chem_opt", "chem_reaction"])
def test_hostile_replies_neither_crash_nor_hold_up(scorer: str, opencompass: Engine) -> None:
    golds = {"chem_und": SCAFFOLD, "chem_edit": edit("halo"), "chem_opt": {"property": "solubility", "source": SOURCE}}
    gold = golds.get(scorer, wants("fs", "CCO"))
    replies = [out("output", text) for text in HOSTILE.values()] + DEEP
    found = told(opencompass, scorer, [(gold, reply) for reply in replies])["verdicts"]
    assert len(found) == len(replies)
    assert not any(one["value"] or one["error"] for one in found)
