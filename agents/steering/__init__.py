"""What people say to a run, as typed meanings."""

from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.understand import understand

__all__ = ["Known", "understand"]
