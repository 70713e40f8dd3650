"""OpenMol/ChemCoTBench: a JSON list for each subtask, facts about an item as JSON in a text; molecules of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
JSON = "Your response must be directly parsable JSON format:\n"
STEPS = (
    "Proton exchange",
    "Halide leaves",
    "Amine addition",
    "Alkoxide leaves",
    "Hydroxide addition",
    "Carbocation leaves",
)
CHAINS = ("CC", "CCC", "CCCC", "CC(C)", "CCC(C)", "CCCCC")
LINKS = ("CC(=O)N", "OCC", "NC(=O)C", "CC(=O)N", "S(=O)(=O)N", "CCO", "CNC(=O)", "CC(=O)", "C(=O)OC")
RINGS = ("c1ccccc1", "C1CCNCC1", "c1ccncc1", "C1CCOCC1", "C1CCCCC1", "c1ccsc1")


def files() -> dict[str, bytes]:
    made: dict[str, list[Row]] = {}
    for task, subtask, number, row in questions():
        rows = made.setdefault(f"chemcotbench/{task}/{subtask}.json", [])
        rows.append({"id": f"{subtask}-{number:02}", **row, "task": task, "subtask": subtask})
    found = {name: json.dumps(rows, indent=4).encode() for name, rows in made.items()}
    return found | {
        "README.md": b"---\nlicense: mit\n---\n# Tasks\n",
        "manifest_of_others.json": b'[{"not": "an item"}]',
    }


def questions() -> Iterator[tuple[str, str, int, Row]]:
    for number in range(6):
        for task, subtask, row in [*understood(number), *edited(number), *optimised(number), *reacted(number)]:
            yield task, subtask, number, row


def asked(query: str, gold: Any = "", **meta: Any) -> Row:
    return {"query": query, "gt": gold, "meta": json.dumps(meta)}


def understood(i: int) -> Iterator[tuple[str, str, Row]]:
    polyol, rings, chain, ring = "OC" + "C(O)" * i + "CO", "Cc1ccccc1" * (i + 1), CHAINS[i], RINGS[i]
    other, kin = RINGS[i - i % 2], {"CC(C)": "C(C)C", "CCC(C)": "C(C)CC"}.get(chain, chain)
    head = "You are a chemical assistent. "
    count, say = JSON + '{\n    "count": "Your Answer Number"\n}\n', JSON + '{\n    "output": "Yes / No"\n}\n'
    write = JSON + '{\n    "Output Scaffold": "SMILES"\n}\n'
    of = f"Input Molecule: {polyol}, Fragment Name: hydroxyl."
    yield "mol_und", "fg_count", asked(f"{head}Count the fragment.\n{count}{of}", i + 2 if i else "2", fg_label="-O")
    of = f"Input Molecule: {rings}, Ring Structure: c1ccccc1."
    yield "mol_und", "ring_count", asked(f"{head}Count the rings in the Input Molecule.\n{count}{of}", i + 1)
    of = f"Input Molecule: {chain}{ring}."
    yield "mol_und", "Murcko_scaffold", asked(f"{head}Extract the Murcko scaffold.\n{write}{of}", ring)
    of = f"Input Molecule: {chain}{ring}, Ring System Structure: {other}"
    yield "mol_und", "ring_system_scaffold", asked(f"{head}Is the ring in it?\n{say}{of}", "No" if i % 2 else "Yes")
    of = f"Molecule A: {chain}O, Molecule B: {'N' if i % 3 else 'O'}{kin}."
    yield "mol_und", "equivalence", asked(f"{head}Are these two the same?\n{say}{of}", "No" if i % 3 else "Yes")


def edited(i: int) -> Iterator[tuple[str, str, Row]]:
    write = JSON + '{\n    "output": "Modified Molecule SMILES"\n}\n'
    group, written = (("hydroxyl", "O"), ("halo", "Cl"), ("nitrile", "C#N"))[i % 3]
    head = f"You are a chemical assistent. Edit the molecule.\n{write}"
    plain, more, other = (f"{CHAINS[i]}{LINKS[0]}c1cc{ring}cc1" for ring in ("c", f"c({written})", "c(S)"))
    of = f"Input Molecule: {plain}, Functional Group to add: {group}."
    yield "mol_edit", "add", asked(f"{head}\n{of}", added_group=group, reference=more)
    plain, more, other = (f"{CHAINS[i]}{LINKS[1]}c1cc{ring}cc1" for ring in ("c", f"c({written})", "c(S)"))
    of = f"Input Molecule: {more}, Functional Group to delete: {group}."
    yield "mol_edit", "delete", asked(f"{head}{of}", removed_group=group, reference=plain)
    plain, more, other = (f"{CHAINS[i]}{LINKS[2]}c1cc{ring}cc1" for ring in ("c", f"c({written})", "c(S)"))
    of = f"Input Molecule: {more}, Functional Group to delete: {group}, Functional Group to add: thiol"
    yield "mol_edit", "sub", asked(f"{head}{of}", removed_group=group, added_group="thiol", reference=other)


def optimised(i: int) -> Iterator[tuple[str, str, Row]]:
    form = JSON + '{\n    "Final Target Molecule": "SMILES",\n}\n\n'
    for link, name in zip(LINKS[3:], ("logp", "qed", "solubility", "drd", "gsk", "jnk"), strict=True):
        of = f"Source Molecule: {CHAINS[i]}{link}c1ccc(OC)cc1."
        query = f"You are a chemical assistent, Optimize the Source Molecule to improve {name}.\n{form}{of}"
        yield "mol_opt", name, asked(query, src_iupac="", type="small")


def reacted(i: int) -> Iterator[tuple[str, str, Row]]:
    acid, alcohol = f"{CHAINS[i]}CC(=O)O", "CCO"
    ester = f"{acid}CC"
    form = 'Answer:\n{\n    "Major Product": ...\n    "Byproduct(s)": ...\n}\n'
    of = f"Question:\nReactants: {acid}.{alcohol}\nReagents: O=S(=O)(O)O\n\n"
    gold = json.dumps({"Major Product": ester, "Byproduct(s)": "O" if i % 2 else []})
    yield "reaction", "fs", asked(f"Predict the main product.\n\n{of}{form}", gold, rxn_cls="Esterification")
    of = f'Question:\nProducts: {ester}\nReagents: \n\nAnswer:\n{{\n    "Reactants": ...\n}}\n'
    # as in the real set, some without the dot between them
    gold = f"{alcohol}.{acid}" if i % 2 else f"CC(C)(O)c1ccccc1N#C{'C' * i}Cl"
    yield "reaction", "retro", asked(f"Predict the reactants.\n\n{of}", gold)
    target, gold = (("solvent", "CCOC(C)=O.ClCCl"), ("catalyst", "[Ni]"), ("reagent", "CCN(CC)CC"))[i % 3]
    head = f"Given the following reaction under the type of Acylation:\n{acid}.{alcohol}>>{ester},\n"
    form = f'give me the most recommended {target}(s) in the JSON format:\n{{\n    "SMILES": str\n}}\n'
    yield "reaction", "rcr", asked(head + form, gold, query_target=target)
    of = f'We have one typical reaction.\n"reactants": {acid}.{CHAINS[i]}N,\n"step annotation": Proton exchange,\n'
    form = 'Give me the products of the next step.\n\n{\n    "pred_smi": str\n}'
    yield "reaction", "nepp", asked(of + form, f"{acid[:-1]}[O-].{CHAINS[i]}[NH3+]")
    choices = "\n".join(f"{'ABCDEF'[(k + i) % 6]}: {step}" for k, step in enumerate(STEPS))
    head = f"For reaction class: 'Acid {i}' which following description is right?\n\nChoices:\n{choices}\n\n"
    form = "Return the choice in JSON format:\n{\n    \"choice\": str # (e.g. 'A'/'B')\n}"
    yield "reaction", "mechsel", asked(head + form, "ABCDEF"[i])
