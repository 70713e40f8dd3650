"""Corpora by one who had not read rules and parser: bad configs refused, good ones passed."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.model_card import ModelCard

BAD, GOOD = (world.cases(f"examined_{name}.yaml") for name in ("bad", "good"))


def refused(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> list[Finding]:
    model = card if case.profile == "run" else None
    found = check_config(case.text, catalog, model, case.device, profile=case.profile, here=place)
    return [f for f in found if f.level == "error"]


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_config_is_refused_and_the_key_named(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    assert case.key in {f.key for f in refused(case, catalog, card, place)}, case.text


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_good_config_passes(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    assert [str(f) for f in refused(case, catalog, card, place)] == [], case.text
