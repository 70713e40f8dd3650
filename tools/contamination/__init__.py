"""The contamination guard: which training rows hold what a benchmark asks, whatever they are dressed in."""

from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.known import Hit, Known

__all__ = ["Guard", "Hit", "Known"]
