"""MCP server `params`: LLaMA-Factory's parameters as the installed release has them, and what a config does wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import make_server
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.check import check_config, closest
from tuneloop.tools.params.installed import installed_catalog
from tuneloop.tools.params.model_card import read_model_card
from tuneloop.tools.params.query import query

if TYPE_CHECKING:  # nodes call these tools without a server, and fastmcp is slow to import
    from fastmcp import FastMCP

Name = Annotated[str, Field(description="parameter name, e.g. lora_rank")]
Text = Annotated[str, Field(min_length=1, max_length=400, description="words, e.g. 'learning rate schedule'")]
Limit = Annotated[int, Field(ge=1, le=50, description="how many")]
Yaml = Annotated[str, Field(max_length=100_000, description="text of train.yaml")]
INSTRUCTIONS = "Parameters of the installed LLaMA-Factory: search, describe, and check a config before anything runs."


class ParameterTools:
    """Functions of the server; only check_config and model_card need a run."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def query_parameters(self, text: Text, limit: Limit = 10) -> list[dict[str, Any]]:
        """Parameters that fit the words, best first."""
        return [described(p, 200) for p in query(self._catalog(), text, limit)]

    def describe_parameter(self, name: Name) -> dict[str, Any]:
        """Type, default, choices, full help and source line of one parameter."""
        catalog = self._catalog()
        if name not in catalog.parameters:
            close = closest(name, catalog)
            raise ToolError(
                f"no parameter {name!r}" + (f"; did you mean {close!r}?" if close else "; try query_parameters")
            )
        return described(catalog.parameters[name], 4000)

    def check_config(self, yaml: Yaml) -> dict[str, Any]:
        """Findings of level error, warning or note, each with line and key; no error means training may start."""
        bench = self.scope.bench()
        card = read_model_card(bench.setup.model_root)
        memory = bench.settings.job_memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        device = bench.setup.device
        found = check_config(yaml, self._catalog(), card, device, memory if device == "cpu" else None)
        return {"findings": [{"level": f.level, "line": f.line, "key": f.key, "text": f.text} for f in found]}

    def model_card(self) -> dict[str, Any]:
        """The base model: parameters, layers, positions, vocabulary, chat template, device."""
        bench = self.scope.bench()
        card = read_model_card(bench.setup.model_root)
        plain = (
            "architecture",
            "model_type",
            "parameters",
            "dtype",
            "layers",
            "hidden",
            "vocab",
            "max_positions",
            "template",
        )
        facts = {name: getattr(card, name) for name in plain}
        return {
            "name": bench.setup.model_name,
            **facts,
            "chat_template": card.chat_template is not None,
            "device": bench.setup.device,
        }

    def _catalog(self) -> Catalog:
        return installed_catalog(ensure_engine("llamafactory", self.scope.settings))


def described(p: Parameter, most: int) -> dict[str, Any]:
    """Plain values; help is cut at `most` characters."""
    return {
        "name": p.name,
        "owner": p.owner,
        "type": p.type,
        "default": p.default,
        "choices": list(p.choices),
        "help": p.help[:most],
        "source": p.source,
    }


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope."""
    t = ParameterTools(scope)
    return make_server("params", INSTRUCTIONS, (t.query_parameters, t.describe_parameter, t.check_config, t.model_card))
