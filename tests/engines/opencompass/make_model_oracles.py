"""Inside the engine: small oracles in the form of TDC's, and what scikit-learn and RDKit's older calls say themselves.

`python make_model_oracles.py make FOLDER`, `python make_model_oracles.py read JUDGING ORACLES FILE...`; JSON comes out.
"""

import importlib.util
import json
import os
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rdkit import Chem, DataStructs
from rdkit.Chem import AllChem
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

CHAINS = ("CC", "CCC", "CC(C)", "OCC", "NCC", "FC(F)C", "CCCCC", "CCC(C)")
LINKS = ("CC(=O)N", "OCC", "S(=O)(=O)N", "CNC", "C(=O)OC", "CNC(=O)", "CC(=O)")
RINGS = ("c1ccccc1", "C1CCNCC1", "c1ccncc1", "c1ccsc1", "c1ccc(OC)cc1", "c1ccc(OC)cc1Cl")
MADE = [chain + link + ring for chain in CHAINS for link in LINKS for ring in RINGS]


def counted(text: str) -> Any:
    """As TDC makes DRD2's features."""
    found = np.zeros(2048, np.int32)
    sparse = AllChem.GetMorganFingerprint(Chem.MolFromSmiles(text), 3, useCounts=True, useFeatures=True)
    for number, times in sparse.GetNonzeroElements().items():
        found[number % 2048] += times
    return found


def bits(text: str) -> Any:
    """As TDC makes the kinases' features."""
    found = np.zeros((1,))
    made = AllChem.GetMorganFingerprintAsBitVect(Chem.MolFromSmiles(text), 2, nBits=2048)
    DataStructs.ConvertToNumpyArray(made, found)
    return found


def make(folder: Path) -> None:
    """The three, others that are like them, and some that are none."""
    (folder / "tdc").mkdir(parents=True)
    noise = np.random.default_rng(0).random((2, len(MADE))) < 0.1
    active = np.array([("N" in text) ^ ("Cl" in text) for text in MADE])
    features = {"drd": np.array([*map(counted, MADE)]), "gsk": np.array([*map(bits, MADE)])}
    features["jnk"] = features["gsk"]
    machine = SVC(C=128, gamma=2**-6, probability=True, random_state=0)
    models: dict[str, Any] = {
        "drd": machine.fit(features["drd"], (active ^ noise[0]).astype(float)),
        "gsk": RandomForestClassifier(30, random_state=0).fit(features["gsk"], (active ^ noise[0]).astype(float)),
        "jnk": RandomForestClassifier(7, max_depth=4, random_state=np.random.RandomState(1)),
    }
    models["jnk"].fit(features["jnk"], (active ^ noise[1]).astype(int))
    names = {"drd": "drd2", "gsk": "gsk3b", "jnk": "jnk3"}
    for (name, model), protocol in zip(models.items(), (2, 3, 4), strict=True):
        (folder / "tdc" / f"{names[name]}_current.pkl").write_bytes(pickle.dumps(model, protocol=protocol))
    alike(folder, models, features, active.astype(float))
    said = {name: models[name].predict_proba(features[name])[:, 1].tolist() for name in models}
    json.dump({"smiles": MADE, **said}, sys.stdout)


def alike(folder: Path, models: dict[str, Any], features: dict[str, Any], active: Any) -> None:
    """Files beside the three, in `folder`."""
    rows = sp.csr_matrix(features["drd"].astype(float))
    found = {
        "sparse": pickle.dumps(SVC(C=128, gamma=2**-6, probability=True, random_state=0).fit(rows, active), protocol=0),
        "classes": pickle.dumps(RandomForestClassifier(2).fit(features["gsk"], active + 1)),
        "linear": pickle.dumps(SVC(kernel="linear", probability=True).fit(features["drd"], active)),
        "narrow": pickle.dumps(RandomForestClassifier(2).fit(np.tile(features["gsk"], 2)[:, 1024:], active)),
        "code": pickle.dumps(Code()),
        "text": b"<html>under maintenance</html>",
        "cut": pickle.dumps(models["gsk"])[:-9000],
        "list": pickle.dumps([1, 2]),
        "empty": b"",
        "old": pickle.dumps(aged(models["gsk"]), protocol=2),
        "round": pickle.dumps(aged(models["gsk"], back=True), protocol=2),
    }
    for name, data in found.items():
        (folder / name).write_bytes(data)


class Code:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def aged(forest: Any, *, back: bool = False) -> Any:
    """The forest as scikit-learn 0.20 wrote it; `back`: with a node that leads to itself."""
    kinds = {"forest": ("sklearn.ensemble.forest", "RandomForestClassifier")}
    kinds |= {"tree": ("sklearn.tree.tree", "DecisionTreeClassifier"), "nodes": ("sklearn.tree._tree", "Tree")}
    made = {key: type(name, (), {"__module__": module}) for key, (module, name) in kinds.items()}
    for key, (module, name) in kinds.items():
        sys.modules[module] = types.ModuleType(module)
        setattr(sys.modules[module], name, made[key])
    old = made["forest"]()
    old.classes_, old.estimators_ = forest.classes_, [made["tree"]() for _ in forest.estimators_]
    for ours, theirs in zip(old.estimators_, forest.estimators_, strict=True):
        state = theirs.tree_.__getstate__()
        fields = [name for name in state["nodes"].dtype.names if name != "missing_go_to_left"]
        nodes = np.zeros(len(state["nodes"]), dtype=[(name, state["nodes"].dtype[name]) for name in fields])
        for name in fields:
            nodes[name] = state["nodes"][name]
        if back:
            nodes["left_child"][0] = 0
        ours.tree_ = made["nodes"]()
        counts = state["values"] * nodes["weighted_n_node_samples"][:, None, None]
        vars(ours.tree_).update(nodes=nodes, values=counts, node_count=len(nodes), max_depth=9)
    return old


def read(judging: str, oracles: str, files: list[str]) -> None:
    """What our reader makes of files: probabilities of all molecules, or what it says."""
    spec = importlib.util.spec_from_file_location("judging", judging)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    module = loaded.load(Path(oracles))
    found: dict[str, Any] = {}
    for file in files:
        try:
            one = module.oracle(Path(file))
            found[Path(file).name] = [one(Chem.MolFromSmiles(text)) for text in MADE]
        except ValueError as e:
            found[Path(file).name] = str(e)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        read(sys.argv[2], sys.argv[3], sys.argv[4:])
