"""ChemCoTDataset in its real form, made up: a JSON list for each subtask; the one of rcr has other fields than all others."""

import json
from typing import Any

SUBTASKS = {
    "mol_und": ("fg_count", "ring_count", "Murcko_scaffold", "ring_system_scaffold"),
    "mol_edit": ("add", "delete", "sub"),
    "mol_opt": ("logp", "solubility", "qed", "drd", "jnk", "gsk"),
    "rxn": ("fs", "rcr", "bp"),
}
MOLECULES = ("CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "CC(C)O", "OCC=C", "c1ccncc1")


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    found = {"README.md": b"---\nlicense: mit\n---\n# Made up\n"}
    for task, subtasks in SUBTASKS.items():
        for subtask in subtasks:
            rows = [damaged(row(task, subtask, n)) if subtask == "rcr" else row(task, subtask, n) for n in range(6)]
            found[f"chemcotbench-cot/{task}/{subtask}.json"] = json.dumps(rows, indent=4).encode()
    return found


def row(task: str, subtask: str, n: int) -> dict[str, Any]:
    """A question about one molecule."""
    molecule = MOLECULES[n]
    steps = {"molecule_structure_analysis": f"{molecule} is read from left to right.", "output": str(n)}
    return {
        "id": f"{subtask}_{n}",
        "query": f"Look at the molecule {molecule} and do task {subtask}, number {n}.",
        "task": task,
        "subtask": subtask,
        "struct_cot": json.dumps(steps),
        "raw_cot": f"First I read {molecule}. Then I count. The result is {n}.",
        "meta": json.dumps({"molecule": molecule, "reference": n}),
    }


def damaged(sound: dict[str, Any]) -> dict[str, Any]:
    """The row as rcr has it: the reference apart, the steps under another name and in a fence; one row without a fence."""
    fenced = sound["struct_cot"] if sound["id"].endswith("3") else f"```json\n{sound['struct_cot']}\n```"
    kept = {key: value for key, value in sound.items() if key not in ("struct_cot", "meta")}
    return {**kept, "gt": {"reagents": ["CCO", "[Na+]"]}, "cot_result": fenced, "meta": json.dumps({"from": "made up"})}
