"""PANORAMA in its real form, made up: three folders of Parquet files, nested columns, splits apart by application."""

import random
from collections.abc import Iterator
from typing import Any

from tests.hub.making import parquet

THINGS = ("valve", "rotor", "antenna", "lens", "pump", "hinge", "relay", "filter", "gear", "sensor", "nozzle", "clamp")
MARKS = ("hollow", "folded", "ceramic", "twin", "sealed", "tapered", "woven", "cooled", "notched", "coated")
DEEDS = ("guides a fluid", "damps a vibration", "locks a lid", "reads a level", "bends a beam", "splits a signal")
SPLITS = {"train": range(100, 106), "validation": range(200, 203), "test": range(300, 312)}
LETTERS = "ABCDEFGH"


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    tasks = {"PAR4PC": par4pc, "PI4PC": pi4pc, "NOC4PC": noc4pc}
    found = {
        f"{name}/{split}.parquet": parquet([row for number in numbers for row in make(number)])
        for name, make in tasks.items()
        for split, numbers in SPLITS.items()
    }
    # dictionaries become structs with every key that any row has, as pandas writes them: PI4PC's options are mostly null
    return found | {"README.md": b"---\nlicense: cc-by-nc-4.0\n---\nMade up.\n"}


def phrase(rng: random.Random) -> str:
    return f"a {rng.choice(MARKS)} {rng.choice(THINGS)} that {rng.choice(DEEDS)}"


def patent(rng: random.Random, number: int) -> dict[str, Any]:
    """An older patent, or the application itself."""
    claims = [f"{i}. A device with {phrase(rng)} and {phrase(rng)}." for i in (1, 2, 3)]
    if number % 5 == 0:
        claims[0] = " ".join(claims)  # the first claim holds them all, as it happens in the source
    return {"title": phrase(rng).upper(), "abstract": f"Shown is {phrase(rng)}.", "claims": claims}


def application(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """Two claims of one application."""
    context = patent(rng, number)
    for claim in (1, 3):
        yield {"application_number": f"15{number:06}", "claim_number": claim, "context": context}


def prior(rng: random.Random, number: int) -> dict[str, Any]:
    return {"patent_id": f"US2010{rng.randrange(10**7):07}", **patent(rng, number)}


def par4pc(number: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(number)
    for row in application(rng, number):
        order = rng.sample(LETTERS, 8)
        gold, silver = sorted(order[: 1 + number % 3]), sorted(order[4 : 4 + number % 2])
        yield row | {
            "options": {letter: prior(rng, number) for letter in LETTERS},
            "gold_answers": gold,
            "silver_answers": silver,
            "negative_answers": sorted(set(LETTERS) - {*gold, *silver}),
        }


def pi4pc(number: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(number + 1000)
    for row in application(rng, number):
        keys = rng.sample(range(2, 60), 5)
        options = {str(key): f"Paragraph {key} shows {phrase(rng)}." for key in keys}
        text = "\n\n".join(f"[{int(key):04}] {options[key]}" for key in sorted(options, key=int))
        silver = keys[1 : 1 + number % 2]
        yield row | {
            "prior_art_specification": {**prior(rng, number), "specification": text},
            "options": options,
            "gold_answers": keys[:1],
            "silver_answers": silver,
            "negative_answers": keys[1 + len(silver) :],
        }


def noc4pc(number: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(number + 2000)
    for i, row in enumerate(application(rng, number)):
        paragraphs = [{"key": key, "content": f"It shows {phrase(rng)}."} for key in rng.sample(range(99), 2)]
        code = ("ALLOW", "102", "103")[(number + i) % 3]
        yield row | {
            "prior_art_specifications": [{**prior(rng, number), "paragraphs": paragraphs}],
            "answer": {"reason": f"Regarding the claim, {phrase(rng)} is known.", "code": code},
        }
