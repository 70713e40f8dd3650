"""BioProBench in its real form, made up: a JSON list a task, training and test files side by side."""

import json
import random
from collections.abc import Iterator
from typing import Any

LIQUIDS = ("PBS", "ethanol", "lysis buffer", "agarose", "trypsin", "glycerol", "DMEM", "EDTA")
DEEDS = ("Mix", "Spin", "Warm", "Rinse", "Filter", "Dilute", "Freeze", "Stain", "Decant", "Weigh")
VESSELS = ("tube", "plate", "flask", "dish", "column", "slide")
TYPES = ("parameter", "reagent", "operation")


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    tasks = {"PQA": pqa, "ORD": order, "ERR": err, "GEN": gen}
    found = {}
    for name, make in tasks.items():
        for suffix, protocols in (("", range(100, 104)), ("_test", range(10))):
            rows = [row for protocol in protocols for row in make(random.Random(f"{name}{protocol}"), protocol)]
            named = [row | {"id": f"{'TEST' if suffix else 'TRAIN'}-{name}-{i:06}"} for i, row in enumerate(rows)]
            found[f"{name}{suffix}.json"] = json.dumps(named, indent=4, ensure_ascii=False).encode()
    return found | {"README.md": b"---\nlicense: cc-by-4.0\n---\nMade up.\n"}


def step(rng: random.Random) -> str:
    return f"{rng.choice(DEEDS)} the {rng.choice(VESSELS)} with {rng.randrange(2, 90)} ml of {rng.choice(LIQUIDS)}."


def pqa(rng: random.Random, protocol: int) -> Iterator[dict[str, Any]]:
    """A round of three types a protocol; one question stands there twice, but for its case."""
    for kind in TYPES:
        choices = {
            "parameter": [str(n) for n in rng.sample(range(2, 99), 5)],
            "reagent": rng.sample(LIQUIDS, 5),
            "operation": [deed.lower() for deed in rng.sample(DEEDS, 5)],
        }[kind]
        if protocol == 4 and kind == "reagent":
            choices[1:3] = ["A", "salt & pepper"]
        question = f"{step(rng)} Then take ____ for step {protocol}."
        answer = choices[2] if protocol == 4 else rng.choice(choices)
        yield {"question": question, "answer": answer, "choices": choices, "type": kind}
    if protocol == 7:
        yield {"question": question.upper(), "answer": answer, "choices": choices, "type": kind}


def order(rng: random.Random, protocol: int) -> Iterator[dict[str, Any]]:
    """The headings of a protocol, then the steps under each; in one list a step stands twice."""
    headings = [f"Part {protocol}.{i}: {step(rng)}" for i in range(3)]
    lists = [("top", f"How to {step(rng)}", headings)]
    lists += [("child", heading, [step(rng) for _ in range(rng.randrange(3, 6))]) for heading in headings[:2]]
    for kind, title, right in lists:
        if protocol == 3 and kind == "child":
            right[2] = right[0]
        wrong = right[:]
        while wrong == right:
            rng.shuffle(wrong)
        question = f"Please sort the following steps titled '{title}' in the correct order."
        yield {"question": question, "wrong_steps": wrong, "correct_steps": right, "type": kind}


def err(rng: random.Random, protocol: int) -> Iterator[dict[str, Any]]:
    """Three errors and three right steps a protocol; a right one has no corrupted text and no description."""
    for i, kind in enumerate((*TYPES, "correct", "correct", "correct")):
        right = step(rng)
        row: dict[str, Any] = {
            "context": {
                "purpose": f"To {step(rng).lower()}",
                "prior_step": None if i == 3 else step(rng),
                "next_step": step(rng),
            },
            "corrupted_text": None if kind == "correct" else right.replace(" ml", "0 ml"),
            "corrected_text": right,
            "is_correct": kind == "correct",
            "type": kind,
        }
        yield row if kind == "correct" else row | {"error_description": "The volume is wrong."}


def gen(rng: random.Random, protocol: int) -> Iterator[dict[str, Any]]:
    for i in range(3):
        steps = [f"{n}. {step(rng)}" for n in range(1, rng.randrange(4, 8))]
        yield {
            "system_prompt": f"You know {rng.choice(LIQUIDS)} well.",
            "instruction": "List the steps, numbered 1., 2., 3., and nothing else.",
            "input": f"How to prepare {rng.choice(VESSELS)} number {protocol}.{i}?",
            "output": steps,
            "type": "easy",
        }
