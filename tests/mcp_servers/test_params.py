"""The parameter server without a run: every tool through a real client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastmcp import Client
from fastmcp.exceptions import ToolError

from tests.conftest import SHARED_HOME
from tests.mcp_servers.test_http import serving
from tuneloop.cli.parameter_agent import ParameterAgent
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.main import build_named_server
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine

QUESTIONS = Path(__file__).parents[1] / "tools/config/questions.yaml"


@pytest.fixture
async def client(llamafactory: Engine) -> AsyncIterator[Client[Any]]:
    async with Client(build_named_server("params", Scope(None, Settings(FT_FILE_PATH=SHARED_HOME)))) as opened:
        yield opened


async def call(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    found = (await client.call_tool(tool, arguments)).structured_content
    assert found is not None
    return found


async def test_the_seeds_four(client: Client[Any]) -> None:
    files = await call(client, "list_parameter_files")
    assert files["count"] == len(files["files"]) >= 7
    text = (await call(client, "read_source_file", name="finetuning_args.py"))["text"]
    assert "class LoraArguments" in text
    assert "full" in (await call(client, "read_constants"))["constants"]["METHODS"]
    told = await call(client, "get_decision_guidance", method="lora", quantization="4bit")
    assert "lora_rank" in told["parameters"] and 30 <= told["kept"] <= 70
    assert told["decision_map"]["galore"] == ["GaloreArguments"]


async def test_ours(client: Client[Any]) -> None:
    found = await call(client, "query_parameters", text="What is lora_rank and its default value?")
    assert found["names"] == ["lora_rank"] and "default: 8" in found["answer"]
    found = await call(client, "query_parameters", text="method: lora, quantization: 4bit")
    assert found["kind"] == "decisions" and 30 <= len(found["names"]) <= 70
    assert (await call(client, "query_parameters", text="gradient clipping"))["names"][0] == "max_grad_norm"
    assert (await call(client, "describe_parameter", name="lora_rank"))["default"] == 8
    sides = (await call(client, "compare_methods", values=["lora", "freeze"]))["sides"]
    assert "lora_rank" in sides[0]["own"] and "freeze_trainable_layers" in sides[1]["own"]
    assert (await call(client, "list_templates", model="qwen3"))["templates"][0] == "qwen3"


async def test_other_names_are_read_by_every_tool(client: Client[Any]) -> None:
    told = await call(client, "get_decision_guidance", method="qlora", distributed="ZeRO-3")
    assert told["decided"] == {"method": "lora", "quantization": "4bit", "distributed": "deepspeed"}
    assert told["writes"]["quantization_bit"] == 4 and "lora_rank" in told["parameters"]
    assert (await call(client, "suggest_config", method="dora"))["values"]["use_dora"] is True
    assert (await call(client, "suggest_config", stage="orpo"))["values"]["pref_loss"] == "orpo"
    assert (await call(client, "describe_parameter", name="lr"))["name"] == "learning_rate"
    told = await call(client, "describe_parameter", name="simpo")
    assert told["name"] == "pref_loss" and told["turned_on_by"] == {"stage": "dpo", "pref_loss": "simpo"}
    sides = (await call(client, "compare_methods", values=["neftune", "rslora"]))["sides"]
    assert [next(iter(side["turned_on_by"])) for side in sides] == ["neftune_noise_alpha", "use_rslora"]
    assert (await call(client, "query_parameters", text="longlora"))["names"][0] == "shift_attn"


@pytest.mark.parametrize("decisions", [{}, {"method": "full"}, {"quantization": "4bit"}, {"stage": "dpo"}])
async def test_a_suggestion_has_known_keys_only(client: Client[Any], decisions: dict[str, str]) -> None:
    found = await call(client, "suggest_config", **decisions, longest=700, batch=16)
    values = found["values"]
    assert set(values) == set(found["why"])
    assert values["per_device_train_batch_size"] * values["gradient_accumulation_steps"] == 16
    assert values["cutoff_len"] == 704
    for name in values:
        assert (await call(client, "describe_parameter", name=name))["name"] == name


async def test_a_refused_combination_is_said(client: Client[Any]) -> None:
    assert (await call(client, "suggest_config", method="full", quantization="8bit"))["refused_by_the_engine"]


@pytest.mark.parametrize("name", ["../extras/constants.py", "/etc/passwd", "%2e%2e%2fcli.py", "hparams/../cli.py"])
async def test_nothing_outside_is_readable(client: Client[Any], name: str) -> None:
    with pytest.raises(ToolError, match="no file"):
        await client.call_tool("read_source_file", {"name": name})
    with pytest.raises(Exception, match=r"not found|no file"):
        await client.read_resource(f"params://file/{name}")


async def test_errors_say_what_is_right(client: Client[Any]) -> None:
    with pytest.raises(ToolError, match="did you mean 'lora_rank'"):
        await client.call_tool("describe_parameter", {"name": "lora_rnk"})
    with pytest.raises(ToolError, match="--run"):
        await client.call_tool("check_config", {"yaml": "stage: sft"})
    with pytest.raises(ToolError, match="none, 4bit, 8bit"):
        await client.call_tool("get_decision_guidance", {"quantization": "5bit"})
    with pytest.raises(ToolError, match="lora, freeze, oft, full"):
        await client.call_tool("compare_methods", {"values": ["lora", "nonsense"]})


async def test_resources_and_prompts(client: Client[Any]) -> None:
    assert "lora_rank" in (await client.read_resource("params://parameter/lora_rank"))[0].text  # type: ignore[union-attr]
    assert "class" in (await client.read_resource("params://file/data_args.py"))[0].text  # type: ignore[union-attr]
    prompt = await client.get_prompt("write_config", {"goal": "qlora on one GPU"})
    assert "qlora on one GPU" in str(prompt.messages[0].content)


async def test_over_http_on_the_seeds_port(llamafactory: Engine, tmp_path: Path) -> None:
    asked = [q["ask"] for q in yaml.safe_load(QUESTIONS.read_text())]
    with serving(SHARED_HOME) as port:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await call(client, "query_parameters", text="lora")
            assert all([await call(client, "query_parameters", text=text) for text in asked])
        agent = ParameterAgent(Settings(FT_FILE_PATH=tmp_path, LLAMA_FACTORY_MCP_URL=f"http://127.0.0.1:{port}/mcp"))
        assert "lora_rank" in agent.query("List all parameters for LoRA fine-tuning")
