"""Rules about two or more keys: what the engine refuses after seconds, and what it lets through silently."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.params.finding import Complaint
from tuneloop.tools.params.rules_data import data_rules
from tuneloop.tools.params.rules_distributed import distributed_rules
from tuneloop.tools.params.rules_mappings import mapping_rules
from tuneloop.tools.params.rules_method import method_rules
from tuneloop.tools.params.rules_stage import stage_rules
from tuneloop.tools.params.rules_training import training_rules
from tuneloop.tools.params.situation import Situation


def broken_rules(situation: Situation) -> Iterator[Complaint]:
    """Level, key and text of every rule that the config breaks."""
    yield from stage_rules(situation)
    yield from method_rules(situation)
    yield from data_rules(situation)
    yield from training_rules(situation)
    yield from distributed_rules(situation)
    yield from mapping_rules(situation)
