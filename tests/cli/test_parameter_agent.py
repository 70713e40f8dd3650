"""The parameter server as one object: by a chat model with the server's tools, by the server's search without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Refuse, Reply, Said, chat_server
from tests.conftest import SHARED_HOME
from tuneloop.cli.parameter_agent import ParameterAgent
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    agent = ParameterAgent(Settings(FT_FILE_PATH=tmp_path, LLAMA_FACTORY_MCP_URL="http://127.0.0.1:1/mcp"))
    with pytest.raises(InfrastructureError, match="tuneloop-mcp params --http"):
        agent.query("lora")


def test_the_python_face(llamafactory: Engine) -> None:
    agent = ParameterAgent(Settings(FT_FILE_PATH=SHARED_HOME))
    assert "### `lora_rank`" in agent.query("What is lora_rank and its default value?")
    assert agent.ask("Compare LoRA vs Freeze fine-tuning parameters")["kind"] == "comparison"


def chat_settings(url: str) -> Settings:
    settings: dict[str, Any] = {"FT_FILE_PATH": SHARED_HOME, "CHAT_MODEL": "m", "OPENAI_API_KEY": "k"}
    return Settings.model_validate({**settings, "OPENAI_API_BASE": url})


def test_a_chat_model_answers_with_the_servers_tools(llamafactory: Engine) -> None:
    def model(asked: dict[str, Any]) -> Said:
        last = asked["messages"][-1]
        if last["role"] != "tool":
            return Reply("", (Call("params_describe_parameter", {"name": "lora_rank"}),))
        return Reply("", (Call("ParameterAnswer", {"answer": f"The server says: {last['content']}"}),))

    with chat_server(model) as server:
        found = ParameterAgent(chat_settings(server.url)).ask("What is lora_rank?")
    assert found["kind"] == "chat"
    assert "The intrinsic dimension" in found["answer"]  # what the tool said


def test_where_no_model_answers_the_search_does(llamafactory: Engine) -> None:
    with chat_server(lambda _: Refuse(401)) as server:
        found = ParameterAgent(chat_settings(server.url)).ask("What is lora_rank?")
        assert ParameterAgent(chat_settings(server.url), chat=False).ask("lora_rank")["kind"] == "search"
    assert (found["kind"], found["names"]) == ("search", ["lora_rank"])
    assert found["answer"].startswith("m gave no answer")
