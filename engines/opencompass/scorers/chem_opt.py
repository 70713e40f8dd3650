"""ChemCoTBench, optimising molecules: the property grows and the molecule is still the source's kin.

logp: Wildman-Crippen; qed: Bickerton's with mean weights; solubility: ESOL (Delaney's form, the benchmark's coefficients).
The benchmark lets any molecule pass that has more of the property, and one long chain is the best answer to everything;
here it must also resemble its source (Tanimoto 0.4 and more, the usual bound of constrained optimisation). Gold:
{"property", "source"}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

from rdkit import Chem
from rdkit.Chem import QED, Crippen, Descriptors, Lipinski
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from ._answers import answer
from ._molecules import canonical, molecule, same, similarity

READS = (
    'the last "Final Target Molecule" (or "output", "answer") of a JSON object as SMILES, e.g. '
    '`{"output": "CCO"}`; more of the property, still like its source'
)

KEYS = ("Final Target Molecule", "output", "answer")
ALIKE = 0.4
ROUNDING = 1e-6
THRESHOLDS = {"logp": 0.5, "solubility": 0.5}
AROMATIC = Chem.MolFromSmarts("a")


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The verdict, with what the summary needs. Raises ValueError where the item itself cannot be read."""
    return judged(gold, reply, PROPERTIES)


def judged(gold: str, reply: str, properties: Mapping[str, Callable[[Any], float]]) -> dict[str, Any]:
    """The verdict by one of `properties`."""
    wanted = json.loads(gold)
    name, source = wanted["property"], molecule(wanted["source"])
    if source is None:
        raise ValueError(f"the source is no molecule: {wanted['source'][:80]}")
    given = molecule(answer(reply, KEYS) or "")
    if given is None:
        return {"parsed": None, "value": 0.0, "gain": None, "property": name, "scaffold": False}
    gain = 0.0 if same(given, source) else properties[name](given) - properties[name](source)
    better = gain > ROUNDING
    return {
        "parsed": canonical(given),
        "value": float(better and similarity(given, source) >= ALIKE),
        "gain": gain,
        "property": name,
        "scaffold": MurckoScaffoldSmiles(mol=given) == MurckoScaffoldSmiles(mol=source),
    }


def solubility(found: Any) -> float:
    """log10 of mol/l by ESOL."""
    aromatic = len(found.GetSubstructMatches(AROMATIC, maxMatches=1000)) / found.GetNumAtoms()
    return (
        0.26121066137801696
        - 0.7416739523408995 * Crippen.MolLogP(found)
        - 0.0066138847738667125 * Descriptors.MolWt(found)
        + 0.003451545565957996 * Lipinski.NumRotatableBonds(found)
        - 0.42624840441316975 * aromatic
    )


PROPERTIES = {"qed": QED.qed, "logp": Crippen.MolLogP, "solubility": solubility}


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Metrics over all items."""
    return summed(rows, PROPERTIES)


def summed(rows: list[dict[str, Any]], names: Iterable[str]) -> dict[str, float]:
    """Metrics over all items of the properties `names`, rates in percent.

    `valid_rate`: replies that are molecules; `success_rate_any`: the benchmark's own rule, any gain; `best_rate`: gains of 0.5
    (logp, solubility) or 0.3 (all others) and more, of any molecule; `scaffold_hard`: the source's scaffold is kept;
    `mean_gain_*`: in the property's unit, where there is no molecule there is no gain.
    """
    gains = [row.get("gain") or 0.0 for row in rows]
    told = {
        "valid_rate": 100 * fmean(row["parsed"] is not None for row in rows),
        "success_rate_any": 100 * fmean(gain > ROUNDING for gain in gains),
        "best_rate": 100
        * fmean(gain >= THRESHOLDS.get(str(row.get("property")), 0.3) for gain, row in zip(gains, rows, strict=True)),
        "scaffold_hard": 100 * fmean(bool(row.get("scaffold")) for row in rows),
    }
    for name in names:
        of_it = [gain for gain, row in zip(gains, rows, strict=True) if row.get("property") == name]
        if of_it:
            told[f"mean_gain_{name}"] = fmean(of_it)
    return told
