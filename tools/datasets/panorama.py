"""panorama: training rows of the three PANORAMA tasks of patent examination."""

from tuneloop.core.catalog import Dataset, Source

DATASET = Dataset(
    name="panorama",
    domain="patent",
    description=(
        "US patent examination in Parquet, three folders. All: application_number, claim_number, context (title, abstract, "
        "claims). PAR4PC: options A to H (older patents), gold_answers, silver_answers, negative_answers. PI4PC: "
        "prior_art_specification, options (five paragraphs by their numbers), and the same three lists. NOC4PC: "
        "prior_art_specifications, answer (ALLOW, 102 or 103)."
    ),
    licence="CC-BY-NC-4.0",
    source=Source(repo="LG-AI-Research/PANORAMA", files=("*.parquet", "README.md"), without=("*validation*", "*test*")),
    rows=254_449,
    parts={"PAR4PC": 54_028, "PI4PC": 64_210, "NOC4PC": 136_211},
    teaches=("panorama",),
    reasoning="none",
    quality="Answers alone, taken from real office actions; reasons have to be written. Rows are long, whole patents are in them.",
    gaps="Validation and test files are never fetched.",
)
