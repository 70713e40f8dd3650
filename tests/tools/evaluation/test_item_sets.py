"""A job's key changes with everything that can change a verdict, and a job sees only what it needs."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tuneloop.core.errors import RecipeError
from tuneloop.core.layout import Home
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, sealed_items, select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.evaluation import item_sets
from tuneloop.tools.evaluation.item_sets import (
    EvaluationConditions,
    ItemSet,
    ModelWeights,
    conditions_hash,
    evaluation_command,
    make_item_set,
    result_keys,
)
from tuneloop.tools.scoring.scorer import JUDGING, SCORING

ENGINE: Any = SimpleNamespace(
    python=Path("/e/bin/python"), bin=Path("/e/bin"), readable=("/e",), identity="abc", env={}
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolder:
    return resolve_benchmark("wordproblems", Home(tmp_path_factory.mktemp("home")), None)


@pytest.fixture(scope="module")
def asked(folder: BenchmarkFolder) -> ItemSet:
    return make_item_set(folder, "validation", 10)


def model(root: Path) -> Path:
    root.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "trainer_state.json"):
        (root / name).write_text(name)
    return root


def test_the_job_sees_only_what_it_needs(tmp_path: Path, folder: BenchmarkFolder, asked: ItemSet) -> None:
    base, adapter = model(tmp_path / "base"), model(tmp_path / "lora")
    (adapter / "adapter_model.safetensors").write_text("w")
    out = tmp_path / "run" / "out"
    command = evaluation_command(ENGINE, [ModelWeights("a", base, adapter, base)], [asked], out)
    job = json.loads(Path(command.argv[2]).read_text())
    assert command.write == (str(out),)
    assert set(command.read) == {
        "/e", str(item_sets.SCRIPTS), str(SCORING), str(JUDGING), str(base), str(adapter), f"{out}.input"
    }  # fmt: skip
    assert not any(str(folder.root) in place for place in command.read)
    (given,) = job["sets"]
    assert [row["id"] for row in map(json.loads, Path(given["items"]).read_text().splitlines())] == [
        item.id for item in select_validation(folder, 10).every
    ]
    facts = {"name": "a", "path": str(base), "adapter": str(adapter), "tokenizer": str(base)}
    (asking,) = job["models"]
    assert len(asking.pop("keys")["wordproblems"]) == 16
    assert asking == {**facts, "sets": ["wordproblems"]}
    assert command.env["HF_HUB_OFFLINE"] == "1"
    assert not command.network
    assert not {"HF_TOKEN", "OPENAI_API_KEY"} & command.env.keys()


def test_cached_results_stay_out_of_the_job(tmp_path: Path, asked: ItemSet) -> None:
    known_place = model(tmp_path / "known")
    models = [ModelWeights("known", known_place), ModelWeights("half", model(tmp_path / "half"))]
    sets = [asked, ItemSet("guard", asked.benchmark, "validation", asked.items[:3])]
    known = {("known", "wordproblems"), ("known", "guard"), ("half", "guard")}
    command = evaluation_command(ENGINE, models, sets, tmp_path / "out", without=known)
    job = json.loads(Path(command.argv[2]).read_text())
    assert [(m["name"], m["sets"]) for m in job["models"]] == [("half", ["wordproblems"])]
    assert [given["name"] for given in job["sets"]] == ["wordproblems"]
    assert str(known_place) not in command.read
    assert not (tmp_path / "out.input" / "guard.jsonl").exists()
    assert command.key != evaluation_command(ENGINE, models, sets, tmp_path / "out").key


def test_no_test_item_is_near_a_validation_job(tmp_path: Path, folder: BenchmarkFolder, asked: ItemSet) -> None:
    weights = [ModelWeights("a", model(tmp_path / "m"))]
    evaluation_command(ENGINE, weights, [make_item_set(folder, "validation")], tmp_path / "out")
    written = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert not any(json.dumps(item.fields["prompt"]) in written for item in sealed_items(folder))
    evaluation_command(ENGINE, weights, [make_item_set(folder, "test")], tmp_path / "final")
    written = (tmp_path / "final.input" / "wordproblems.jsonl").read_text()
    assert all(json.dumps(item.fields["prompt"]) in written for item in sealed_items(folder))


def test_key_covers_exactly_what_matters(tmp_path: Path, folder: BenchmarkFolder) -> None:
    base = model(tmp_path / "base")

    def key(engine: Any = ENGINE, run_tools: BenchmarkFolder = folder, limit: int | None = None, **how: Any) -> str:
        given = make_item_set(run_tools, how.pop("split", "validation"), limit)
        (found,) = result_keys(
            engine, [ModelWeights(how.pop("name", "a"), base)], [given], EvaluationConditions(**how)
        ).values()
        return found

    first = key()
    (base / "trainer_state.json").write_text("other")
    os.utime(base / "model.safetensors", (0, 0))
    assert key() == key(name="other") == first
    longer = folder.benchmark.model_copy(update={"max_new_tokens": 7})
    number = folder.benchmark.model_copy(update={"answer": "number"})
    worded = folder.benchmark.model_copy(update={"prompt": "Q: {prompt}"})
    others = [
        key(engine=SimpleNamespace(**{**vars(ENGINE), "identity": "other"})),
        *(key(run_tools=BenchmarkFolder(b, folder.root, folder.fingerprint)) for b in (longer, number, worded)),
        key(limit=5),
        key(split="test"),
        key(device="cuda"),
        key(batch_size=3),
        key(backend="vllm"),
        key(seed=2),
    ]
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (base / name).write_text("other of the same use")
        others.append(key())
    assert len({first, *others}) == 1 + len(others)


def test_an_adapter_and_its_base_both_count(tmp_path: Path, asked: ItemSet) -> None:
    base, lora = model(tmp_path / "base"), model(tmp_path / "lora")
    plain, adapted = ModelWeights("a", base), ModelWeights("b", base, lora, base)
    keys = result_keys(ENGINE, [plain, adapted], [asked], EvaluationConditions())
    (lora / "model.safetensors").write_text("trained further")
    after = result_keys(ENGINE, [plain, adapted], [asked], EvaluationConditions())
    assert after["a", asked.name] == keys["a", asked.name] != keys["b", asked.name] != after["b", asked.name]
    assert (
        result_keys(ENGINE, [ModelWeights("a", base, None, base)], [asked], EvaluationConditions())["a", asked.name]
        == keys["a", asked.name]
    )


def test_vllm_runs_in_one_process_without_telemetry(tmp_path: Path, asked: ItemSet) -> None:
    how = EvaluationConditions(device="cuda", backend="vllm")
    command = evaluation_command(ENGINE, [ModelWeights("a", model(tmp_path / "base"))], [asked], tmp_path / "out", how)
    assert json.loads(Path(command.argv[2]).read_text())["backend"] == "vllm"
    assert (command.env["VLLM_ENABLE_V1_MULTIPROCESSING"], command.env["VLLM_NO_USAGE_STATS"]) == ("0", "1")


def test_a_model_without_weights_is_refused(tmp_path: Path, asked: ItemSet) -> None:
    base = model(tmp_path / "base")
    with pytest.raises(RecipeError, match="no adapter_model"):
        evaluation_command(ENGINE, [ModelWeights("a", base, base)], [asked], tmp_path / "out")
    with pytest.raises(ValueError, match="two models of one name"):
        evaluation_command(ENGINE, [ModelWeights("a", base), ModelWeights("a", base)], [asked], tmp_path / "out")
    with pytest.raises(ValueError, match="is no model name"):
        evaluation_command(ENGINE, [ModelWeights("../a", base)], [asked], tmp_path / "out")
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    with pytest.raises(RecipeError, match="nothing to measure"):
        evaluation_command(ENGINE, [ModelWeights("a", base)], [asked], tmp_path / "out")


def test_another_gpu_is_another_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(device: Literal["cpu", "cuda"], *models: str) -> str:
        monkeypatch.setattr(item_sets, "gpu_models", lambda: list(models))
        return conditions_hash(ENGINE, EvaluationConditions(device=device))

    assert key("cuda", "NVIDIA L4") == key("cuda", "NVIDIA L4") != key("cuda", "NVIDIA H100")
    assert key("cpu", "NVIDIA L4") == key("cpu")
