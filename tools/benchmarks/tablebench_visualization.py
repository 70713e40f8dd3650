"""tablebench_visualization: a chart of a table is drawn by code; what lies on its axes is compared. And the family of all four."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Drawn, Item
from tuneloop.core.files import digest
from tuneloop.tools.benchmarks.tablebench import DOMAIN, LICENCE, SOURCE, table_rows, table_text
from tuneloop.tools.scoring.chart_matching import KINDS, references

CHARTS = Benchmark(
    name="tablebench_visualization",
    domain=DOMAIN,
    licence=LICENCE,
    source=SOURCE,
    description=(
        "TableBench, charts: a table in JSON, which is also there as table.csv, and a question that asks for a chart. The reply is "
        "one ```python block that draws it with matplotlib or pandas, in whatever way; the last such block counts, and pandas, "
        "numpy and matplotlib are there. What lies on the axes of the last figure must show exactly the wanted values as the kind "
        "of chart that was asked for (heights of bars, widths of lying bars, lines, points, shares of a pie, areas, radar), in any "
        "order; numbers agree to a thousandth. Pass@1 is the share of charts that do; showing and saving is not needed."
    ),
    answer="code",
    final="```python\nANSWER\n```",
    prompt=(
        "A table, in JSON; it is also in the file table.csv:\n{table}\n\nQuestion: {question}\n\nWrite Python code that reads "
        "table.csv with pandas and draws the chart with matplotlib. Reply with one ```python block."
    ),
    metric="Pass@1",
    metrics=("ECR@1", "Parse@1"),
    max_new_tokens=2048,
    seconds=10,
)
FAMILY = Benchmark(
    name="tablebench_gen",
    domain=DOMAIN,
    licence=LICENCE,
    description="TableBench: fact checking, numerical reasoning, data analysis and charts, each measured for itself.",
    parts=(
        "tablebench_data_analysis",
        "tablebench_fact_checking",
        "tablebench_numerical_reasoning",
        "tablebench_visualization",
    ),
)
BENCHMARKS = (CHARTS, FAMILY)


def pool(_: Benchmark, raw: Path) -> Iterator[Item]:
    """The questions that ask for a chart; those on one table stay together."""
    for row in table_rows(raw, "Visualization"):
        table = table_text(row["table"])
        yield Item(
            id=row["id"],
            fields={"table": table, "question": row["question"]},
            answer=gold(row),
            calls=Drawn(files={"table.csv": as_csv(table)}),
            group=row["chart_type"].lower(),
            cluster=digest(table),
        )


def gold(row: dict[str, Any]) -> str:
    """Kind and values of the wanted chart. Raises ValueError where they cannot be read."""
    kind = row["chart_type"].lower()
    if kind not in KINDS:
        raise ValueError(f"item {row['id']}: a chart of kind {kind!r}; known are {', '.join(KINDS)}")
    return json.dumps({"chart": kind, "series": references(row["answer"])})


def as_csv(text: str) -> str:
    """The table as pandas writes it, without an index."""
    table, out = json.loads(text), io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([table["columns"], *table["data"]])
    return out.getvalue()
