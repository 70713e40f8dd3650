"""The parameter assistant: a chat model that answers questions about parameters with the parameter server's tools."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.agents.agent import PARAMETER_TOOLS, Agent
from tuneloop.core.brief import Brief, BudgetLeft, TaskCard
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.prompt_escaping import escape_role_markers
from tuneloop.core.protocols import Toolbox
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import CallLedger, ModelCall, Tokens
from tuneloop.prompts import fill

LONGEST = 120.0  # seconds
OF_A_RUN = ("params_check_config", "params_estimate_memory", "params_model_card")


class ParameterAnswer(BaseModel):
    """What the question's author reads."""

    model_config = ConfigDict(frozen=True)

    answer: str = Field(min_length=1, max_length=20_000, description="the answer in Markdown, with what the tools said")


ASSISTANT = Agent(
    name="parameter_assistant",
    answer=ParameterAnswer,
    tools=tuple(tool for tool in PARAMETER_TOOLS if tool not in OF_A_RUN),
    summary=lambda answer: (answer.answer, ""),
)


class _NoBook:
    """A question outside a run has no budget."""

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:  # noqa: ARG002
        return ""

    def end(self, name: str, call: ModelCall) -> None:
        pass


@contextmanager
def _no_book() -> Iterator[CallLedger]:
    yield _NoBook()


async def ask_model(question: str, tools: Toolbox, settings: Settings) -> str:
    """The model's answer in Markdown. Raises RecipeError when no model gives one."""
    from tuneloop.agents.chat.planner import ChatPlanner
    from tuneloop.agents.chat.planner_context import PlannerContext  # langchain is slow to import

    prompt = fill(ASSISTANT.name, question=escape_role_markers(question))
    with tempfile.TemporaryDirectory(prefix="tuneloop-ask-") as folder:
        place = Path(folder)
        context = PlannerContext(
            settings, lambda _: place / "calls.jsonl", place / "models.json", lambda _: None, _no_book
        )
        try:
            async with asyncio.timeout(LONGEST):
                found = await ChatPlanner(context).answer(ASSISTANT.name, prompt, _brief(), tools, ParameterAnswer)
        except TimeoutError as e:
            raise RecipeError(f"no answer within {LONGEST:g} s", culprit="planner") from e
        except InfrastructureError as e:
            raise RecipeError(str(e), culprit="planner") from e
        except RecipeError as e:
            raise RecipeError(str(e.__context__ or e), culprit="planner") from e
    return found.answer


def _brief() -> Brief:
    """A planner wants one; there is no task."""
    task = TaskCard(
        benchmark="", domain="", description="", answer="", prompt="", metric="", direction="max", max_new_tokens=0,
        base_model="", datasets=(), row_limit=0, seed=0, device="",
    )  # fmt: skip
    return Brief(task=task, experiment=1, budget=BudgetLeft(experiments_left=None, seconds_left=None))
