"""The model selector: may overrule the base model that measurements and sizes speak for, where a run named none."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.agents.agent import Agent


class ModelPreference(BaseModel):
    """The base model of a run, and why."""

    model_config = ConfigDict(frozen=True)

    base_model: str = Field(description="a name from the table that is possible, as it stands there")
    reason: str = Field(max_length=1000, description="one sentence with the facts that decide")


MODEL_SELECTOR = Agent(
    name="model_selector",
    answer=ModelPreference,
    tools=(),
    summary=lambda answer: (f"base model: {answer.base_model}", answer.reason),
)
