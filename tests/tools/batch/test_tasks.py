"""A batch is read whole and refused at its first fault, with file, line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.batch.tasks import BatchTask, parse_document, read_batch, read_document
from tuneloop.tools.benchmark_items.resolve import check_benchmark

TINY = {"model": "tiny", "benchmark": "wordproblems"}


def read(tmp_path: Path, text: str, name: str = "tasks.yaml", scenarios: str = "") -> tuple[BatchTask, ...]:
    settings = Settings(FT_FILE_PATH=tmp_path)

    def check(spec: RunSpec) -> None:
        check_benchmark(spec.benchmark, settings)

    described = parse_document(tmp_path / "scenarios.json", scenarios) if scenarios else None
    return read_batch("b", parse_document(tmp_path / name, text), described, settings, check)


def test_job_runner_file_is_read_as_it_is(tmp_path: Path) -> None:
    text = """{
\t"tasks": [
\t  {"model": "Qwen/Qwen2.5-7B-Instruct", "benchmark": "aime25", "gpus": "0,1", "timeout": "12h"},
\t  {"model": "Qwen/Qwen2.5-7B-Instruct", "benchmark": "gsm8k", "port": 8000, "benchmark_description": "Sums: say \\\\boxed{1}."}
\t]
}"""
    scenarios = '{"aime25": {"category": "math", "scenario": "hard sums", "benchmark_description": "Integers."}}'
    first, second = read(tmp_path, text, "tasks.json", scenarios)
    assert (first.gpus, first.options["timeout"], first.port) == ((0, 1), "12h", None)
    assert first.options["benchmark_description"] == "Integers."
    assert (second.gpus, second.options["timeout"], second.port) == ((), "12h", 8000)
    assert second.options["benchmark_description"] == "Sums: say \\boxed{1}."
    assert first.run_id == "b-1-aime25-Qwen2.5-7B-Instruct"
    assert "--base-model=Qwen/Qwen2.5-7B-Instruct" in first.words
    assert second.words[:2] == ("run", "--run-id=b-2-gsm8k-Qwen2.5-7B-Instruct")


def test_one_run_for_each_task_and_scenario(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
defaults: {loop_n: 2, max-regression: [mmlu:-2]}
tasks:
  - {model: tiny, benchmark: wordproblems, device_memory: 40GB, gpus: 2}
  - {base-model: tiny, benchmark: wordproblems, loop-n: 4}
scenarios:
  few: {upper_data_size_limit: 100}
  many: {upper_data_size_limit: 1000}
""",
    )
    assert [(one.scenario, one.options["loop_n"]) for one in found] == [
        ("few", 2),
        ("many", 2),
        ("few", 4),
        ("many", 4),
    ]
    assert (found[0].device_memory, found[0].gpus) == (40 * 10**9, 2)
    assert found[0].options["guards"] == ("mmlu:-2",)
    assert len({one.run_id for one in found}) == 4
    assert BatchTask.model_validate_json(found[0].model_dump_json()).words == found[0].words


def test_folders_are_named_so_that_the_batch_can_go_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("mine", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.jsonl").write_text('{"q": "a", "a": "b"}\n')
    (found,) = read(tmp_path, "tasks:\n- {model: ./mine, benchmark: gsm8k, dataset: ./data}\n")
    assert found.options["base_model"] == str(tmp_path / "mine")
    assert found.options["datasets"] == (str(tmp_path / "data"),)
    assert f"--dataset={tmp_path / 'data'}" in found.words


def test_several_benchmarks_of_a_task_are_a_list(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "tasks:\n- {model: tiny, benchmark: [wordproblems, gsm8k]}\n")
    assert found.options["benchmark"] == "wordproblems,gsm8k"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("tasks: []", "tasks.yaml, line 1: no tasks"),
        ("- model: tiny", "tasks.yaml, line 1: benchmark is missing"),
        ("tasks:\n- benchmark: gsm8k\n", "tasks.yaml, line 2: model is missing"),
        ("tasks:\n- model: tiny\n  gpu: 1\n", "tasks.yaml, line 3: no field 'gpu': did you mean 'gpus'"),
        ("taks:\n- model: tiny\n", "tasks.yaml, line 1: no field 'taks'"),
        ("tasks:\n- model: tiny\n  benchmark: nothing\n", "tasks.yaml, line 2: benchmark 'nothing'"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  timeout: soon\n", "tasks.yaml, line 2: --timeout 'soon'"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  gpus: one\n", "tasks.yaml, line 4: gpus: right is a count"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  gpus: -1\n", "tasks.yaml, line 4: gpus: right is a count from 0"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  gpus: '0,0'\n", "line 4: gpus: right is a count, e.g. 2, or"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  device_memory: big\n", "tasks.yaml, line 4: device_memory"),
        ("tasks:\n- model: tiny\n  benchmark: gsm8k\n  approve: plan\n", "line 4: approve: a batch asks nobody"),
        ("tasks:\n- model: tiny\n  model: tiny\n", "tasks.yaml, line 3: 'model' stands there twice"),
        ("tasks:\n- &a {model: tiny, benchmark: gsm8k}\n- *a\n", "an alias"),
        ("tasks:\n- model: tiny\n  benchmark: 5\n", "line 2: --benchmark '5': right is a name or a folder, as text"),
        ("tasks:\n- model: [tiny]\n  benchmark: gsm8k\n", "line 2: --base-model"),
        ("tasks:\n- tiny\n", "tasks.yaml, line 2: right is an object"),
        ("tasks: [", "tasks.yaml, line 1"),
        ("tasks:\n- {model: tiny, benchmark: gsm8k}\n- {model: tiny, benchmark: gsm8k}\n", "line 3: the same task as"),
    ],
)  # fmt: skip
def test_first_fault_is_one_line(tmp_path: Path, text: str, refusal: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(tmp_path, text)
    assert refusal in str(refused.value)
    assert "\n" not in str(refused.value)


def test_malformed_json_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text('{"tasks": [\n{"model": "tiny",}\n]}')
    with pytest.raises(InvalidRequestError, match=r"tasks\.json, line 2: "):
        read_document(tmp_path / "tasks.json")
    with pytest.raises(InvalidRequestError, match=r"cannot be read: No such file"):
        read_document(tmp_path / "none.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InvalidRequestError, match=r"deep\.json"):
        read_document(tmp_path / "deep.json")


def test_too_many_runs_are_refused(tmp_path: Path) -> None:
    scenarios = {str(seed): {"seed": seed} for seed in range(101)}
    text = json.dumps({"tasks": [{**TINY, "loop_n": n} for n in range(1, 11)], "scenarios": scenarios})
    with pytest.raises(InvalidRequestError, match="1010 runs; right are 1000 at most"):
        read(tmp_path, text, "tasks.json")
