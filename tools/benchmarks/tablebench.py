"""TableBench: questions on tables that are answered in words or numbers; 886 questions in all, with the charts.

What is asked is as in the benchmark of Wu and others, form TCoT (reason in words); the sentences are ours. Each item is
measured once, by the metric of its own subtype.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.core.files import digest
from tuneloop.tools.benchmark_items.raw_rows import read_rows

REPO, FILE, LICENCE, DOMAIN = "Multilingual-Multimodal-NLP/TableBench", "TableBench_TCoT.jsonl", "Apache-2.0", "tables"
SOURCE = Source(repo=REPO, files=(FILE,))
WITHIN_TEN = ("CorrelationAnalysis", "TrendForecasting", "StatisticalAnalysis")
EXACT = ("ImpactAnalysis",)
PROMPT = (
    "A table, in JSON:\n{table}\n\nQuestion: {question}\n\nReason step by step. The last line of the reply is the answer and "
    "nothing else, as short as can be, several answers with commas between them:\nFinal Answer: answer"
)
FORM = (
    ' The rest of the last line that begins with "Final Answer:" counts; without such a line the reply is wrong. Several answers '
    "stand in the order asked with commas between them, and all of them must be right. "
)
NUMBERS = (
    "Numbers are compared by value: -5 is not 5, 5% is 0.05 and not 5, decimals beyond those of the known answer are rounded, "
    "thousands commas and currency signs do not matter, a unit makes a number a text. Texts are compared without regard to case."
)


def declared(name: str, kinds: str, scored: str, **more: Any) -> Benchmark:
    """One of the three."""
    return Benchmark(
        name=f"tablebench_{name}",
        domain=DOMAIN,
        licence=LICENCE,
        description=f"TableBench, {kinds}: a table in JSON and a question." + FORM + scored,
        answer="scorer:tablebench",
        final="Final Answer: ANSWER",
        prompt=PROMPT,
        source=SOURCE,
        max_new_tokens=4096,
        **more,
    )


BENCHMARKS = (
    declared(
        "data_analysis",
        "data analysis (statistics, correlation, trends, impact, causes, anomalies, descriptions)",
        "Correlation, trends and statistics: a number may be up to 10 % off, and have words beside it. Impact: exact. "
        "Causes, anomalies, descriptions: ROUGE-L of the line with the known answer, so a whole short sentence. "
        "The score is the mean over all questions. " + NUMBERS,
        metric="mean_of_subtype_metrics",
        metrics=("exact_match", "exact_match_10", "rouge_l", "element_match"),
    ),
    declared("fact_checking", "fact checking", NUMBERS, metric="exact_match", metrics=("element_match",)),
    declared("numerical_reasoning", "numerical reasoning", NUMBERS, metric="exact_match", metrics=("element_match",)),
)
QTYPES = {"data_analysis": "DataAnalysis", "fact_checking": "FactChecking", "numerical_reasoning": "NumericalReasoning"}


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The questions of one type; those on one table stay together."""
    for row in table_rows(raw, QTYPES[benchmark.name.removeprefix("tablebench_")]):
        table = table_text(row["table"])
        gold = json.dumps({"answer": str(row["answer"]), "metric": metric_of(row["qtype"], row["qsubtype"])})
        fields = {"table": table, "question": row["question"]}
        yield Item(id=row["id"], fields=fields, answer=gold, group=row["qsubtype"], cluster=digest(table))


def metric_of(qtype: str, subtype: str) -> str:
    """As the benchmark's own script has it: within 10 %, exact, or for open answers ROUGE-L."""
    if qtype != "DataAnalysis" or subtype in EXACT:
        return "em"
    return "em_10" if subtype in WITHIN_TEN else "rouge_l"


def table_rows(raw: Path, qtype: str) -> Iterator[dict[str, Any]]:
    """Rows of one type of question."""
    return (row for row in read_rows(raw, FILE) if row["qtype"] == qtype)


def table_text(table: Any) -> str:
    """Columns and data as JSON, whichever way the source has them."""
    value = json.loads(table) if isinstance(table, str) else table
    return json.dumps({"columns": value["columns"], "data": value["data"]}, ensure_ascii=False)
