"""ChemCoTBench, optimising molecules for a protein: more activity by an oracle of Therapeutics Data Commons, and still kin.

drd: dopamine receptor D2, a support vector machine; gsk and jnk: the kinases GSK-3 beta and JNK3, forests. All give a probability.
Gold and what is right are as in `chem_opt`. The oracles are files that somebody has to bring; without them nothing is judged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._oracles import oracle
from .chem_opt import judged, summed

READS = (
    'the last "Final Target Molecule" (or "output", "answer") of a JSON object as SMILES, e.g. '
    '`{"output": "CCO"}`; more activity, still like its source'
)

# SHA-256 of the files that TDC's data verse has under 6413411, 6413412 and 6413420.
FILES = {
    "tdc/drd2_current.pkl": "ef1f00e47d5e4670a45b0a4178db3c41b2e1aa9dad7113ac9d0f58e3f9d67532",
    "tdc/gsk3b_current.pkl": "d3a20701b80e5179c88c3ad4dc3483dd7ab35c50dc055c6773a7f5b63e89b6d5",
    "tdc/jnk3_current.pkl": "cde8576fb4fa3f60b9f258ff9cf1b9ff346eb50d196d5cbbe25965efc1864889",
}
NAMES = ("drd", "gsk", "jnk")
ORACLES: dict[str, Any] = {}


def use(folder: Path) -> None:
    """Read the oracles, before the first item. Raises ValueError for one that is none."""
    ORACLES.update({name: oracle(folder / file) for name, file in zip(NAMES, FILES, strict=True)})


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The verdict, with what the summary needs. Raises ValueError where the item itself cannot be read."""
    return judged(gold, reply, ORACLES)


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Metrics over all items, as of `chem_opt`; gains are of a probability."""
    return summed(rows, NAMES)
