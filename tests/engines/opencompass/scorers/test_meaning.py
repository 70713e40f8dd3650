"""The metrics of meaning: what needs no model, and what is said where a model is missing."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.engines import Engine
from tuneloop.tools.scoring.scorer import JUDGING, scorer_files, unpinned_files
from tuneloop.tools.scoring.scorer_loader import load

HERE = Path(__file__).parent
NAME = "bioprobench_gen_meaning"
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


DECLARED = Benchmark(name="protocols", description="Write steps.", answer=f"scorer:{NAME}")
FILES = scorer_files(DECLARED)
PLACE = "bioprobench/nltk_data/corpora/wordnet"
GEN = yaml.safe_dump(
    {"name": "protocols", "description": "Write steps.", "answer": f"scorer:{NAME}", "metric": "rouge_l"}
)
STEPS = ["Add 5 ml of buffer to the tube", "Heat the sample for 10 minutes in the cup", "Spin and wash"]


def tagged(text: str) -> str:
    return f"Sure.\n[ANSWER_START]{text}[ANSWER_END]"


JUDGED: list[tuple[Any, str]] = [
    (STEPS, tagged("\n".join(STEPS))),
    (STEPS, tagged(STEPS[0])),
    ("Put the cup back", tagged("Put the mug back")),
    (STEPS, "no tags"),
    (STEPS, tagged("the of and")),
    ("the of and", tagged("日本 ¶")),
]


@pytest.fixture(scope="module")
def brought(opencompass: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models and a small WordNet, in the formats of the real ones."""
    folder = tmp_path_factory.mktemp("brought")
    run(opencompass, HERE.parent / "make_model_sentences.py", folder)
    return folder


def run(engine: Engine, script: Path, *words: str | Path, given: Any = None) -> str:
    argv = [str(engine.python), "-B", "-W", "ignore", str(script), *map(str, words)]
    done = subprocess.run(argv, input=json.dumps(given), env=engine.env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metrics_by_models(opencompass: Engine, brought: Path) -> None:
    asked = [(json.dumps(gold), reply) for gold, reply in JUDGED]
    script = HERE.parent / "judge_replies.py"
    found = json.loads(run(opencompass, script, JUDGING, SCORERS / f"{NAME}.py", brought, given=asked))
    same, part, synonym, nothing, stops, foreign = (one["extra"] for one in found["verdicts"])
    assert [one["error"] for one in found["verdicts"]] == [""] * len(JUDGED)
    assert set(same.values()) == {1} or min(same.values()) > 0.99
    assert same.keys() == part.keys() == nothing.keys() == stops.keys()
    assert part["step_recall"] < 1 == part["redundancy_penalty"] == part["keyword_precision"]
    assert synonym["meteor"] > 0.9 > synonym["keyword_f1"]  # a mug is a cup
    assert synonym.keys() == foreign.keys() == {"meteor", "keyword_precision", "keyword_recall", "keyword_f1"}
    assert set(nothing.values()) == {0.0}
    assert stops["keyword_f1"] == foreign["meteor"] == 0
    assert found["summary"]["step_recall"] == pytest.approx(
        25 * sum(one["step_recall"] for one in (same, part, nothing, stops))
    )


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Everything by name."""
    for name in FILES:
        (tmp_path / "there" / name).mkdir(parents=True)
        (tmp_path / "there" / name / "config.json").write_text(name)
    return tmp_path / "there"


def test_what_is_missing_is_one_line_before_anything_is_fetched(there: Path, tmp_path: Path) -> None:
    own = tmp_path / "protocols"
    own.mkdir()
    (own / "benchmark.yaml").write_text(GEN)
    for split in ("validation", "test"):
        (own / f"{split}.jsonl").write_text(json.dumps({"prompt": f"Write {split}.", "answer": '"Mix it."'}) + "\n")
    assert resolve.check_benchmark(str(own), Settings(TUNELOOP_SCORER_FILES=str(there))).scorer == NAME
    for folder in ("", str(tmp_path)):
        with pytest.raises(
            InvalidRequestError, match=f"benchmark protocols cannot be judged: .*={folder} lacks {PLACE}, "
        ):
            resolve.check_benchmark(str(own), Settings(TUNELOOP_SCORER_FILES=folder))


def test_other_models_are_other_verdicts(there: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(there, other)
    assert unpinned_files(DECLARED, there, None) == unpinned_files(DECLARED, other, None) != []
    (other / "bioprobench" / "all-MiniLM-L6-v2" / "config.json").write_text("{}")
    assert unpinned_files(DECLARED, there, None) != unpinned_files(DECLARED, other, None)


def test_damaged_files_end_before_the_first_reply(opencompass: Engine, brought: Path, tmp_path: Path) -> None:
    lost, other = tmp_path / "lost", tmp_path / "other"
    for folder in (lost, other):
        shutil.copytree(brought, folder)
    (lost / PLACE / "data.noun").unlink()
    (other / "bioprobench" / "all-MiniLM-L6-v2" / "1_Pooling" / "config.json").write_text("{}")
    said = json.loads(run(opencompass, HERE.parent / "use_files.py", JUDGING, SCORERS / f"{NAME}.py", lost, other))
    assert "data.noun" in said[0] and "its vectors are no means of tokens" in said[1]
