"""TableBench in its real form, made up: JSON Lines, a file for each way to ask, the same questions in each."""

import json
import random
from collections.abc import Iterator
from typing import Any

TOWNS = ("Adal", "Brin", "Cove", "Dorn", "Esk", "Fell", "Glen", "Holt", "Isle", "Jarn")
WAYS = ("DP", "TCoT", "SCoT", "PoT")
CHARTS = ("bar", "line", "pie", "scatter", "hbar", "area")


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    rows = [row for number in range(16) for row in questions(number)]
    found = {
        f"TableBench_{way}.jsonl": "".join(
            json.dumps(row | {"instruction_type": way, "instruction": f"Answer as {way}."}, ensure_ascii=False) + "\n"
            for row in rows
        ).encode()
        for way in WAYS
    }
    return found | {"README.md": b"---\nlicense: apache-2.0\n---\nMade up.\n"}


def questions(number: int) -> Iterator[dict[str, Any]]:
    """Questions on one table, with the answer; in some cells a thousands comma, in one nothing at all."""
    rng = random.Random(number)
    towns = rng.sample(TOWNS, 5)
    people, visits = ([rng.randrange(1200, 9000) for _ in towns] for _ in range(2))
    data: list[list[Any]] = [[t, f"{p:,}", v] for t, p, v in zip(towns, people, visits, strict=True)]
    data[4][2] = None if number == 2 else data[4][2]
    table = {"columns": ["town", f"people {1990 + number}", "visits"], "data": data}
    known = visits[:4]
    mean, change = sum(known) / 4, 100 * (known[1] - known[0]) / known[0]
    asked = [
        ("FactChecking", "MatchBased", f"How many visits had {towns[1]}?", str(visits[1])),
        ("FactChecking", "MultiHopFactChecking", "Which two towns come first?", f"{towns[0]}, {towns[1]}"),
        ("NumericalReasoning", "Aggregation", "What is the mean of the first four towns' visits?", f"{mean:.2f}"),
        ("NumericalReasoning", "Comparison", f"{towns[0]}'s visits less {towns[1]}'s?", str(visits[0] - visits[1])),
        ("NumericalReasoning", "ArithmeticCalculation", f"From {towns[0]} to {towns[1]}, in %?", f"{change:.1f}%"),
        (
            "DataAnalysis",
            "StatisticalAnalysis",
            "What is the range of the first four towns' visits?",
            str(max(known) - min(known)),
        ),
        ("DataAnalysis", "CorrelationAnalysis", "How are people and visits related?", "No correlation, -0.12"),
        ("DataAnalysis", "ImpactAnalysis", "Which column matters most?", "visits"),
        (
            "DataAnalysis",
            "CausalAnalysis",
            "Do people cause visits?",
            f"No, {towns[2]} has few people and many visits.",
        ),
    ]
    rows = asked[number % 3 :: 3] + asked[:1]
    for i, (kind, subtype, question, answer) in enumerate(dict.fromkeys(rows)):
        yield named(number, i) | {
            "qtype": kind, "qsubtype": subtype, "table": table, "question": question, "answer": answer
        }  # fmt: skip
    if number % 2 == 0:
        yield named(number, 9) | {
            "qtype": "Visualization",
            "qsubtype": "ChartGeneration",
            "table": table,
            "question": f"Draw a {CHARTS[number // 2 % 6]} chart of the first four towns' visits.",
            "answer": f"y_references = [{json.dumps(known)}]",
            "chart_type": CHARTS[number // 2 % 6],
        }


def named(number: int, i: int) -> dict[str, str]:
    return {"id": random.Random(f"{number}.{i}").randbytes(16).hex()}
