"""The parameter server as one Python object: `ParameterAgent().query("What is lora_rank?")`."""

from __future__ import annotations

from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.settings import Settings, load_settings


class ParameterAgent:
    """Answers questions about LLaMA-Factory's parameters, in this process or by the server LLAMA_FACTORY_MCP_URL names.

    Where CHAT_MODEL is set the model answers, with the server's tools; without it the server's search does.
    """

    def __init__(self, settings: Settings | None = None, *, chat: bool = True) -> None:
        """`settings`: by default those of the environment and `.env`. `chat` False: no model is asked."""
        self.settings = settings or load_settings()
        self._chat = chat and bool(self.settings.chat_model)

    def query(self, text: str) -> str:
        """The answer in Markdown.

        Raises ToolError for a decision with an unknown value, InvalidRequestError, or InfrastructureError where no server answers.
        """
        return str(self.ask(text)["answer"])

    def ask(self, text: str) -> dict[str, Any]:
        """The answer in parts: kind (chat, decisions, comparison, search, nothing), names, exact, decisions, answer.

        A model that gives no answer is named in the search's answer.
        """
        if not self._chat:
            return self._searched(text)
        from tuneloop.core.async_bridge import run_sync  # this and langchain, fastmcp below are slow to import

        try:
            said = run_sync(self._asked_model(text))
        except RecipeError as e:
            found = self._searched(text)
            why = f"{self.settings.chat_model} gave no answer ({e}); found by search:"
            return found | {"answer": f"{why}\n\n{found['answer']}"}
        return {"kind": "chat", "names": [], "exact": [], "decisions": {}, "answer": said}

    def _searched(self, text: str) -> dict[str, Any]:
        if "params" in self.settings.servers:
            from tuneloop.core.async_bridge import run_sync

            return dict(run_sync(self._asked_server(text)))
        from tuneloop.tools.config.installed import find_catalog
        from tuneloop.tools.config.query import answer

        return answer(text, find_catalog(self.settings)).plain

    async def _asked_server(self, text: str) -> Any:
        from tuneloop.mcp_servers.client import open_toolbox
        from tuneloop.mcp_servers.scope import Scope

        async with open_toolbox(Scope(None, self.settings), None) as tools:
            return await tools.call("params_query_parameters", text=text)

    async def _asked_model(self, text: str) -> str:
        from tuneloop.agents.parameter_assistant import ASSISTANT, ask_model
        from tuneloop.mcp_servers.client import open_toolbox
        from tuneloop.mcp_servers.scope import Scope

        async with open_toolbox(Scope(None, self.settings), ASSISTANT.tools) as tools:
            return await ask_model(text, tools, self.settings)
