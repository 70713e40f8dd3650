"""A task that is a Python file, read and judged by its own checker in the sandbox; what is none is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME, quiet
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import select_validation
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.standalone.measure import measure
from tuneloop.tools.evaluation.standalone.subjects import find_subject
from tuneloop.tools.matrix.configs import EvalConfig
from tuneloop.tools.matrix.tasks import load_task, task_sets
from tuneloop.tools.matrix.user_task import task_name

TASK = """
from __future__ import annotations

import json
import re
from pathlib import Path

from tasks.base import Sample, Task


class SumTask(Task):
    def name(self):
        return "sums"

    def load_train(self):
        rows = json.loads((Path(__file__).parent / "train.json").read_text())
        return [Sample(question=q, answer=a, solution=s) for q, a, s in rows]

    def load_test(self):
        return [Sample(f"What is {i} plus {i + 1}?", str(2 * i + 1)) for i in range(100, 104)]

    def extract_answer(self, model_output):
        found = re.findall(r"-?\\d+", model_output)
        return found[-1] if found else None

    def check_answer(self, extracted, gold):
        return int(extracted) == int(gold)
"""


def write(tmp_path: Path, text: str = TASK) -> str:
    (tmp_path / "train.json").write_text(json.dumps([["What is 900 plus 901?", "1801", "900+901=1801"]]))
    (tmp_path / "sums.py").write_text(text)
    return str(tmp_path / "sums.py")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(FT_FILE_PATH=tmp_path / "home", FT_ENGINES_DIR=SHARED_HOME / "engines")


def test_its_samples_and_its_verdicts(tmp_path: Path, settings: Settings, opencompass: Engine) -> None:
    task = load_task(write(tmp_path, TASK.replace("SumTask(Task)", "SumTask")), settings)  # methods make a task too
    assert [(one.prompt, one.reply) for one in task.train] == [("What is 900 plus 901?", "900+901=1801")]
    items = select_validation(task.folder).every
    assert sorted(item.fields["prompt"] for item in items)[0] == "What is 100 plus 101?"
    replies = tmp_path / "replies.jsonl"
    said = dict(zip([item.id for item in items], ["it is 000201", "999", "no number", "x"], strict=True))
    right = items[0]
    assert right.calls is not None
    rows = [{"id": i, "prediction": text} for i, text in said.items()]
    gold = right.calls.model_dump()["item"]["answer"]
    rows[0]["prediction"] = f"it is 000{gold}"
    replies.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = task_sets(task, EvalConfig().decoding, None, {})["raw"]
    score = measure(find_subject(str(replies), settings, quiet), (given,), settings, quiet, device="cpu").scores[
        given.name
    ]
    assert {item.id: item.correct for item in score.every} == {item.id: item.id == right.id for item in items}
    assert score.scorer_failed() == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "class SumTask(Task)",
            "class Other(Task): pass\n\n\nclass SumTask(Task)",
            "defines 2 classes that are a task",
        ),
        ("return int(extracted) == int(gold)", "raise RuntimeError('boom')", "RuntimeError: boom"),
        ("return int(extracted) == int(gold)", "return False", "check_answer turns down the gold answer '"),
        ("def load_train", "def load_training", "SumTask has no load_train"),
        ("import re\n", "import re, socket\nsocket.create_connection(('1.1.1.1', 80), 2)\n", "sums.py: .*Error"),
        ("for i in range(100, 104)", "for i in []", "load_test gives 0 samples"),
    ],
    ids=["two classes", "raises", "turns down", "lacks", "network", "empty"],
)
def test_what_is_no_task_is_one_line(
    tmp_path: Path, settings: Settings, opencompass: Engine, before: str, after: str, said: str
) -> None:
    assert before in TASK
    name = write(tmp_path, TASK.replace(before, after))
    with pytest.raises(InvalidRequestError, match=said) as found:
        load_task(name, settings)
    assert "\n" not in str(found.value)


def test_a_checker_that_hangs_is_ended(
    tmp_path: Path, settings: Settings, opencompass: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneloop.tools.matrix.user_task.SECONDS", 3.0)
    name = write(tmp_path, TASK.replace("return int(extracted)", "while True: pass\n        return int(extracted)"))
    with pytest.raises(InvalidRequestError, match="its checker not tried, within 3 s"):
        load_task(name, settings)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InvalidRequestError, match="no such file; right is a Python file with one class"):
        task_name("absent.py")
