"""Molecules out of replies, by RDKit: bounded before it reads them, for its code neither stops nor survives everything."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Any

from rdkit import Chem, DataStructs, RDLogger
from rdkit.Chem import MACCSkeys, rdFingerprintGenerator
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

RDLogger.DisableLog("rdApp.*")

LONGEST, ATOMS, RINGS, BONDS = 1000, 300, 40, 8  # characters, heavy atoms, independent rings, bonds of one atom
WRITING = re.compile(r"[A-Za-z0-9@+\-\[\]().=#$:/\\%~]+")
MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
PATHS = rdFingerprintGenerator.GetRDKitFPGenerator()


@lru_cache(maxsize=4096)
def molecule(text: str) -> Any:
    """The molecule that a SMILES text writes; None where it writes none, or one larger than any drug."""
    if len(text) > LONGEST or not WRITING.fullmatch(text):
        return None
    try:
        found = Chem.MolFromSmiles(text, sanitize=False)
        if found is None or not 0 < found.GetNumAtoms() <= ATOMS or tangled(found):
            return None
        return Chem.MolFromSmiles(text)
    except (ValueError, RuntimeError):
        return None


def tangled(found: Any) -> bool:
    """Whether it has more rings or bonds than its paths could be counted for."""
    pieces = len(Chem.GetMolFrags(found))
    rings = found.GetNumBonds() - found.GetNumAtoms() + pieces
    return rings > RINGS or any(atom.GetDegree() > BONDS for atom in found.GetAtoms())


def canonical(found: Any) -> str:
    """One writing of it for all."""
    return str(Chem.MolToSmiles(found))


def same(one: Any, other: Any) -> bool:
    """Whether both are the same compounds: piece by piece the same formula and charge, and the same writing or InChI.

    By pieces, because one InChI of a mixture cannot tell which piece has the proton.
    """
    ours, theirs = pieces(one), pieces(other)
    if Counter(map(CalcMolFormula, ours)) != Counter(map(CalcMolFormula, theirs)):
        return False
    return Counter(map(canonical, ours)) == Counter(map(canonical, theirs)) or (
        Counter(map(inchi, ours)) == Counter(map(inchi, theirs))
    )


def pieces(found: Any) -> tuple[Any, ...]:
    """Its compounds."""
    return tuple(Chem.GetMolFrags(found, asMols=True))


def inchi(found: Any) -> str:
    """Its InChI, or its writing where InChI knows nothing of it."""
    return str(Chem.MolToInchi(found)) or canonical(found)


def similarity(one: Any, other: Any) -> float:
    """Tanimoto of Morgan fingerprints, radius 2, 2048 bits; 0 to 1."""
    return float(DataStructs.TanimotoSimilarity(MORGAN.GetFingerprint(one), MORGAN.GetFingerprint(other)))


def similarities(one: Any, other: Any) -> dict[str, float]:
    """Tanimoto by Morgan counts, MACCS keys and RDKit's paths; 0 to 1 each."""
    made = {
        "morgan": (MORGAN.GetCountFingerprint(one), MORGAN.GetCountFingerprint(other)),
        "maccs": (MACCSkeys.GenMACCSKeys(one), MACCSkeys.GenMACCSKeys(other)),
        "rdk": (PATHS.GetFingerprint(one), PATHS.GetFingerprint(other)),
    }
    return {name: float(DataStructs.TanimotoSimilarity(*both)) for name, both in made.items()}
