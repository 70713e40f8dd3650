"""A script brings no validation items along in its own text."""

from __future__ import annotations

from tuneloop.core.files import read_text
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.data_script.run import script_findings
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
