"""Items and replies of an evaluation, as its engine reads them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tuneloop.core.files import write_lines
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES

TEXT = "a\u2028b\u2029c\x85d"
CODE = """
import json, sys
from pathlib import Path
from oc_evaluator import TuneloopReplies
from oc_tasks import read_set
print(json.dumps([read_set(Path(sys.argv[1])), list(TuneloopReplies(sys.argv[1]).replies.values())]))
"""


def test_what_only_looks_like_the_end_of_a_line_ends_no_row(opencompass: Engine, tmp_path: Path) -> None:
    rows = [{"set": "s", "id": name, "prediction": TEXT} for name in "ab"]
    write_lines(tmp_path / "rows.jsonl", rows)
    env = {"PYTHONPATH": str(ENGINES / "opencompass"), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    argv = [str(opencompass.python), "-c", CODE, str(tmp_path / "rows.jsonl")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [rows, [TEXT, TEXT]]
