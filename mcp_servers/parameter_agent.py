"""The parameter server as one Python object: `ParameterAgent().query("What is lora_rank?")`."""

from __future__ import annotations

from typing import Any

from tuneloop.core.bridge import run_sync
from tuneloop.core.settings import Settings, load_settings
from tuneloop.mcp_servers import direct
from tuneloop.mcp_servers.scope import Scope


class ParameterAgent:
    """Answers questions about LLaMA-Factory's parameters, in this process, or by the server LLAMA_FACTORY_MCP_URL names."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings`: by default those of the environment and `.env`."""
        self.scope = Scope(None, settings or load_settings())

    def query(self, text: str) -> str:
        """Markdown; the first line says what was understood. Raises SetupError, or WorldError where no server answers."""
        found = self.ask(text)
        return f"Understood: {found['understood']}\n\n{found['answer']}\n"

    def ask(self, text: str) -> dict[str, Any]:
        """The same in parts: understood, kind, decisions, names, answer."""
        if "params" in self.scope.settings.servers:
            return dict(run_sync(self._asked(text)))
        return dict(direct.call(self.scope, "params_query_parameters", text=text))

    async def _asked(self, text: str) -> Any:
        from tuneloop.mcp_servers.client import open_toolbox  # fastmcp is slow to import: only where it is needed

        async with open_toolbox(self.scope, None) as tools:
            return await tools.call("params_query_parameters", text=text)
