"""tableinstruct: questions about tables with answers in four styles."""

from tuneloop.core.catalog import Dataset, Source

DATASET = Dataset(
    name="tableinstruct",
    domain="tables",
    description=(
        "Questions about tables: id, qtype (FactChecking, NumericalReasoning, DataAnalysis, Visualization), qsubtype (18 kinds), "
        "instruction (the whole prompt), instruction_type (DP direct, TCoT and SCoT steps in words and symbols, PoT a Python "
        "program), table (JSON text with columns and data), question, response (ends with 'Final Answer: ...', or is code)."
    ),
    licence="unknown (its users say MIT, the benchmark's is Apache-2.0)",
    source=Source(
        repo="Multilingual-Multimodal-NLP/TableInstruct",
        files=("*.json", "*.jsonl", "*.parquet", "README.md"),
        without=("*test*",),
    ),
    teaches=("tablebench",),
    reasoning="full",
    quality="Medium to high: written by a large model and checked; steps of analysis and calculation are short.",
    gaps="The same table stands behind several rows; split by table.",
)
