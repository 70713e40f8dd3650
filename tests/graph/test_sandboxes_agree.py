"""One experiment gives the same bytes in every sandbox: data, weights, answers, scores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, DEFAULT, linked_home
from tuneloop.core.files import digest_file
from tuneloop.core.layout import RunFolder

UNTIL_EVALUATED = 10  # nodes
MADE = ("scores.json", "data/data.json", "process_data.py", "train.yaml", "model/model.safetensors")
SAME = ("baseline/scores.json", *(f"experiments/001/{name}" for name in MADE))
KINDS = {"process": ("--allow-unsandboxed",), "bubblewrap": (), "docker": ()}


def experiment(home: Path, kind: str) -> RunFolder:
    """The embedded default on fewer rows, until its first experiment is evaluated."""
    steps = ("--upper-data-size-limit", "200", "--step-n", str(UNTIL_EVALUATED))
    argv = [*COMMAND, "run", *DEFAULT, *steps, "--sandbox", kind, *KINDS[kind], "--run-id", kind]
    environment = {**os.environ, "FT_FILE_PATH": str(home), "FT_DOCKER_ENABLE_CACHE": "False"}
    p = subprocess.run(argv, env=environment, cwd=home.parent, capture_output=True, text=True, check=False)
    assert (home / "runs" / kind / "experiments/001/scores.json").is_file(), p.stdout[-2000:] + p.stderr[-2000:]
    return RunFolder(home / "runs" / kind)


@pytest.mark.slow
def test_scores_are_the_same_byte_for_byte(
    tmp_path: Path, llamafactory: object, opencompass: object, tiny: Path, docker_host: str
) -> None:
    home = linked_home(tmp_path / "home")
    runs = {kind: experiment(home, kind) for kind in KINDS}
    for name in SAME:
        found = {kind: digest_file(run.root / name) for kind, run in runs.items()}
        assert len(set(found.values())) == 1, (name, found)
    for kind, run in runs.items():
        logs = [path.read_text() for path in run.root.glob("experiments/001/jobs/*/log.txt")]
        assert logs
        assert not any("cold start" in log for log in logs), kind
