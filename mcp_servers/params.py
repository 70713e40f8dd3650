"""MCP server `params`: LLaMA-Factory's parameters as the installed release has them, and what a config does wrong."""

from __future__ import annotations

from typing import Annotated, Any

from fastmcp import FastMCP
from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.mcp_servers.catalog_tools import (
    CatalogTools,
    Distributed,
    Method,
    Modality,
    Optimizer,
    Precision,
    Quantization,
    Stage,
    Strategy,
    made_decisions,
)
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import as_mcp_resource, make_server
from tuneloop.tools.config.config_text import ConfigError, parse_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.decisions import check_decisions, decision_conflicts
from tuneloop.tools.config.finalize import overwritten_keys
from tuneloop.tools.config.grpo_config import STAGE, suggest_grpo
from tuneloop.tools.config.memory import estimate_memory, measured_memory, recipe_key
from tuneloop.tools.config.model_card import ModelCard, read_model_card
from tuneloop.tools.config.sharding import distribute
from tuneloop.tools.config.suggest import TINY, SuggestionFacts, suggest_config
from tuneloop.tools.training.grpo_recipe import refusal
from tuneloop.tools.training.methods import check_recipe
from tuneloop.tools.training.tokens import asked_format

Yaml = Annotated[str, Field(max_length=100_000, description="text of train.yaml")]
Tokens = Annotated[int | None, Field(ge=1, le=1_000_000, description="tokens of a record; empty: not known")]
Steps = Annotated[int | None, Field(ge=1, le=10_000_000, description="optimizer steps; empty: three epochs")]
Rows = Annotated[int, Field(ge=1, le=4096, description="rows of one optimizer step")]
Rank = Annotated[int, Field(ge=1, le=1024, description="LoRA rank")]
INSTRUCTIONS = (
    "Parameters of the installed LLaMA-Factory. Search with query_parameters, get_decision_guidance for what a setup "
    "needs, suggest_config for a first train.yaml, and check_config before anything runs."
)
CARD = ("architecture", "model_type", "parameters", "dtype", "layers", "hidden", "vocab", "max_positions", "template")


