"""An agent is a declaration: name, prompt, tool allow-list, answer type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from tuneloop.core.brief import Brief
from tuneloop.core.protocols import Planner, Toolbox
from tuneloop.prompts import render

Answer = TypeVar("Answer", bound=BaseModel)
PARAMETER_TOOLS = (
    "params_query_parameters",
    "params_describe_parameter",
    "params_get_decision_guidance",
    "params_compare_methods",
    "params_suggest_config",
    "params_check_config",
    "params_estimate_memory",
    "params_list_templates",
    "params_list_parameter_files",
    "params_read_source_file",
    "params_read_constants",
    "params_model_card",
)
ROW_TOOLS = (
    "data_list_datasets",
    "data_inspect_dataset",
    "data_profile_dataset",
    "data_sample_rows",
    "data_column_stats",
    "data_search_rows",
    "data_find_duplicates",
    "data_check_overlap",
    "data_benchmark_card",
)


@dataclass(frozen=True)
class Agent(Generic[Answer]):
    """`summary` gives what the agent says and why, in a line each, for people who watch."""

    name: str
    answer: type[Answer]
    tools: tuple[str, ...]
    summary: Callable[[Answer], tuple[str, str]]

    def prompt(self, brief: Brief) -> str:
        """What the agent is told: `prompts/<name>.md` filled from the brief."""
        return render(self.name, brief)


async def ask(agent: Agent[Answer], planner: Planner, prompt: str, brief: Brief, tools: Toolbox) -> Answer:
    """One typed answer, validated again for every planner. Raises RecipeError when there is none."""
    answer = await planner.answer(agent.name, prompt, brief, tools, agent.answer)
    return agent.answer.model_validate(answer.model_dump())
