"""What the data gate refused for its validation items is left out of the next script, and of every one after it."""

from __future__ import annotations

import json
from typing import Any

from tuneloop.core.experiment import Diagnosis
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.splits import known_items
from tuneloop.tools.data_gate.gate import run_gate


def test_the_next_attempts_leave_out_what_was_refused(world, kit, tmp_path) -> None:
    items = [(f"{q}\nEnd with \\boxed{{answer}}.", a) for q, _, a in kit.stories(60, 1)]
    leaked = [{"question": q, "solution": s} for q, s, _ in kit.stories(60, 1)[:5]]
    rows = [{"question": q, "solution": s} for q, s, _ in kit.stories(300, 2)]
    task = world("boxed", items, {"rows.jsonl": [*rows[:100], *leaked, *rows[100:]]})
    guard = Guard(known_items(task.benchmark, "validation", task.items))
    first = task.hypothesis()

    def gated(code: str, *flags: str) -> Any:
        raw = tmp_path / "raw.json"
        raw.write_text(json.dumps(task.run(code, *flags)))
        passed = run_gate(raw, tmp_path / "out", row_limit=10**6, benchmark=task.benchmark, guard=guard, drop_overlaps=False,
                      tokenizer=None, cutoff_len=None)  # fmt: skip
        task.answers["data_report"] = passed.model_dump(mode="json")
        return passed

    code = task.script(first).code
    report = gated(code)
    assert len(report.overlaps) >= 5, "nobody has told the policy of them"
    failure = f"build_data: {report.errors[0]}"
    diagnosis = task.ask("validator", Diagnosis, failure=failure, blamed="data")
    assert diagnosis.culprit == "data"
    told = {"diagnosis": diagnosis, "failure": failure, "script": code, "attempt": 1}
    mended = task.script(first, **told).code
    after = gated(mended)
    assert (after.errors, after.rows) == ((), report.rows)
    assert "5 validation items" not in mended and not [row for row in leaked if row["question"] in mended]
    slow = Diagnosis(culprit="script", problem="it failed", repair="do it again")
    again = task.script(first, diagnosis=slow, failure="", script=mended, attempt=2).code
    assert gated(again).errors == (), "another repair does not forget it"
