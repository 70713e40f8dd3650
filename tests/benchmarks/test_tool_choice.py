"""Words alone lead to the right tool: what people ask, against names and descriptions of all tools of all servers."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.chat_server import Call, Reply, chat_server
from tuneloop.core.settings import Settings

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tool_choice.py"


@pytest.fixture(scope="module")
def choice() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("tool_choice", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_words_lead_to_the_right_tool(choice: ModuleType, tmp_path: Path) -> None:
    tools = await choice.offered(Settings(FT_FILE_PATH=tmp_path))
    names = {tool.name for tool in tools}
    asked = [question for question in choice.questions() if not question.held]
    assert len(asked) >= 40
    assert {name for question in choice.questions() for name in question.right} <= names
    first, third, wrong = choice.shares(asked, choice.ByWords(tools).rank)
    assert first >= choice.LEAST_FIRST, wrong
    assert third >= 0.97, wrong


async def test_descriptions_matter(choice: ModuleType, tmp_path: Path) -> None:
    """With descriptions exchanged the same questions lead elsewhere: the baseline does not live on names alone."""
    tools = await choice.offered(Settings(FT_FILE_PATH=tmp_path))
    texts = [tool.description for tool in tools]
    turned = [
        choice.Offered(tool.name, text, tool.schema) for tool, text in zip(tools, texts[7:] + texts[:7], strict=True)
    ]
    asked = [question for question in choice.questions() if not question.held]
    assert choice.shares(asked, choice.ByWords(turned).rank)[0] < 0.5


def test_a_chat_model_that_is_named_is_asked(choice: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with chat_server(lambda _: Reply("", (Call("runs_list_runs", {}),))) as chat:
        for name, value in {"CHAT_MODEL": "m", "OPENAI_API_BASE": chat.url, "OPENAI_API_KEY": "k"}.items():
            monkeypatch.setenv(name, value)
        few = [question for question in choice.questions() if "runs_list_runs" in question.right][:2]
        monkeypatch.setattr(choice, "questions", lambda: [*few, replace(few[0], held=True)])
        with pytest.raises(SystemExit) as ended:
            choice.main()
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (ended.value.code, told["by"], told["first"], told["held_first"]) == (0, "m", 1, 1)
    assert len(chat.seen) == 3


def test_every_tool_is_asked_for(choice: ModuleType) -> None:
    servers = {name.partition("_")[0] for question in choice.questions() for name in question.right}
    assert servers == {"params", "data", "training", "evaluation", "runs"}
