"""Which texts are the same under their dress: plain tokens of any text, and groups of near copies."""

from tuneloop.tools.likeness.copies import groups_of_near_copies
from tuneloop.tools.likeness.plain import tokens

__all__ = ["groups_of_near_copies", "tokens"]
