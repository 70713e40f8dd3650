"""Options, environment and defaults become one RunSpec; the seeds' own `.env` files and command lines work as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tuneloop.cli.notes import dotenv_notes, settings_notes
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.runs.manifest import FORMAT, read_spec, write_manifest
from tuneloop.tools.runs.spec import build_spec, spec_from_options

DESCRIPTION_LINE = (
    'FT_BENCHMARK_DESCRIPTION="AIME 2025 math competition problems. Each answer is an integer from 0 to 999. '
    r"Expected Output Format: put the final answer within \\boxed{}, for example \\boxed{42}."
    '"'
)
SEED_DOTENV = r"""
# LLM backend
BACKEND=rdagent.oai.backend.LiteLLMAPIBackend
CHAT_MODEL=gpt-4o
CHAT_TEMPERATURE=1
CHAT_STREAM=True
OPENAI_API_KEY=<your_api_key>
# OPENAI_API_BASE=<your_api_base_if_needed>
EMBEDDING_MODEL=text-embedding-3-small
FT_FILE_PATH=/absolute/path/to/finetune_files
FT_Coder_CoSTEER_env_type=docker
FT_TARGET_BENCHMARK=aime25
DESCRIPTION_LINE
FT_BASE_MODEL=Qwen/Qwen2.5-7B-Instruct
FT_UPPER_DATA_SIZE_LIMIT=2000
FT_API_MAX_WORKERS=8
FT_STRONG_MODELS='["gpt-4o"]'
FT_WEAK_MODELS='["gpt-4o-mini"]'
""".replace("DESCRIPTION_LINE", DESCRIPTION_LINE)
OLD_DOTENV = """
FT_FILE_PATH=/home/user/workspace/finetune
FT_DOCKER_ENABLE_CACHE=True
FT_UPDATE_LLAMA_FACTORY=False
FT_BENCHMARK_DATASETS=["aime25","gsm8k"]
FT_BENCHMARK_LIMIT=10
# FT_BENCHMARK_LIMIT=   # Unset to use full datasets
FT_JUDGE_MODEL=gpt-4
FT_JUDGE_API_KEY=sk-xxxxx
FT_JUDGE_API_BASE=http://10.150.240.117:38805
FT_DEBUG_TIMEOUT=3600
FT_FULL_TIMEOUT=36000
"""


def settings_of(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / ".env"
    file.write_text(text)
    return load_settings(file)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FT_FILE_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_given_is_the_embedded_task(bare: Path) -> None:
    spec = build_spec({"benchmark": None, "datasets": ()}, Settings())
    assert (spec.benchmark, spec.base_model, spec.datasets, spec.loop_n, spec.seed) == (
        "wordproblems",
        "tiny",
        (),
        None,
        1,
    )


def test_the_seeds_dotenv_works_verbatim(bare: Path) -> None:
    settings = settings_of(bare, SEED_DOTENV)
    spec = build_spec({}, settings)
    assert (spec.benchmark, spec.base_model, spec.sandbox) == ("aime25", "Qwen/Qwen2.5-7B-Instruct", "docker")
    assert spec.benchmark_description is not None
    assert spec.benchmark_description.endswith(r"put the final answer within \boxed{}, for example \boxed{42}.")
    assert str(settings.home.root) == "/absolute/path/to/finetune_files"
    notes = dotenv_notes(bare / ".env")
    assert sum("BACKEND" in note for note in notes) == 1
    assert (settings.chat_model, settings.chat_temperature, settings.chat_stream) == ("gpt-4o", 1.0, True)
    assert not any("<your_api_key>" in note for note in notes), "notes name keys, never values"


def test_the_older_dotenv_too(bare: Path) -> None:
    settings = settings_of(bare, OLD_DOTENV)
    spec = build_spec({"base_model": "tiny"}, settings)
    assert (spec.benchmark, spec.benchmark_limit, settings.full_timeout) == ("aime25", 10, 36000)
    assert "gsm8k" in spec.also
    assert not any("sk-xxxxx" in note for note in dotenv_notes(bare / ".env"))


def test_option_wins_over_environment_over_dotenv(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".env").write_text("FT_BASE_MODEL=from-file\nFT_UPPER_DATA_SIZE_LIMIT=5\nFT_DATASET=a,b\n")
    monkeypatch.setenv("FT_BASE_MODEL", "from-environment")
    spec = build_spec({"upper_data_size_limit": 7}, load_settings(bare / ".env"))
    assert (spec.base_model, spec.upper_data_size_limit, spec.datasets) == ("from-environment", 7, ("a", "b"))
    assert build_spec({"base_model": "from-option"}, load_settings(bare / ".env")).base_model == "from-option"


def test_the_run_chooses_a_base_model_that_nobody_named(bare: Path) -> None:
    (bare / "auto").mkdir()
    assert build_spec({"benchmark": "gsm8k"}, load_settings()).base_model == "auto"
    assert build_spec({"benchmark": "wordproblems"}, load_settings()).base_model == "tiny"


def test_a_description_stays_with_its_own_benchmark(bare: Path) -> None:
    settings = settings_of(bare, "FT_TARGET_BENCHMARK=aime25\nFT_BENCHMARK_DESCRIPTION=of aime\nFT_BASE_MODEL=m\n")
    assert build_spec({"benchmark": "aime25"}, settings).benchmark_description == "of aime"
    assert build_spec({"benchmark": "gsm8k"}, settings).benchmark_description is None
    alone = settings_of(bare, "FT_BENCHMARK_DESCRIPTION=mine\nFT_BASE_MODEL=m\n")
    assert build_spec({"benchmark": "gsm8k"}, alone).benchmark_description == "mine"
    listed = settings_of(bare, 'FT_BENCHMARK_DATASETS=["gsm8k"]\nFT_BENCHMARK_DESCRIPTION=of sums\nFT_BASE_MODEL=m\n')
    assert build_spec({"benchmark": "gsm8k"}, listed).benchmark_description == "of sums"
    assert build_spec({"benchmark": "aime25"}, listed).benchmark_description is None


def test_what_belongs_to_a_benchmark_is_not_repeated_with_another(bare: Path) -> None:
    base = RunSpec(benchmark="gsm8k", base_model="m", benchmark_description="sums", benchmark_limit=7, loop_n=3)
    same = build_spec({"loop_n": 4}, Settings(), base)
    assert (same.benchmark_description, same.benchmark_limit, same.loop_n) == ("sums", 7, 4)
    other = build_spec({"benchmark": "aime25"}, Settings(), base)
    assert (other.benchmark_description, other.benchmark_limit, other.loop_n) == (None, None, 3)


@pytest.mark.parametrize(
    ("text", "seconds"), [("12h", 43200), ("3600", 3600), ("90m", 5400), ("2d", 172800), ("0", None)]
)
def test_timeouts(bare: Path, text: str, seconds: float | None) -> None:
    assert build_spec({"timeout": text}, Settings()).timeout == seconds


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"timeout": "-5"}, "--timeout '-5'"),
        ({"timeout": "soon"}, "right is a number of seconds or 90m, 12h, 2d"),
        ({"loop_n": -1}, "--loop-n -1"),
        ({"benchmark": "gsm8"}, "did you mean"),
    ],
)
def test_bad_values_are_one_line_naming_the_option(bare: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequestError) as e:
        build_spec(given, Settings())
    assert says in str(e.value)
    assert "\n" not in str(e.value)


def test_guards_are_measured_too_and_survive_again(bare: Path) -> None:
    spec = build_spec({"guards": ("mmlu:-2,gsm8k:-0.5",), "seeds": 3}, load_settings())
    assert list(map(str, spec.guards)) == ["mmlu:-2", "gsm8k:-0.5"]
    assert spec.measured == ("wordproblems", "mmlu", "gsm8k")
    assert build_spec({}, load_settings(), base=spec) == spec
    (bare / "my").mkdir()
    assert build_spec({"guards": ("./my:-1",)}, load_settings()).measured == ("wordproblems", str(bare / "my"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("mmlu", "--max-regression 'mmlu': right is BENCHMARK:-POINTS, e.g. mmlu:-2"),
        ("mmlu:2", "--max-regression 'mmlu:2': right is"),
        ("wordproblems:-1", "--max-regression: wordproblems decides and cannot guard as well"),
        ("mmlu:-1,mmlu:-2", "names a benchmark twice"),
    ],
)
def test_a_guard_that_is_none_is_one_line(bare: Path, given: str, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(says)):
        build_spec({"guards": (given,)}, load_settings())


DATA = {"base_model": "m", "datasets": ("org/data",)}


def test_an_empty_list_of_benchmarks_is_a_run_without_evaluation(bare: Path) -> None:
    with pytest.raises(InvalidRequestError, match="names none"):
        build_spec({"benchmark": ","}, settings_of(bare, "\n"))
    empty = settings_of(bare, "FT_BENCHMARK_DATASETS=[]\n")
    for spec in (build_spec(DATA, empty), build_spec({**DATA, "benchmark": "none"}, settings_of(bare, "\n"))):
        assert (spec.benchmark, spec.evaluated, spec.also, spec.loop_n) == ("none", False, (), 1)
        assert build_spec({}, settings_of(bare, "\n"), spec) == spec, "as it is repeated, or given in Python"
    assert build_spec({"benchmark": "gsm8k"}, empty).evaluated, "an option wins over the environment"
    assert build_spec({}, settings_of(bare, "FT_BENCHMARK_DATASETS=\n")).benchmark == "wordproblems"
    both = settings_of(bare, "BENCHMARK_DATASETS=mmlu,gsm8k\nFT_BASE_MODEL=m\n")
    assert build_spec({}, both).benchmark == "mmlu"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"benchmark": "none,gsm8k"}, "stands alone"),
        ({"benchmark": "none", "also": ("gsm8k",)}, "stands alone"),
        ({"base_model": "auto"}, "--base-model: .* right is its name"),
        ({"base_model": None}, "--base-model: .* right is its name"),
        ({"datasets": ()}, "--dataset: .* right is the data"),
        ({"loop_n": 0}, "--loop-n 0: .* greater than 0"),
        ({"loop_n": 2}, "--loop-n 2: a run without a benchmark compares nothing"),
        ({"seeds": 2}, "--seeds 2: a run without a benchmark compares nothing"),
        ({"guards": ("mmlu:-2",)}, "--max-regression: a run without a benchmark compares nothing"),
    ],
)
def test_what_only_a_benchmark_could_settle_is_refused_without_one(
    bare: Path, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequestError, match=says) as caught:
        build_spec({**DATA, **given}, settings_of(bare, "FT_BENCHMARK_DATASETS=[]\n"))
    assert "\n" not in str(caught.value)


def test_a_run_is_repeated_without_its_benchmark(bare: Path) -> None:
    settings = settings_of(bare, "\n")
    asked = {"benchmark": "gsm8k", "also": ("arc",), "loop_n": 5, "parallel": 2, "seeds": 2, "guards": ("mmlu:-2",)}
    base = build_spec({**DATA, **asked}, settings)
    spec = build_spec({"benchmark": "none"}, settings, base)
    assert (spec.also, spec.loop_n, spec.parallel, spec.seeds, spec.guards) == ((), 1, 1, 1, ())
    assert (spec.base_model, spec.datasets) == ("m", ("org/data",))
    with pytest.raises(InvalidRequestError, match="--seeds 2: a run without"):
        build_spec({"benchmark": "none", "seeds": 2}, settings, base)


def test_a_benchmark_and_an_empty_list_are_refused(bare: Path) -> None:
    both = settings_of(bare, "FT_BENCHMARK_DATASETS=[]\nFT_TARGET_BENCHMARK=gsm8k\n")
    with pytest.raises(InvalidRequestError, match="FT_TARGET_BENCHMARK is gsm8k; right is one or the other"):
        build_spec(DATA, both)


@pytest.mark.parametrize(
    ("kind", "sandbox"),
    [("docker", "docker"), ("conda", "bubblewrap"), ("local", "bubblewrap"), ("Docker", "docker")],
)
def test_the_seeds_kinds_of_environment_are_sandboxes(bare: Path, kind: str, sandbox: str) -> None:
    settings = settings_of(bare, f"FT_Coder_CoSTEER_env_type={kind}\n")
    assert build_spec({}, settings).sandbox == sandbox
    assert any(kind in note for note in settings_notes(settings)) == (kind in ("conda", "local"))


def test_unknown_sandbox_of_the_environment(bare: Path) -> None:
    with pytest.raises(InvalidRequestError, match="FT_Coder_CoSTEER_env_type='podman'"):
        build_spec({}, settings_of(bare, "FT_Coder_CoSTEER_env_type=podman\n"))


def test_paths_become_absolute_and_names_stay(bare: Path) -> None:
    (bare / "data,with,commas.csv").write_text("q,a\n1,2\n")
    (bare / "task").mkdir()
    spec = build_spec(
        {"benchmark": "task", "base_model": "./model", "datasets": ("data,with,commas.csv", "x, y", "org/name")},
        Settings(),
    )
    assert spec.benchmark == str(bare / "task")
    assert spec.base_model == str(bare / "model")
    assert spec.datasets == (str(bare / "data,with,commas.csv"), "x", "y", "org/name")


def test_again_repeats_a_manifest_and_ignores_the_environment(bare: Path) -> None:
    run = RunFolder(bare / "runs" / "r1")
    run.root.mkdir(parents=True)
    first = RunSpec(benchmark="b", base_model="m", loop_n=3, seed=5, timeout=60)
    write_manifest(run, first)
    settings = settings_of(bare, "FT_UPPER_DATA_SIZE_LIMIT=9\nFT_BASE_MODEL=other\n")
    assert build_spec({"loop_n": None, "datasets": ()}, settings, read_spec(run)) == first
    assert build_spec({"seed": 6}, settings, read_spec(run)) == first.model_copy(update={"seed": 6})
    run.spec.write_text(f"format: {FORMAT}\nnot: a spec\n")
    with pytest.raises(InvalidRequestError, match="is damaged"):
        read_spec(run)


def test_a_misspelt_setting_is_pointed_out(bare: Path) -> None:
    (bare / ".env").write_text("FT_BASE_MODL=x\nAWS_REGION=eu\n")
    assert dotenv_notes(bare / ".env") == [f"{bare / '.env'}: FT_BASE_MODL is no setting; did you mean FT_BASE_MODEL?"]


@pytest.mark.parametrize("data", ["datasets", "dataset"])
def test_options_of_a_run_command_are_split_at_commas(data: str) -> None:
    options = {
        "benchmark": "gsm8k",
        "base_model": "tiny",
        data: "financeiq,panorama",
        "guards": "aime25:-2",
        "loop_n": "3",
    }
    spec = spec_from_options(options, Settings())
    assert (spec.datasets, spec.loop_n) == (("financeiq", "panorama"), 3)
    assert [str(guard) for guard in spec.guards] == ["aime25:-2"]


def test_unknown_option_of_a_run_command_is_named() -> None:
    with pytest.raises(InvalidRequestError, match="--colour"):
        spec_from_options({"benchmark": "gsm8k", "base_model": "tiny", "colour": "red"}, Settings())


def test_names_of_a_spec_made_in_python_are_looked_up(bare: Path) -> None:
    (bare / "my").mkdir()
    (bare / "data").mkdir()
    made = RunSpec(benchmark="chemcotbench", base_model="tiny", datasets=("./data",), guards=("./my:-1",))
    spec = build_spec({}, load_settings(), base=made)
    assert spec.datasets == (str(bare / "data"),)
    assert [guard.benchmark for guard in spec.guards] == [str(bare / "my")]
    assert spec.benchmark != "chemcotbench" and spec.also, "a family stands for its parts"
    assert build_spec({}, load_settings(), base=spec) == spec
