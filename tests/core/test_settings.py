from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.setting_values import McpProgram
from tuneloop.core.settings import Settings, load_settings

SEED = """\
# LLM backend
BACKEND=rdagent.oai.backend.LiteLLMAPIBackend
CHAT_MODEL=gpt-4o
FT_FILE_PATH=/absolute/path/to/finetune_files
FT_Coder_CoSTEER_env_type=docker
FT_TARGET_BENCHMARK=aime25
FT_BENCHMARK_DESCRIPTION="AIME 2025. Expected Output Format: put the final answer within \\\\boxed{}, for example \\\\boxed{42}."
FT_BASE_MODEL=Qwen/Qwen2.5-7B-Instruct
FT_UPPER_DATA_SIZE_LIMIT=2000
FT_BENCHMARK_DATASETS=["aime25","gsm8k","mmlu"]
FT_BENCHMARK_LIMIT=
FT_BENCHMARK_TIMEOUT=0
# HF_TOKEN=<your_hf_token>
"""


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_FILE_PATH", raising=False)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / ".env"
    file.write_text(text)
    return file


def test_a_seed_file_is_read_verbatim(tmp_path: Path) -> None:
    s = load_settings(write(tmp_path, SEED))
    assert s.home.root == Path("/absolute/path/to/finetune_files")
    assert s.target_benchmark == "aime25"
    assert s.benchmark_description is not None
    assert s.benchmark_description.endswith("for example \\boxed{42}.")
    assert s.target_benchmarks == ("aime25", "gsm8k", "mmlu")
    assert s.benchmark_limit is None
    assert s.benchmark_timeout is None
    assert s.env_type == "docker"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_BASE_MODEL", "other/model")
    assert load_settings(write(tmp_path, SEED)).base_model == "other/model"


def test_a_list_in_quotes(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, 'FT_DATASET=\'["a","b"]\'\n')).dataset == ("a", "b")
    assert load_settings(write(tmp_path, "FT_DATASET=a, b\n")).dataset == ("a", "b")


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"\.env:2: cannot read"):
        load_settings(write(tmp_path, "A=1\nthis is = = 'not\nB=2\n"))


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"A=1\nFT_DATASET=a\xffb\n", "byte 16 is not UTF-8"), (b"A=1\nFT_DATASET=a\0b\n", r"\.env:2: cannot read")],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(data)
    with pytest.raises(InvalidRequestError, match=said):
        load_settings(path)


@pytest.mark.parametrize("line", ["FT_UPPER_DATA_SIZE_LIMIT=many", "FT_FULL_TIMEOUT=-1", "FT_BENCHMARK_LIMIT=0"])
def test_a_bad_value_is_one_line_with_the_name(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidRequestError, match=line.split("=", maxsplit=1)[0]) as caught:
        load_settings(write(tmp_path, line + "\n"))
    assert "\n" not in str(caught.value)


TIMEOUTS = {
    "FT_DATA_PROCESSING_TIMEOUT": "data_timeout",
    "FT_DEBUG_DATA_PROCESSING_TIMEOUT": "debug_data_timeout",
    "FT_MICRO_BATCH_TIMEOUT": "smoke_run_timeout",
    "FT_DEBUG_TIMEOUT": "smoke_run_timeout",
    "FT_FULL_TIMEOUT": "full_timeout",
    "FT_BENCHMARK_TIMEOUT": "benchmark_timeout",
}


@pytest.mark.parametrize("name", TIMEOUTS)
@pytest.mark.parametrize(
    ("text", "seconds"), [("0", None), ("unlimited", None), ("Unlimited", None), ("90", 90.0), ("2h", 7200.0)]
)
@pytest.mark.parametrize("where", ["environment", "file"])
def test_every_timeout_and_what_means_none(
    name: str, text: str, seconds: float | None, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"{name}={text}\n" if where == "file" else "")
    if where == "environment":
        monkeypatch.setenv(name, text)
    assert getattr(load_settings(file), TIMEOUTS[name]) == seconds


@pytest.mark.parametrize("name", TIMEOUTS)
def test_an_empty_timeout_is_unset_not_unlimited(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text(f"{name}=\n")
    monkeypatch.setenv(name, "")
    assert load_settings(file) == load_settings(tmp_path / "none")


def test_the_micro_runs_own_name_wins(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("FT_DEBUG_TIMEOUT=60\nFT_MICRO_BATCH_TIMEOUT=unlimited\n")
    assert load_settings(file).smoke_run_timeout is None


@pytest.mark.parametrize(
    "how", ['"stdio: tuneloop"', '{"args": ["x"]}', '{"command": "x", "cwd": "/"}', "1", '"file:///etc/passwd"']
)
def test_a_server_is_a_url_or_a_program(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv("TUNELOOP_MCP_URLS", f'{{"params": {how}}}')
    with pytest.raises(InvalidRequestError, match=r"params: .*; right is a URL or {\"command\""):
        load_settings()
    monkeypatch.setenv("TUNELOOP_MCP_URLS", '{"params": {"command": "x", "args": ["y"], "env": {"A": "b"}}}')
    assert load_settings().servers == {"params": McpProgram(command="x", args=("y",), env={"A": "b"})}


@pytest.mark.parametrize(
    ("given", "backend"),
    [({}, "auto"), ({"USE_VLLM": "true"}, "vllm"), ({"USE_VLLM": "false"}, "hf"), ({"USE_VLLM": ""}, "auto")],
)
def test_the_seeds_switch_of_the_backend(given: dict[str, str], backend: str) -> None:
    assert Settings.model_validate(given).backend == backend
    assert Settings.model_validate({**given, "TUNELOOP_EVAL_BACKEND": "hf"}).backend == "hf"


def test_timeouts_as_the_seeds_write_them() -> None:
    settings = Settings.model_validate({"FT_DEBUG_TIMEOUT": "36000", "FT_BENCHMARK_TIMEOUT": "3600"})
    assert (settings.smoke_run_timeout, settings.benchmark_timeout) == (36000, 3600)


def test_an_address_that_is_refused_shows_no_password() -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_STORAGE='s3://\*\*\*@lab/x': right is") as said:
        load_settings(storage="s3://me:se/cret@lab/x")
    assert "cret" not in str(said.value)
