"""TableInstruct in its real form, made up: JSON Lines, tables as JSON text, answers in four styles."""

import json
from typing import Any

from tests.hub.making import jsonl

KINDS = {
    "FactChecking": ("MatchBased", "MultiHopFactChecking"),
    "NumericalReasoning": ("Aggregation", "ArithmeticCalculation"),
    "DataAnalysis": ("CorrelationAnalysis", "StatisticalAnalysis"),
    "Visualization": ("ChartGeneration",),
}
STYLES = ("DP", "TCoT", "SCoT", "PoT")


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    card = "---\nlanguage:\n- en\n---\n# Made up\n"
    rows = [row(n, kind, sub, style) for n, (kind, sub) in enumerate(kinds()) for style in STYLES]
    return {"README.md": card.encode(), "TableInstruct.jsonl": jsonl(rows)}


def kinds() -> list[tuple[str, str]]:
    """Two tables for each kind of question."""
    return [(kind, sub) for kind, subs in KINDS.items() for sub in subs for _ in range(2)]


def row(n: int, kind: str, sub: str, style: str) -> dict[str, Any]:
    """A question about a little table."""
    data = [[f"town {n}-{k}", 100 + 7 * k + n, None if k == n % 4 else k] for k in range(4)]
    table = json.dumps({"columns": ["town", "people", "schools"], "data": data})
    question = f"How many people live in town {n}-2?"
    answer = str(100 + 14 + n)
    response = {
        "DP": f"Final Answer: {answer}",
        "TCoT": f"The row of town {n}-2 says {answer} people.\nFinal Answer: {answer}",
        "SCoT": f"Step 1: look up town {n}-2 -> {answer}.\nFinal Answer: {answer}",
        "PoT": "```python\nimport pandas as pd\ndf = pd.read_csv('table.csv')\nanswer = df['people'][2]\nprint(answer)\n```",
    }[style]
    instruction = f"You answer questions about tables ({style}).\n\n[TABLE]\n{table}\n\nQuestion: {question}\n"
    return {
        "id": f"made-{n:04}",
        "qtype": kind,
        "qsubtype": sub,
        "instruction": instruction,
        "instruction_type": style,
        "table": table,
        "question": question,
        "response": response,
    }
