"""A script brings no validation items along in its own text."""

from __future__ import annotations

from tuneloop.core.files import read_text
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem
from tuneloop.tools.data_script.run import embedded_items, script_findings
from tuneloop.tools.jobs.run_tools import RunTools


def test_validation_items_in_a_script_are_a_finding(short_run) -> None:
    run_tools = RunTools(short_run.run, Settings(FT_FILE_PATH=short_run.home))
    code = read_text(short_run.run.experiment(1).script)
    assert script_findings(run_tools, code) == [], "the offline policy's own script"
    found = run_tools.validation(run_tools.benchmark).shown
    question = render_prompt(run_tools.benchmark.benchmark, found[0])
    first = code.count("\n") + 2
    embedded = f"{code}\nROWS = [\n    {question!r},\n]\n"
    (finding,) = script_findings(run_tools, embedded)
    assert finding.startswith(f"process_data.py:{first + 1}: a text holds a validation item")


def test_a_pattern_is_no_short_item_and_a_formula_is_found() -> None:
    """Without its backslashes the pattern would be "1 - 9"."""
    asked = ("What is the result: 1 - 9 =", "What is the result: 12 + 30 =")
    many = [f"What is the result: {n} + 61 =" for n in range(40)]
    formula = "Compute $\\frac{1}{2}+\\sqrt{49}\\cdot 3$ and give the answer as a fraction."
    items = [KnownItem("b", "validation", str(n), {"q": text}) for n, text in enumerate((*asked, *many, formula))]
    guard = Guard(items)
    assert embedded_items("PATTERN = r'-?\\d+(?:\\.\\d+)?(?:/[1-9]\\d*)?'\n", guard) == []
    assert len(embedded_items(f"A = {formula!r}\nB = {asked[1]!r}\n", guard)) == 2
