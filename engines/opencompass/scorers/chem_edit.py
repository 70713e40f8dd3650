"""ChemCoTBench, editing molecules: the asked group comes, goes or is exchanged, exactly once, and the rest stays.

The benchmark counts groups alone, so that any molecule with one group more passes; here the edited molecule must also
resemble its source and must not fall into more pieces. Gold: {"source", "added", "removed", "reference"}.
"""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any

from rdkit import Chem

from ._answers import answer
from ._molecules import canonical, molecule, pieces, similarity

READS = (
    'the last "output" (or "answer") of a JSON object: the edited molecule as SMILES, e.g. `{"output": '
    '"CCO"}`; one group changed, the rest kept'
)

KEYS = ("output", "answer")
# Reference edits of the public set begin at 0.40, molecules that have nothing to do with each other end at 0.25.
ALIKE = 0.3
GROUPS = {
    "benzene": "[cR1]1[cR1][cR1][cR1][cR1][cR1]1",
    "benzene_ring": "[cR1]1[cR1][cR1][cR1][cR1][cR1]1",
    "hydroxyl": "[OX2H]",
    "aldehyde": "[CX3H1](=O)[#6]",
    "ketone": "[#6][CX3](=O)[#6]",
    "carboxyl": "[CX3](=O)[OX2H1]",
    "ester": "[#6][CX3](=O)[OX2H0][#6]",
    "anhydride": "[CX3](=[OX1])[OX2][CX3](=[OX1])",
    "amine": "[NX3;H2,H1;!$(NC=O)]",
    "amide": "[NX3][CX3](=[OX1])[#6]",
    "nitro": "[$([NX3](=O)=O),$([NX3+](=O)[O-])][!#8]",
    "halo": "[F,Cl,Br,I]",
    "thiol": "[#16X2H]",
    "thioether": "[SX2][CX4]",
    "disulfide": "[#16X2H0][#16X2H0]",
    "sulfoxide": "[$([#16X3]=[OX1]),$([#16X3+][OX1-])]",
    "sulfone": "[$([#16X4](=[OX1])=[OX1]),$([#16X4+2]([OX1-])[OX1-])]",
    "sulfide": "[#16X2H0;!$([#16X2H0][#16X2H0])]",
    "nitrile": "[NX1]#[CX2]",
    "borane": "[BX3]",
}
PATTERNS = {name: Chem.MolFromSmarts(smarts) for name, smarts in GROUPS.items()}


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The verdict, with what the summary needs. Raises ValueError where the item itself cannot be read."""
    wanted = json.loads(gold)
    source, reference = molecule(wanted["source"]), molecule(wanted.get("reference") or "")
    if source is None:
        raise ValueError(f"the source is no molecule: {wanted['source'][:80]}")
    asked = {group: step for group, step in ((wanted["added"], 1), (wanted["removed"], -1)) if group}
    if not asked or asked.keys() - PATTERNS.keys():
        raise ValueError(f"unknown groups: {sorted(asked)}")
    given = molecule(answer(reply, KEYS) or "")
    if given is None:
        return {"parsed": None, "value": 0.0, "counted": False, "tanimoto": 0.0}
    counted = all(number(given, group) == number(source, group) + step for group, step in asked.items())
    most = max(len(pieces(one)) for one in (source, reference) if one is not None)
    kept = similarity(given, source) >= ALIKE and len(pieces(given)) <= most
    near = similarity(given, reference) if reference is not None else 0.0
    return {"parsed": canonical(given), "value": float(counted and kept), "counted": counted, "tanimoto": near}


def number(found: Any, group: str) -> int:
    """How often it has the group."""
    return len(found.GetSubstructMatches(PATTERNS[group]))


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Metrics over all items, in percent.

    `valid_rate`: replies that are molecules; `counted_rate`: the benchmark's own rule; `reference_tanimoto`: mean similarity
    to the reference, 0 where there is no molecule.
    """
    return {
        "valid_rate": 100 * fmean(row["parsed"] is not None for row in rows),
        "counted_rate": 100 * fmean(row.get("counted", False) for row in rows),
        "reference_tanimoto": 100 * fmean(row.get("tanimoto", 0.0) for row in rows),
    }
