"""What counts as better: intervals, paired exact tests, what a split can show, guards against forgetting, the decision."""

from tuneloop.tools.compare.decision import check, decide, share
from tuneloop.tools.compare.intervals import interval, wilson
from tuneloop.tools.compare.paired import compare
from tuneloop.tools.compare.power import Precision, precision_in, smallest_allowance, smallest_gain
from tuneloop.tools.compare.seeds import pooled

__all__ = [
    "Precision",
    "check",
    "compare",
    "decide",
    "interval",
    "pooled",
    "precision_in",
    "share",
    "smallest_allowance",
    "smallest_gain",
    "wilson",
]
