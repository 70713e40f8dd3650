"""The prompts of a GRPO training, as its engine reads them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tuneloop.core.files import write_lines
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES

PROMPTS = ["a\u2028b", "c\u2029d\x85e", "f"]
CODE = """
import json, sys
from transformers import AutoTokenizer
from grpo import Prompts
job = {"rows": sys.argv[1], "chat": False, "options": {}, "longest": 99}
print(json.dumps(Prompts(job, AutoTokenizer.from_pretrained(sys.argv[2])).rows))
"""


def test_what_only_looks_like_the_end_of_a_line_ends_no_prompt(trl: Engine, tiny: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "prompts.jsonl", [{"prompt": text} for text in PROMPTS])
    argv = [str(trl.python), "-c", CODE, str(tmp_path / "prompts.jsonl"), str(tiny)]
    places = ":".join(str(ENGINES / name) for name in ("trl", "llamafactory", "opencompass"))
    env = {"PYTHONPATH": places, "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [
        {"prompt": text, "row": place} for place, text in enumerate(PROMPTS)
    ]
