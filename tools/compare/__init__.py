"""What counts as better and what may be claimed: paired differences, intervals, one test, what a split can show, guards."""

from tuneloop.tools.compare.decision import check, decide
from tuneloop.tools.compare.intervals import interval, wilson
from tuneloop.tools.compare.paired import Paired, claim, compare, compared, gain_difference, pair
from tuneloop.tools.compare.power import Precision, precision_in, smallest_allowance, smallest_gain

__all__ = [
    "Paired",
    "Precision",
    "check",
    "claim",
    "compare",
    "compared",
    "decide",
    "gain_difference",
    "interval",
    "pair",
    "precision_in",
    "smallest_allowance",
    "smallest_gain",
    "wilson",
]