class ParameterTools(CatalogTools):
    """With the tools that know a run's model and device; suggest_config works without a run too."""

    def check_config(self, yaml: Yaml) -> dict[str, Any]:
        """Check a train.yaml (config): what is wrong with it, as error, warning or note with line and key; no error: it may run."""
        found = check_recipe(self.scope.run_tools(), yaml)
        return {"findings": [{"level": f.level, "line": f.line, "key": f.key, "text": f.text} for f in found]}

    def estimate_memory(self, yaml: Yaml, longest: Tokens = None) -> dict[str, Any]:
        """How much memory (GPU or main) a training with this config needs, in bytes by component; does it fit.

        `total` is what a smoke run of this very recipe took where there was one (`source` measured), else estimated; on a
        CPU it is resident memory, pages that a job shares with its warm engine counted whole; of several GPUs that of one.
        """
        card, device = self._model()
        try:
            devices = self.scope.run_tools().devices
            situation = distribute(ConfigContext(parse_config(yaml), self._catalog(), card, device), devices, longest)
        except ConfigError as e:
            raise ToolError(str(e)) from e
        try:
            found = estimate_memory(situation, tokens=longest)
        except (ArithmeticError, LookupError, TypeError, ValueError) as e:
            raise ToolError(f"no estimate for these values ({e}): check_config says what is wrong") from e
        run_tools = self.scope.run_tools()
        seen = measured_memory(run_tools.run.experiments, recipe_key(situation, run_tools.setup.model_fingerprint))
        said = {"components": found.components, "device": device, "unit": "bytes", "estimated": found.total}
        if situation.processes > 1:
            said |= {"processes": situation.processes, "sharding": situation.sharding}
        if seen is None:
            return {"total": found.total, "source": "estimated", **said}
        need, experiment = seen
        return {"total": need, "source": "measured", "experiment": experiment, **said}

    def suggest_config(
        self,
        stage: Stage = None,
        method: Method = None,
        quantization: Quantization = None,
        optimizer: Optimizer = None,
        distributed: Distributed = None,
        precision: Precision = None,
        data_strategy: Strategy = None,
        modality: Modality = None,
        longest: Tokens = None,
        typical: Tokens = None,
        steps: Steps = None,
        batch: Rows = 16,
        rank: Rank = 32,
    ) -> dict[str, Any]:
        """Suggest a sensible first train.yaml (config) for decisions and, in a run, its model and device; each value with why.

        Stage grpo (in a run): rewards by the scorer, after an SFT; the keys are TRL's.
        """
        if stage == STAGE:
            return self._suggest_grpo(steps)
        made = made_decisions(stage, method, quantization, optimizer, distributed, precision, data_strategy, modality)
        given: dict[str, Any] = {"longest": longest, "typical": typical, "steps": steps, "batch": batch, "rank": rank}
        facts = SuggestionFacts(
            decisions=made, **self._known_facts(), **{k: v for k, v in given.items() if v is not None}
        )
        found = suggest_config(self._catalog(), facts)
        set_by_run = set(overwritten_keys(found.values)) if self.scope.newest else set()
        values, why = ({k: v for k, v in part.items() if k not in set_by_run} for part in (found.values, found.why))
        refused = decision_conflicts({**check_decisions(made), "method": facts.method})
        return {"values": values, "why": why, "refused_by_the_engine": refused}

    def _suggest_grpo(self, steps: int | None) -> dict[str, Any]:
        """Raises ToolError where the run cannot train so."""
        run_tools, (card, _) = self.scope.run_tools(), self._model()
        if why := refusal(run_tools):
            raise ToolError(f"{why}; right is stage sft")
        longest = min(run_tools.setup.benchmark.max_new_tokens, (card.max_positions or 1 << 20) // 2)
        values = suggest_grpo(tiny=card.parameters < TINY, steps=steps, longest_reply=longest)
        return {"values": values, "why": {}, "refused_by_the_engine": []}

    def model_card(self) -> dict[str, Any]:
        """What the base model is: how many parameters, layers, positions, vocabulary, chat template, device.

        `asked`: whether the evaluation asks in that template (chat) or in plain text (raw).
        """
        card, device = self._model()
        facts = {name: getattr(card, name) for name in CARD}
        run_tools = self.scope.run_tools()
        own = {"chat_template": card.chat_template is not None, "asked": asked_format(run_tools), "device": device}
        return {"name": run_tools.setup.model_name, **facts, **own}

    def _model(self) -> tuple[ModelCard, str]:
        """The run's model and device. Raises ToolError without a run."""
        setup = self.scope.run_tools().setup
        return read_model_card(setup.model_root), setup.device

    def _known_facts(self) -> dict[str, Any]:
        """What a run tells about model and device; nothing without one."""
        if self.scope.newest is None:
            return {}
        card, device = self._model()
        told = {name: getattr(card, name) for name in ("parameters", "max_positions", "template")}
        chat = asked_format(self.scope.run_tools()) == "chat"
        return told | {"template": card.template if chat else None, "chat_template": chat, "device": device}


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope: tools, the sources as resources, and two prompts."""
    t = ParameterTools(scope)
    functions = (
        t.query_parameters,
        t.describe_parameter,
        t.get_decision_guidance,
        t.compare_methods,
        t.suggest_config,
        t.check_config,
        t.estimate_memory,
        t.list_templates,
        t.model_card,
        t.list_parameter_files,
        t.read_source_file,
        t.read_constants,
    )
    server = make_server("params", INSTRUCTIONS, functions)
    add_resources(server, t)
    return server


def add_resources(server: FastMCP, t: ParameterTools) -> None:
    """What clients attach to a conversation: one parameter, one file, the guidance; and prompts that start one."""
    server.resource("params://guidance", mime_type="application/json")(as_mcp_resource(_guidance(t)))
    server.resource("params://parameter/{name}", mime_type="application/json")(as_mcp_resource(t.describe_parameter))
    server.resource("params://file/{name}", mime_type="text/x-python")(as_mcp_resource(_file(t)))
    server.prompt(write_config)
    server.prompt(explain_config)


def _guidance(t: ParameterTools) -> Any:
    def decision_guidance() -> dict[str, Any]:
        """The eight decisions, their values, and what every training needs."""
        return t.get_decision_guidance()

    return decision_guidance


def _file(t: ParameterTools) -> Any:
    def parameter_file(name: str) -> str:
        """The text of one parameter file."""
        text: str = t.read_source_file(name)["text"]
        return text

    return parameter_file


def write_config(goal: str) -> str:
    """Write a train.yaml for a goal in words."""
    return (
        f"Write a LLaMA-Factory train.yaml for: {goal}\n\nDecide stage, method, quantization, optimizer, distributed, "
        "precision, data_strategy and modality; call get_decision_guidance with them; start from suggest_config; look up "
        "what you are not sure of with describe_parameter; end with check_config and no error."
    )


def explain_config(yaml: str) -> str:
    """Explain a train.yaml line by line."""
    return (
        f"Explain this LLaMA-Factory config line by line with describe_parameter, then say what check_config finds:\n\n"
        f"```yaml\n{yaml}\n```"
    )
