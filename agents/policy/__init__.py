"""The offline policy: a planner without a chat model; what it decides is a function of brief and tools."""

from tuneloop.agents.policy.planner import OfflinePolicy

__all__ = ["OfflinePolicy"]
