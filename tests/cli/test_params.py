"""`tuneloop params`: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.conftest import SHARED_HOME
from tuneloop.cli.main import cli
from tuneloop.tools.engines import Engine


@pytest.fixture
def params(llamafactory: Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("FT_FILE_PATH", str(SHARED_HOME))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words: str, code: int = 0) -> Result:
        found = CliRunner().invoke(cli, ["params", *words])
        assert found.exit_code == code, found.output
        return found

    return run


def test_ask(params: Any) -> None:
    assert "### `lora_rank`" in params("ask", "what", "is", "lora_rank").output
    told = json.loads(params("ask", "--json", "quantization: 4bit, optimizer: apollo").output)
    assert told["decisions"] == {"quantization": "4bit", "optimizer": "apollo"}
    assert json.loads(params("ask", "--json", "compare", "dora", "vs", "rslora").output)["names"][0] == "use_dora"
    assert "none, 4bit, 8bit" in params("ask", "quantization: 5bit", code=2).output
    assert params("ask", "xyzzy", code=2).output
    assert "lora_rank" in params("ask", "lora秩").output


def test_ask_imports_neither_models_nor_servers(llamafactory: Engine) -> None:
    """Half a second of CPU is all that an answer may take; these alone take seconds."""
    heavy = ("langchain_core", "langgraph", "fastmcp", "mcp", "rich", "torch", "tuneloop.mcp_servers.params")
    code = f"""
import sys
from tuneloop.cli.main import cli
try: cli(["params", "ask", sys.argv[1]])
except SystemExit as e: print(e.code, *(name for name in {heavy} if name in sys.modules))
"""
    for words in ("--help", "gradient clipping"):
        env = {**os.environ, "FT_FILE_PATH": str(SHARED_HOME)}
        done = subprocess.run([sys.executable, "-c", code, words], capture_output=True, text=True, env=env, timeout=60)
        assert done.stdout.splitlines()[-1] == "0", done


def test_list_and_show(params: Any) -> None:
    assert len(json.loads(params("list", "--json").output)) > 300
    rows = params("list", "--class", "LoraArguments").output
    assert "lora_alpha" in rows and "learning_rate" not in rows
    assert "LoraArguments" in params("list", "--class", "Lora", code=2).output
    assert "default: 8" in params("show", "lora_rank").output
    assert "`use_dora`" in params("show", "DoRA").output
    assert "did you mean lora_rank" in params("show", "lora_rnk", code=2).output


def test_filter(params: Any) -> None:
    told = json.loads(params("filter", "method=lora", "4bit", "--json").output)
    assert 30 <= len(told["parameters"]) <= 70
    assert {"lora_rank", "quantization_bit"} <= {row["name"] for row in told["parameters"]}
    assert "refuses" in params("filter", "full", "8bit").output
    assert json.loads(params("filter", "qlora", "--json").output)["decisions"]["quantization"] == "4bit"
    assert json.loads(params("filter", "4bit", "qlora", "--json").output)["decisions"]["method"] == "lora"
    for words in (("qlora", "dora"), ("dora", "qlora"), ("qlora", "full"), ("method=lora", "method=full")):
        assert "method cannot be both" in params("filter", *words, code=2).output
    assert "none, 4bit, 8bit" in params("filter", "quantization=5bit", code=2).output
    assert "DECISION=VALUE" in params("filter", "nonsense", code=2).output


def test_check(params: Any, tiny: Path, tmp_path: Path) -> None:
    file, data = tmp_path / "mine.yaml", [{"instruction": "who?", "input": "", "output": "me"}]
    (tmp_path / "identity.json").write_text(json.dumps(data))
    (tmp_path / "dataset_info.json").write_text(json.dumps({"identity": {"file_name": "identity.json"}}))
    places = f"model_name_or_path: {tiny}\ndataset: identity\ndataset_dir: {tmp_path}\noutput_dir: {tmp_path / 'out'}\n"
    file.write_text(f"{places}lora_rank: 0\nstage: sft\ndo_train: true\ntemplate: chatml\ncutoff_len: 128\n")
    assert "mine.yaml:5 lora_rank: 0 is below 1" in params("check", str(file), "--device", "cuda", code=2).output
    assert params("check", str(file), "lora_rank=8", "--device", "cuda").output == ""
    loop = json.loads(params("check", str(file), "lora_rank=8", "--profile", "run", "--json", code=2).output)
    assert {"model_name_or_path", "dataset", "output_dir"} <= {f["key"] for f in loop}
    assert "key=value" in params("check", str(file), "lora_rank", code=2).output


def test_check_reads_json_and_the_register_of_data(params: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"stage": "sft", "dataset": "identify", "model_name_or_path": "a/b"}))
    (tmp_path / "dataset_info.json").write_text(json.dumps({"identity": {"file_name": "identity.json"}}))
    told = params("check", str(file), "--data-dir", str(tmp_path), "--device", "cuda", code=2).output
    assert "did you mean identity?" in told


def test_memory(params: Any, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("finetuning_type: full\n")
    told = json.loads(params("memory", str(file), "--model", str(tiny), "--device", "cpu", "--json").output)
    assert told["total"] >= sum(told["components"].values()) > 0
    assert "total" in params("memory", str(file), "cutoff_len=64", "--model", str(tiny)).output
    for wrong in ("cutoff_len=abc", "lora_rank=abc", "quantization_bit=x", "per_device_train_batch_size=-3"):
        said = params("memory", str(file), wrong, "finetuning_type=lora", "--model", str(tiny), code=2).output
        assert wrong.partition("=")[0] in said and said.count("\n") == 1, said
    assert "no device" in params("memory", str(file), "--model", str(tiny), "--device", "bogus", code=2).output


def test_diff_of_configs(params: Any, tmp_path: Path) -> None:
    for name, rank in (("a", 8), ("b", 16)):
        (tmp_path / f"{name}.yaml").write_text(f"lora_rank: {rank}\n")
    files = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    assert params("diff", *files).output == "lora_rank: 8 → 16\n"
    assert params("diff", files[0], files[0]).output == "no difference\n"
    Path(files[1]).write_bytes("lora_rank: 8 # é".encode("latin-1"))
    assert "right is YAML in UTF-8" in params("diff", *files, code=2).output
    assert "right are two configs" in params("diff", files[0], str(Path(files[0]).parent), code=2).output


def test_without_an_engine_the_cure_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    found = CliRunner().invoke(cli, ["params", "list"])
    assert found.exit_code == 2
    assert "tuneloop engines build llamafactory" in found.output
