"""Names of models, and what is refused before anything is asked."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tuneloop.agents.chat.models import check_models, make_client, model_chain, split_name
from tuneloop.agents.planners import check_planner
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings


def settings(**more: Any) -> Settings:
    return Settings(**{"CHAT_MODEL": "gpt-5", "OPENAI_API_KEY": "sk-test-0123456789", **more})


@pytest.mark.parametrize(
    ("name", "base", "found"),
    [
        ("gpt-5", None, ("openai", "gpt-5")),
        ("anthropic:claude-x", None, ("anthropic", "claude-x")),
        ("anthropic/claude-x", None, ("anthropic", "claude-x")),
        ("gemini/gemini-x", None, ("gemini", "gemini-x")),
        ("google_genai:gemini-x", None, ("gemini", "gemini-x")),
        ("azure/my-deployment", None, ("azure", "my-deployment")),
        ("ollama_chat/qwen3:8b", None, ("ollama", "qwen3:8b")),
        ("qwen2.5:7b", None, ("openai", "qwen2.5:7b")),
        ("Qwen/Qwen3-8B", "http://h:1", ("openai", "Qwen/Qwen3-8B")),
        ("deepseek/deepseek-chat", "http://h:1", ("openai", "deepseek/deepseek-chat")),
        ("openai:qwen3:8b", "http://h:1", ("openai", "qwen3:8b")),
    ],
)
def test_a_name_leads_to_a_provider(name: str, base: str | None, found: tuple[str, str]) -> None:
    assert split_name(name, settings(OPENAI_API_BASE=base or "")) == found


def test_client_speaks_chat_completions_at_a_configured_endpoint() -> None:
    client: Any = make_client("gpt-6-codex", settings(OPENAI_API_BASE="http://127.0.0.1:9", CHAT_TEMPERATURE="1"))
    assert (client.use_responses_api, client.openai_api_base, client.temperature) == (False, "http://127.0.0.1:9/v1", 1)
    assert client.max_retries == 0
    assert "sk-test" not in repr(client)
    bare: Any = make_client("gpt-5", settings())
    assert (bare.use_responses_api, bare.temperature) == (None, None)


def test_the_chain() -> None:
    told = settings(TUNELOOP_CHAT_MODELS='{"critic": "small"}', TUNELOOP_CHAT_FALLBACKS="gpt-5,other")
    assert model_chain("critic", told) == ("small", "gpt-5", "other")
    assert model_chain("researcher", told) == ("gpt-5", "other")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"OPENAI_API_KEY": ""}, "CHAT_MODEL=gpt-5: set OPENAI_API_KEY, or OPENAI_API_BASE"),
        ({"CHAT_MODEL": "mistralai:large"}, "langchain-mistralai"),
        ({"TUNELOOP_CHAT_FALLBACKS": "groq:x"}, "langchain-groq"),
        ({"TUNELOOP_CHAT_MODELS": {"critik": "x"}}, "no agent 'critik'; there are researcher, data_engineer"),
    ],
)
def test_what_can_not_be_had_is_refused_in_one_line(more: Any, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says) as e:
        check_models(settings(**more))
    assert "\n" not in str(e.value)
    check_planner(Settings())


def test_without_a_chat_model_nothing_of_it_is_imported() -> None:
    code = "import sys, tuneloop.graph.build, tuneloop.cli.doctor\nprint({'langchain', 'langchain_openai'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_nothing_is_traced_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from langsmith.utils import tracing_is_enabled

    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2-key")
    assert not tracing_is_enabled()
