"""The metrics of meaning: what needs no model, and what is said where a model is missing."""

import subprocess
from pathlib import Path

import pytest

from tuneloop.tools.benchmarks.judging import load
from tuneloop.tools.engines import Engine

SCORERS = Path(__file__).parents[4] / "engines" / "opencompass" / "scorers"
MATCHING = load(SCORERS / "_matching.py")


def test_steps_that_mean_the_same() -> None:
    right, up, between = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)
    assert MATCHING.steps([right, up], [right]) == (0.5, 1.0)
    assert MATCHING.steps([right], [between, up, up]) == (1.0, pytest.approx(1 / 3))
    assert MATCHING.steps([right], [(-1.0, 0.0), (0.0, 0.0)]) == (0.0, 0.0)
    assert MATCHING.steps([right], []) == (0.0, 0.0)


def test_keywords_in_common() -> None:
    assert MATCHING.keywords({"pcr", "gel"}, {"pcr", "agar", "dish", "gel"}) == (0.5, 1.0, pytest.approx(2 / 3))
    assert MATCHING.keywords({"pcr"}, set()) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_a_missing_model_is_one_line_and_no_zero(opencompass: Engine) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import judging, pathlib; judging.load(pathlib.Path(sys.argv[2]))"
    )
    folder = SCORERS.parents[2] / "tools" / "benchmarks"
    argv: list[str | Path] = [opencompass.python, "-c", code, folder, SCORERS / "bioprobench_gen_meaning.py"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "share/bioprobench lacks nltk_data/corpora/wordnet, all-mpnet-base-v2" in done.stderr.splitlines()[-1]
