"""The learned oracles of Therapeutics Data Commons without scikit-learn: their files become arrays, NumPy computes.

The files are pickles of scikit-learn 0.23 and older: their trees cannot be loaded by any release since 1.3, and unpickling runs
whatever a file says. Here an unpickler makes nothing but NumPy arrays, numbers and stand-ins that hold what they are given.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.core import multiarray, numeric
from rdkit.Chem import rdFingerprintGenerator

from ._molecules import MORGAN

SIZE = 2048
FEATURES = rdFingerprintGenerator.GetMorganGenerator(
    radius=3, atomInvariantsGenerator=rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
)
FOREST, MACHINE = "RandomForestClassifier", "SVC"
STAND_INS = {
    "sklearn": {FOREST, MACHINE, "DecisionTreeClassifier", "Tree"},
    "scipy": {"csr_matrix"},
    "numpy": {"MT19937", "RandomState", "__RandomState_ctor", "__bit_generator_ctor", "__randomstate_ctor"},
}
# Where libsvm ends its iteration, and the probability that it keeps away from 0 and 1.
CLOSE, ROUNDS, SMALLEST = 0.0025, 100, 1e-7


class Part:
    """An object of the file: its attributes, and nothing that it could do."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        """Keep what it holds."""
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})


def rebuilt(kind: type, *_: Any) -> Any:
    """An object as the oldest protocols make it; only a stand-in."""
    if not issubclass(kind, Part):
        raise pickle.UnpicklingError(f"{kind.__name__} is no part of an oracle")
    return kind.__new__(kind)


def encoded(text: str, *_: Any) -> bytes:
    """Bytes as protocol 2 writes them."""
    return text.encode("latin1")


ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "_reconstruct"): multiarray._reconstruct,
    ("numpy", "_frombuffer"): numeric._frombuffer,
    ("numpy", "scalar"): multiarray.scalar,
    ("copyreg", "_reconstructor"): rebuilt,
    ("copy_reg", "_reconstructor"): rebuilt,
    ("builtins", "object"): object,
    ("__builtin__", "object"): object,
    ("_codecs", "encode"): encoded,
}


class Reader(pickle.Unpickler):
    """Reads arrays, numbers, lists and stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        """What an instruction names. Raises UnpicklingError for anything that is no part of an oracle."""
        top = module.partition(".")[0]
        known = ADMITTED.get((top, name))
        if known is not None:
            return known
        if name in STAND_INS.get(top, ()):
            return type(name, (Part,), {})
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no part of an oracle")


class Forest:
    """The mean over trees of the share of actives in the leaf where a molecule ends."""

    def __init__(self, model: Any) -> None:
        trees = [one.tree_ for one in model.estimators_]
        first = np.cumsum([0, *(len(tree.nodes) for tree in trees)])
        nodes = np.concatenate([tree.nodes[["feature", "threshold"]] for tree in trees])
        counts = np.concatenate([tree.values for tree in trees])
        if counts.shape[1:] != (1, 2) or nodes["feature"].max() >= SIZE:
            raise ValueError("its trees are not of two classes and 2048 bits")
        self.roots, self.feature, self.threshold = first[:-1], nodes["feature"], nodes["threshold"]
        self.left, self.right = (self.children(trees, first, side) for side in ("left_child", "right_child"))
        self.share = counts[:, 0, 1] / counts[:, 0].sum(axis=1)

    @staticmethod
    def children(trees: list[Any], first: Any, side: str) -> Any:
        """Where each node leads, -1 from a leaf. Raises ValueError where a way leads back or out."""
        found = []
        for tree, begin, end in zip(trees, first, first[1:], strict=False):
            to = tree.nodes[side].astype(np.int64)
            inner = to >= 0
            if (to[inner] <= np.flatnonzero(inner)).any() or (to >= end - begin).any():
                raise ValueError("its trees have no end")
            found.append(np.where(inner, to + begin, -1))
        return np.concatenate(found)

    def __call__(self, molecule: Any) -> float:
        """Probability of an active."""
        bits = np.zeros(SIZE)
        bits[list(MORGAN.GetFingerprint(molecule).GetOnBits())] = 1
        at = self.roots
        while (inner := self.left[at] >= 0).any():
            small = bits[self.feature[at]] <= self.threshold[at]
            at = np.where(inner, np.where(small, self.left[at], self.right[at]), at)
        return float(self.share[at].mean())


class Machine:
    """A support vector machine with a Gaussian kernel and Platt's probabilities, as libsvm has them."""

    def __init__(self, model: Any) -> None:
        if model.kernel != "rbf":
            raise ValueError(f"its kernel is {model.kernel!r}; right is 'rbf'")
        self.vectors = dense(model.support_vectors_)
        self.weights = dense(model._dual_coef_).ravel()
        self.offset, self.gamma = float(np.ravel(model._intercept_)[0]), float(model._gamma)
        told = vars(model)
        self.slope, self.shift = (float(told.get(f"_prob{n}", told.get(f"prob{n}_"))[0]) for n in "AB")
        if self.vectors.shape != (len(self.weights), SIZE):
            raise ValueError("its vectors are not of 2048 numbers")

    def __call__(self, molecule: Any) -> float:
        """Probability of an active."""
        counts = np.zeros(SIZE)
        for number, times in FEATURES.GetSparseCountFingerprint(molecule).GetNonzeroElements().items():
            counts[number % SIZE] += times
        near = np.exp(-self.gamma * ((self.vectors - counts) ** 2).sum(axis=1))
        steep = self.slope * (self.weights @ near + self.offset) + self.shift
        first = np.exp(-steep) / (1 + np.exp(-steep)) if steep >= 0 else 1 / (1 + np.exp(steep))
        return coupled(min(max(float(first), SMALLEST), 1 - SMALLEST))


def coupled(first: float) -> float:
    """The second class's probability, by libsvm's iteration from one half (Wu, Lin and Weng), which stops early."""
    second = 1 - first
    q = np.array([[second * second, -first * second], [-first * second, first * first]])
    p = np.array([0.5, 0.5])
    for _ in range(ROUNDS):
        qp = q @ p
        whole = p @ qp
        if np.abs(qp - whole).max() < CLOSE:
            break
        for t in range(2):
            step = (whole - qp[t]) / q[t, t]
            p[t] += step
            whole = (whole + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            qp = (qp + step * q[t]) / (1 + step)
            p /= 1 + step
    return float(p[1])


def dense(matrix: Any) -> Any:
    """An array, or a sparse matrix written out."""
    if not isinstance(matrix, Part):
        return np.asarray(matrix, dtype=np.float64)
    told = vars(matrix)
    found = np.zeros(told.get("_shape", told.get("shape")))
    rows = np.repeat(np.arange(len(found)), np.diff(told["indptr"]))
    found[rows, told["indices"]] = told["data"]
    return found


KINDS = {FOREST: Forest, MACHINE: Machine}


def oracle(file: Path) -> Forest | Machine:
    """What a file scores molecules with, 0 to 1. Raises ValueError in one line."""
    try:
        with file.open("rb") as f:
            model = Reader(f, encoding="latin1").load()
        kind = type(model).__name__
        if kind not in KINDS or not isinstance(model, Part):
            raise ValueError(f"it holds a {kind}; right is {' or '.join(KINDS)}")
        if np.asarray(model.classes_, dtype=float).tolist() != [0, 1]:
            raise ValueError("its classes are not 0 and 1")
        return KINDS[kind](model)
    except Exception as e:  # broken in whatever way: the readers of NumPy and pickle raise nearly everything
        raise ValueError(f"{file} is no oracle: {e}"[:400]) from e
