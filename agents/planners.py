"""Which planner speaks for the agents: the offline policy, which needs no key and no network."""

from __future__ import annotations

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.planner import Planner


def choose_planner() -> Planner:
    """The planner this machine is set up for."""
    return OfflinePolicy()
