"""What a training will write, before it writes anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuneloop.core.errors import InfrastructureError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.memory import SMALL, checkpoint_bytes, training_bytes
from tuneloop.tools.config.model_card import ModelCard
from tuneloop.tools.housekeeping.disk import check_room


def situation(text: str, card: ModelCard, catalog: Catalog) -> ConfigContext:
    return ConfigContext(parse_config(text), catalog, card, "cpu")


def test_a_full_checkpoint_holds_weights_and_two_moments(card: ModelCard, catalog: Catalog) -> None:
    big = replace(card, parameters=7_000_000_000)
    full = situation("finetuning_type: full\n", big, catalog)
    found = checkpoint_bytes(full)
    assert found >= 4 * 7e9 + SMALL
    # Two are kept while the third is written, and then the model.
    assert training_bytes(full) == 3 * found + 4 * big.parameters + SMALL


def test_an_adapter_is_small(card: ModelCard, catalog: Catalog) -> None:
    lora = situation("finetuning_type: lora\nlora_rank: 8\nlora_target: all\n", card, catalog)
    assert training_bytes(lora) < 5 * SMALL


def test_what_does_not_fit_is_said_before_it_begins(card: ModelCard, catalog: Catalog, tmp_path) -> None:
    huge = situation("finetuning_type: full\n", replace(card, parameters=10**15), catalog)
    with pytest.raises(InfrastructureError, match=r"training experiment 1 needs .* are free"):
        check_room(tmp_path, training_bytes(huge), "training experiment 1")
