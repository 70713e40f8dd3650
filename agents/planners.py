"""Which planner speaks for the agents: a chat model where one is set, else the policy that needs no key and no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuneloop.core.protocols import Planner
from tuneloop.core.settings import Settings

if TYPE_CHECKING:  # langchain is slow to import, and most runs need none of it
    from tuneloop.agents.chat.planner_context import PlannerContext


def make_planner(settings: Settings, context: PlannerContext) -> Planner:
    """The planner this machine is set up for."""
    if not settings.chat_model:
        from tuneloop.agents.policy import OfflinePolicy

        return OfflinePolicy()
    from tuneloop.agents.chat.planner import ChatPlanner

    return ChatPlanner(context)


def check_planner(settings: Settings) -> None:
    """What can be seen to be wrong with its models. Raises InvalidRequestError; nothing is asked."""
    if settings.chat_model:
        from tuneloop.agents.chat.models import check_models

        check_models(settings)
