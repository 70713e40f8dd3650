"""bioprobench: training rows about biological protocols in four tasks."""

from tuneloop.core.catalog import Dataset, Source

DATASET = Dataset(
    name="bioprobench",
    domain="biology",
    description=(
        "Biological protocols, a JSON list for each of four tasks. PQA: question, choices, answer, type, id. ORD: question, "
        "wrong_steps, correct_steps, type, id. ERR: context (purpose, prior_step, next_step), corrupted_text, corrected_text, "
        "is_correct, type, error_description, id. GEN: system_prompt, instruction, input, output, type, id."
    ),
    licence="CC-BY-4.0",
    source=Source(repo="bowenxian/BioProBench", files=("*.json", "README.md"), without=("*test*",)),
    parts={"PQA": 0, "ORD": 0, "ERR": 0, "GEN": 0},
    teaches=("bioprobench",),
    reasoning="none",
    quality=(
        "Answers must get the benchmark's form: in ERR is_correct is about the text that is shown, ORD wants a list of indices, "
        "GEN its steps between the marks."
    ),
    gaps="The files of 1,000 test rows a task are never fetched.",
)
