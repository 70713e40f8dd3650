"""What people say to a run, as typed meanings."""

from tuneloop.agents.steering.understand import Known, understand

__all__ = ["Known", "understand"]
