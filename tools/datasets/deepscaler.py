"""deepscaler: competition problems in mathematics with short answers."""

from tuneloop.core.catalog import Dataset, Source

DATASET = Dataset(
    name="deepscaler",
    domain="math",
    description=(
        "40,315 problems of mathematical competitions (AIME 1984 to 2023, AMC before 2023, Omni-MATH, STILL) in one JSON list: "
        "problem, answer (a short expression), solution (empty in 82 of 100 rows), in English with LaTeX."
    ),
    licence="MIT",
    source=Source(repo="agentica-org/DeepScaleR-Preview-Dataset", files=("*.json", "README.md")),
    rows=40_315,
    teaches=("aime", "math"),
    reasoning="some",
    quality=(
        "Low as it is: most rows have no worked solution, so steps have to be written or the short answer alone is learned; "
        "good solutions are long, more than a quarter of a usual context."
    ),
    gaps="No problem of AIME 2024 or later; overlaps with MATH are possible and left to the contamination guard.",
)
