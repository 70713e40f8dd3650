"""Evaluations outside of a run: any model on any benchmarks, in a folder of its own, found again when asked again."""

from tuneloop.tools.evaluating.asked import Decoding, fetched, sets_of, whole_names
from tuneloop.tools.evaluating.measure import Measurement, measure
from tuneloop.tools.evaluating.subjects import Subject, find_subject

__all__ = [
    "Decoding",
    "Measurement",
    "Subject",
    "fetched",
    "find_subject",
    "measure",
    "sets_of",
    "whole_names",
]
