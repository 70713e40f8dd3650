"""Training rows of tasks: as the benchmark asks and wants them, without its own items, with the ends that a text needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.stand_in_engine import write_benchmark
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, select_validation
from tuneloop.tools.benchmark_items.reasoning_gym import declare_reasoning_gym
from tuneloop.tools.evaluation.standalone.measure import Decoding
from tuneloop.tools.matrix.experiments import EXPERIMENTS
from tuneloop.tools.matrix.tasks import Task, load_task, sample_of, task_sets, text_ends, training_row
from tuneloop.tools.models.tiny import SHIPPED

CHAT, FULL, MASKED = (one for one in EXPERIMENTS if one.method == "sft")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(FT_FILE_PATH=tmp_path / "home")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task("wordproblems", Settings(FT_FILE_PATH=tmp_path_factory.mktemp("embedded")))


def write_task(tmp_path: Path, *rows: object) -> str:
    place = write_benchmark(tmp_path / "sums")
    (place / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(place)


def test_the_embedded_task(embedded: Task) -> None:
    task = embedded
    assert len(task.train) + task.dropped == 2000
    assert len(task.train) > 1900
    first = task.train[0]
    assert first.prompt.endswith("\nEnd with \\boxed{answer}.")
    assert first.reply.splitlines()[-1].startswith("\\boxed{")
    items = {item.fields["prompt"] for item in select_validation(task.folder).every}
    assert not items & {one.prompt for one in task.train}


def test_a_folder_is_a_task(tmp_path: Path, settings: Settings) -> None:
    asked = "What is 900 plus 901?"
    name = write_task(
        tmp_path, {"prompt": asked, "solution": "900+901=1801", "answer": "1801"}, {"prompt": "2?", "answer": 2}
    )
    (first, second) = load_task(name, settings).train
    assert first.prompt == asked
    assert first.reply == "900+901=1801\n\\boxed{1801}"
    assert second.reply == "\\boxed{2}"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), "no training rows; right is .*/train.jsonl: JSON Lines"),
        (({"prompt": "x"},), "a training row has no answer"),
        (({"answer": "x"},), "a training row has no prompt"),
        ((["x"],), r"train.jsonl:1: is no object"),
    ],
)
def test_what_is_no_task_is_refused(tmp_path: Path, settings: Settings, rows: tuple[object, ...], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        load_task(write_task(tmp_path, *rows), settings)


def test_rows_that_hold_items_are_left_out(tmp_path: Path, settings: Settings) -> None:
    name = write_task(tmp_path, {"prompt": "What is 900 plus 901?", "answer": "1801"})
    held = select_validation(load_task(name, settings).folder).every[0]
    rows = [{"prompt": held.fields["prompt"], "answer": held.answer}]
    Path(name, "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InvalidRequestError, match="every training row holds an item"):
        load_task(name, settings)


def test_both_formats_ask_the_same_items(embedded: Task) -> None:
    sets = task_sets(embedded, Decoding(max_out_len=7), 12, {"enable_thinking": False})
    assert sets["chat"].items == sets["raw"].items
    assert len(sets["raw"].items) == 12
    assert [one.benchmark.form for one in sets.values()] == ["chat", "base"]
    assert [dict(one.template_options) for one in sets.values()] == [{"enable_thinking": False}, {}]
    assert sets["chat"].benchmark.max_new_tokens == 7


def test_a_text_carries_what_begins_and_ends_it(embedded: Task) -> None:
    ends = text_ends(SHIPPED)
    assert (ends.before, ends.after) == ("", "<|im_end|>")
    sample = embedded.train[0]
    assert training_row(CHAT, sample, ends) == {"instruction": sample.prompt, "input": "", "output": sample.reply}
    for one in (FULL, MASKED):
        assert training_row(one, sample, ends)["output"] == sample.reply + "<|im_end|>"


def test_a_tokenizer_that_begins_texts(tmp_path: Path) -> None:
    """As Llama's: one token before every text."""
    place = tmp_path / "model"
    shutil.copytree(SHIPPED, place)
    found = json.loads((place / "tokenizer.json").read_text())
    start = {
        "id": "<|im_start|>",
        "ids": [next(t["id"] for t in found["added_tokens"] if t["content"] == "<|im_start|>")],
    }
    found["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_start|>": {**start, "tokens": ["<|im_start|>"]}},
    }
    (place / "tokenizer.json").write_text(json.dumps(found))
    assert text_ends(place).before == "<|im_start|>"
    (place / "tokenizer_config.json").write_text("{}")
    with pytest.raises(InvalidRequestError, match="names no end of text"):
        text_ends(place)


def test_a_verifier_gets_a_training_row_as_it_gets_an_item(tmp_path: Path) -> None:
    declared = Benchmark(name="own", description="d", answer="verifier:v.py", prompt="Say {what}.")
    row = {"id": "a", "what": "two", "answer": "2", "most": 9}
    sample = sample_of(BenchmarkFolder(declared, tmp_path, "f"), row, "own")
    assert sample.item == {"what": "two", "answer": "2", "most": 9}


def test_a_reply_ends_as_the_prompt_asks(tmp_path: Path) -> None:
    folder = BenchmarkFolder(declare_reasoning_gym("rg:basic_arithmetic"), tmp_path, "f")
    assert sample_of(folder, {"question": "1+1", "answer": "2"}, "rg").reply == "<answer>2</answer>"
