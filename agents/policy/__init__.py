"""The offline policy: a planner without a chat model; what it decides is a function of brief and tools."""

from tuneloop.agents.policy.planner import OfflinePolicy
from tuneloop.agents.policy.researcher import expected_moves

__all__ = ["OfflinePolicy", "expected_moves"]
