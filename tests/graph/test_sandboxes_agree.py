"""One experiment gives the same bytes in every sandbox: data, weights, answers, scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import WholeRun, begin_small, tuneloop
from tuneloop.core.files import digest_file, read_json
from tuneloop.core.layout import RunFolder

UNTIL_EVALUATED = 9  # nodes
MADE = ("scores.json", "data/data.json", "process_data.py", "train.yaml", "model/model.safetensors")
SAME = ("baseline/scores.json", *(f"experiments/001/{name}" for name in MADE))
KINDS = {"process": ("--allow-unsandboxed",), "docker": ()}


def experiment(home: Path, kind: str) -> RunFolder:
    """The small run until its experiment is evaluated."""
    begin_small(home, kind, "--sandbox", kind, *KINDS[kind], FT_DOCKER_ENABLE_CACHE="False")
    owner = {"TUNELOOP_UNSANDBOXED": "always" if kind == "process" else "never"}
    printed = tuneloop(home, "resume", kind, "--step-n", str(UNTIL_EVALUATED), **owner, FT_DOCKER_ENABLE_CACHE="False")
    run = RunFolder(home / "runs" / kind)
    assert run.experiment(1).scores.is_file(), printed[-2000:]
    return run


@pytest.mark.soak
def test_scores_are_the_same_byte_for_byte(short_run: WholeRun, warm_home: Path, docker_host: str) -> None:
    assert read_json(short_run.run.setup)["sandbox"] == "bubblewrap"
    runs = {"bubblewrap": short_run.run} | {kind: experiment(warm_home, kind) for kind in KINDS}
    for name in SAME:
        found = {kind: digest_file(run.root / name) for kind, run in runs.items()}
        assert len(set(found.values())) == 1, (name, found)
    for kind, run in runs.items():
        logs = [path.read_text() for path in run.root.glob("experiments/001/jobs/*/log.txt")]
        assert logs
        assert not any("cold start" in log for log in logs), kind
