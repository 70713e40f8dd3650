"""A score is believed item by item or not at all; a job's key changes with everything that can change a verdict."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.core.benchmark import Item
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.tools import evaluation
from tuneloop.tools.benchmarks import BenchmarkFolder, items, resolve, sealed_items
from tuneloop.tools.benchmarks.scoring import correct, extract
from tuneloop.tools.evaluation import Weights, collect, evaluation_command

ENGINE: Any = SimpleNamespace(
    python=Path("/e/bin/python"), bin=Path("/e/bin"), readable=("/e",), identity="abc", env={}
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolder:
    return resolve("wordproblems", Home(tmp_path_factory.mktemp("home")), None)


@pytest.fixture
def asked(folder: BenchmarkFolder) -> list[Item]:
    return items(folder, "validation", 10)


def model(root: Path) -> Path:
    root.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "trainer_state.json"):
        (root / name).write_text(name)
    return root


def results(asked: list[Item], right: int) -> dict[str, Any]:
    rows = []
    for i, item in enumerate(asked):
        text = f"so \\boxed{{{item.answer}}}" if i < right else "no idea"
        verdict = {
            "parsed": extract("boxed", text),
            "answer": item.answer,
            "correct": correct("boxed", item.answer, text),
        }
        rows.append({"id": item.id, "prediction": text, **verdict})
    return {"name": "one", "accuracy": 100 * right / len(asked), "truncated": 0, "items": rows}


def write(out: Path, *models: dict[str, Any]) -> Path:
    write_json(out / "results.json", {"models": models, "versions": {}})
    return out


def test_scores_have_interval_parse_rate_and_items_in_order(
    tmp_path: Path, folder: BenchmarkFolder, asked: list[Item]
) -> None:
    out = write(tmp_path, results(asked[::-1], 4), {**results(asked, 7), "name": "two"})
    found = collect(out, asked, folder.benchmark, "validation")
    assert [found[name].value for name in ("one", "two")] == [40, 70]
    one = found["one"]
    assert (one.n, one.parsed, one.split, one.benchmark) == (10, 40, "validation", "wordproblems")
    assert one.low < 40 < one.high
    assert [item.id for item in one.items] == [item.id for item in asked]


def test_a_metric_to_be_small_counts_wrong_answers(tmp_path: Path, folder: BenchmarkFolder, asked: list[Item]) -> None:
    errors = folder.benchmark.model_copy(update={"direction": "min", "metric": "error_rate"})
    found = collect(write(tmp_path, results(asked, 4)), asked, errors, "validation")["one"]
    assert (found.value, found.direction) == (60, "min")
    assert found.low < 60 < found.high


Change = Callable[[dict[str, Any]], object]
LIES: dict[str, tuple[Change, str]] = {
    "a missing item": (lambda m: m["items"].pop(), "1 missing items"),
    "a foreign item": (lambda m: m["items"].append({**m["items"][0], "id": "x"}), "1 foreign items"),
    "an item twice": (lambda m: m["items"].append(m["items"][0]), "11 results for 10 items"),
    "a wrong verdict": (lambda m: m["items"][9].update(correct=True), "the engine's verdict is"),
    "another parse": (lambda m: m["items"][0].update(parsed="-1"), "the engine's verdict is"),
    "another gold answer": (lambda m: m["items"][0].update(answer="-1"), "the engine's verdict is"),
    "an answer that is no text": (lambda m: m["items"][0].update(prediction=None), "is no text"),
    "another accuracy": (lambda m: m.update(accuracy=99.0), "the engine reports 99.0"),
    "no number": (lambda m: m.update(accuracy=float("nan")), "the engine reports nan"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_of_the_engine_are_named(lie: str, tmp_path: Path, folder: BenchmarkFolder, asked: list[Item]) -> None:
    change, says = LIES[lie]
    told = results(asked, 4)
    change(told)
    (tmp_path / "results.json").write_text(json.dumps({"models": [told]}))
    with pytest.raises(WorldError, match=says):
        collect(tmp_path, asked, folder.benchmark, "validation")


def test_without_results_nothing_was_measured(tmp_path: Path, folder: BenchmarkFolder, asked: list[Item]) -> None:
    with pytest.raises(RecipeError, match=r"left no results\.json"):
        collect(tmp_path, asked, folder.benchmark, "validation")
    (tmp_path / "results.json").write_text('{"models": [')
    with pytest.raises(WorldError, match="is broken"):
        collect(tmp_path, asked, folder.benchmark, "validation")


def test_the_job_sees_only_what_it_needs(tmp_path: Path, folder: BenchmarkFolder) -> None:
    base, adapter = model(tmp_path / "base"), model(tmp_path / "lora")
    (adapter / "adapter_model.safetensors").write_text("w")
    out = tmp_path / "run" / "out"
    command = evaluation_command(ENGINE, [Weights("a", base, adapter, base)], folder, "validation", out, limit=10)
    job = json.loads(Path(command.argv[2]).read_text())
    assert command.write == (str(out),)
    assert set(command.read) == {
        "/e", str(evaluation.SCRIPTS), str(evaluation.SCORER), str(base), str(adapter), f"{out}.input"
    }  # fmt: skip
    assert not any(str(folder.root) in place for place in command.read)
    assert [row["id"] for row in map(json.loads, Path(job["items"]).read_text().splitlines())] == [
        item.id for item in items(folder, "validation", 10)
    ]
    assert job["models"] == [{"name": "a", "path": str(base), "adapter": str(adapter), "tokenizer": str(base)}]
    assert command.env["HF_HUB_OFFLINE"] == "1"
    assert not command.network
    assert not {"HF_TOKEN", "OPENAI_API_KEY"} & command.env.keys()


def test_no_test_item_is_near_a_validation_job(tmp_path: Path, folder: BenchmarkFolder) -> None:
    weights = [Weights("a", model(tmp_path / "m"))]
    evaluation_command(ENGINE, weights, folder, "validation", tmp_path / "out")
    written = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert not any(json.dumps(item.fields["prompt"]) in written for item in sealed_items(folder))
    evaluation_command(ENGINE, weights, folder, "test", tmp_path / "final")
    written = (tmp_path / "final.input" / "items.jsonl").read_text()
    assert all(json.dumps(item.fields["prompt"]) in written for item in sealed_items(folder))


def test_the_key_changes_with_all_that_matters_and_nothing_else(tmp_path: Path, folder: BenchmarkFolder) -> None:
    base = model(tmp_path / "base")

    def key(engine: Any = ENGINE, bench: BenchmarkFolder = folder, weights: Path = base, **more: Any) -> str:
        out = tmp_path / "out"
        return evaluation_command(
            engine, [Weights("a", weights)], bench, more.pop("split", "validation"), out, **more
        ).key

    first = key()
    (base / "trainer_state.json").write_text("other")
    os.utime(base / "model.safetensors", (0, 0))
    assert key() == first
    longer = folder.benchmark.model_copy(update={"max_new_tokens": 7})
    number = folder.benchmark.model_copy(update={"answer": "number"})
    worded = folder.benchmark.model_copy(update={"prompt": "Q: {prompt}"})
    others = [
        key(engine=SimpleNamespace(**{**vars(ENGINE), "identity": "other"})),
        *(key(bench=BenchmarkFolder(b, folder.root, folder.fingerprint)) for b in (longer, number, worded)),
        key(limit=5),
        key(split="test"),
        key(device="cuda"),
        key(batch_size=3),
    ]
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (base / name).write_text("other of the same use")
        others.append(key())
    assert len({first, *others}) == 1 + len(others)


def test_a_model_without_weights_is_refused(tmp_path: Path, folder: BenchmarkFolder) -> None:
    base = model(tmp_path / "base")
    with pytest.raises(RecipeError, match="no adapter_model"):
        evaluation_command(ENGINE, [Weights("a", base, base)], folder, "validation", tmp_path / "out")
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    with pytest.raises(RecipeError, match="nothing to measure"):
        evaluation_command(ENGINE, [Weights("a", base)], folder, "validation", tmp_path / "out")
    with pytest.raises(ValueError, match="is no model name"):
        evaluation_command(ENGINE, [Weights("../a", base)], folder, "validation", tmp_path / "out")
