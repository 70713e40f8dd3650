"""What may go from `$FT_FILE_PATH`, and its removal: leftovers, caches, scratch, losing models; old runs, engines if asked."""

from tuneloop.tools.cleaning.find import KINDS, Find, Kind, Wanted, clear
from tuneloop.tools.cleaning.survey import survey

__all__ = ["KINDS", "Find", "Kind", "Wanted", "clear", "survey"]
