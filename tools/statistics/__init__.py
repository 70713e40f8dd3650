"""What counts as better and what may be claimed: paired differences, intervals, one test, what a split can show, guards."""

from tuneloop.tools.statistics.intervals import interval, wilson
from tuneloop.tools.statistics.paired import Paired, claim, compare, comparison_of, gain_difference, holm, pair_scores
from tuneloop.tools.statistics.power import Precision, precision_in, smallest_allowance, smallest_gain
from tuneloop.tools.statistics.promotion import check_guard, decide_promotion

__all__ = [
    "Paired",
    "Precision",
    "check_guard",
    "claim",
    "compare",
    "comparison_of",
    "decide_promotion",
    "gain_difference",
    "holm",
    "interval",
    "pair_scores",
    "precision_in",
    "smallest_allowance",
    "smallest_gain",
    "wilson",
]
