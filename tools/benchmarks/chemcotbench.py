"""ChemCoTBench: molecules in SMILES are understood, edited, optimised and made to react; RDKit judges, inside the engine.

Li and others, 2025. Every item brings its own prompt, which is asked as it is; answers are JSON with the key that the prompt
names. Each of the four is the mean over its items, whatever their subtask; subtasks are told apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import read_rows

SOURCE = Source(repo="OpenMol/ChemCoTBench", files=("**/*.json",))
KEYS = "The last JSON object of the reply counts, with the prompt's key or with `output`; reasoning may stand before it"
SMILES = "a molecule is one SMILES of at most 1000 characters and 300 heavy atoms"
ORACLES = (
    "needs a learned oracle of Therapeutics Data Commons; its items are left out, never counted as misses. To have it, measure "
    "chemcotbench_mol_opt_oracles, once TUNELOOP_SCORER_FILES names a folder with the oracles: docs/benchmarks.md"
)
LEARNED = ("drd", "gsk", "jnk")
GAINS = ("valid_rate", "success_rate_any", "best_rate", "scaffold_hard")


def declared(name: str, scorer: str, description: str, **more: Any) -> Benchmark:
    """One of the four. The original cuts replies at 1,024 tokens, which leaves no room to reason."""
    return Benchmark(
        name=f"chemcotbench_{name}",
        domain="chemistry",
        licence="MIT",
        source=SOURCE,
        description=f"ChemCoTBench, {description} {KEYS}; {SMILES}.",
        answer=f"scorer:{scorer}",
        final='{"output": "ANSWER"}',
        prompt="{instruction}{question}",
        max_new_tokens=4096,
        **more,
    )


FOUR = (
    declared(
        "mol_und",
        "chem_und",
        "understanding molecules. Count a functional group or a ring (a whole number), write the Murcko scaffold, say whether a "
        "ring system is in a molecule or whether two SMILES are one molecule (Yes or No). A count is right when it is exact, a "
        "scaffold when it is the same molecule, however written; nothing is half right.",
        metrics=("mae_fg_count", "mae_ring_count", "murcko_tanimoto"),
    ),
    declared(
        "mol_edit",
        "chem_edit",
        "editing molecules: add a functional group, delete one, or exchange one for another. Right is a molecule that has exactly "
        "one of the asked group more or less than the source, that still resembles the source (Tanimoto of Morgan fingerprints "
        "0.3 and more) and that does not fall into more pieces.",
        metric="correct_rate",
        metrics=("valid_rate", "counted_rate", "reference_tanimoto"),
    ),
    declared(
        "mol_opt",
        "chem_opt",
        "optimising molecules: raise logP (Wildman-Crippen), drug-likeness (QED) or solubility (ESOL). Right is another molecule "
        "with more of the property that is still related to the source (Tanimoto of Morgan fingerprints 0.4 and more); the "
        "source itself is no success.",
        metric="success_rate",
        metrics=(*GAINS, "mean_gain_logp", "mean_gain_qed", "mean_gain_solubility"),
        unavailable=dict.fromkeys(LEARNED, ORACLES),
    ),
    declared(
        "reaction",
        "chem_reaction",
        "reactions: the main product, the reactants, a catalyst, solvent or reagent, the products of the next elementary step, or "
        "the letter of the right mechanism. Compounds are right when they are exactly the wanted ones with their charges, in "
        "whatever order and writing, several joined with dots; a mechanism is one letter.",
        metrics=("validity", "morgan_similarity", "maccs_similarity", "rdk_similarity", "levenshtein"),
    ),
)
FAMILY = Benchmark(
    name="chemcotbench",
    domain="chemistry",
    licence="MIT",
    description="ChemCoTBench: its four parts, understanding, editing, optimising and reactions, each measured for itself.",
    parts=tuple(one.name for one in FOUR),
)
# Beside the family: what a name measures is the same on every machine, with and without oracles.
BEYOND = declared(
    "mol_opt_oracles",
    "chem_oracles",
    "optimising molecules for a protein: raise the probability of activity at the dopamine receptor D2 (drd), the kinase GSK-3 "
    "beta (gsk) or JNK3 (jnk), as a learned oracle of Therapeutics Data Commons tells it. Right is another molecule with more "
    "of it that is still related to the source (Tanimoto of Morgan fingerprints 0.4 and more).",
    metric="success_rate",
    metrics=(*GAINS, *(f"mean_gain_{name}" for name in LEARNED)),
)
BENCHMARKS = (*FOUR, BEYOND, FAMILY)
TASKS = {one.name: one.name.removeprefix("chemcotbench_").removesuffix("_oracles") for one in (*FOUR, BEYOND)}
OWN = re.compile(r"(?:Input Molecule|Source Molecule|Molecule A|Question):")
MOLECULE = re.compile(r"(?:Input|Source) Molecule:\s*([^\s,]+)|Molecule SMILES:\s*([^\s,]+)")


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public set's items of one task, without the subtasks that cannot be judged here."""
    task = TASKS[benchmark.name]
    for row in read_rows(raw, *SOURCE.files):
        learned = row.get("subtask") in LEARNED
        if row.get("task") == task and learned == (benchmark.name == BEYOND.name):
            answer = json.dumps(GOLD[task](row), ensure_ascii=False, sort_keys=True)
            yield Item(id=row["id"], fields=parted(row["query"]), answer=answer, group=row["subtask"])


def parted(query: str) -> dict[str, str]:
    """A prompt in two: what all of a subtask share, and what is asked of this one."""
    at = max((match.start() for match in OWN.finditer(query)), default=0)
    return {"instruction": query[:at], "question": query[at:]}


def of_understanding(row: dict[str, Any]) -> dict[str, str]:
    """Subtask and what is right; counts come as numbers or texts."""
    return {"task": row["subtask"], "gold": str(row["gt"]).strip()}


def of_editing(row: dict[str, Any]) -> dict[str, str]:
    """The source molecule from the prompt, the groups from the facts beside it."""
    meta = facts(row)
    groups = {name: meta.get(f"{name}_group", "") for name in ("added", "removed")}
    return {"source": source(row), "reference": meta.get("reference", ""), **groups}


def of_optimising(row: dict[str, Any]) -> dict[str, str]:
    """The property and the source molecule from the prompt."""
    return {"property": row["subtask"], "source": source(row)}


def of_reactions(row: dict[str, Any]) -> dict[str, str]:
    """Subtask and what is right; of a forward reaction its main product."""
    gold = row["gt"]
    if isinstance(gold, str) and gold.lstrip().startswith("{"):
        gold = json.loads(gold)
    return {"task": row["subtask"], "gold": str(gold["Major Product"] if isinstance(gold, dict) else gold).strip()}


GOLD = {"mol_und": of_understanding, "mol_edit": of_editing, "mol_opt": of_optimising, "reaction": of_reactions}


def facts(row: dict[str, Any]) -> dict[str, str]:
    """What the set says beside a prompt: JSON in a text, or an object."""
    meta = row.get("meta") or {}
    found: dict[str, str] = json.loads(meta) if isinstance(meta, str) else meta
    return found


def source(row: dict[str, Any]) -> str:
    """The molecule that a prompt gives, without the full stop after it. Raises ValueError when there is none."""
    match = MOLECULE.search(row["query"])
    if match is None:
        raise ValueError(f"item {row['id']}: no molecule in its prompt")
    return (match[1] or match[2]).rstrip(".")
