"""Who decides: five declarations and the planners that speak for them; the only folder that calls a chat model."""

from tuneloop.agents.agent import Agent, ask

__all__ = ["Agent", "ask"]
