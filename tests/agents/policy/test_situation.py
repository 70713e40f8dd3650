"""What a source says of itself and what others say of it."""

from __future__ import annotations

from typing import Any

import pytest

from tuneloop.agents.policy.situation import DataSource
from tuneloop.core.profile import SourceProfile


@pytest.mark.parametrize(
    ("contradicted", "disputed", "confirmed"), [(None, False, False), (0.05, False, True), (0.3, True, False)]
)
def test_who_is_not_judged_is_neither_disputed_nor_confirmed(
    contradicted: float | None, disputed: bool, confirmed: bool
) -> None:
    said: dict[str, Any] = {"contradicted": contradicted}
    source = DataSource("set", SourceProfile.model_construct(**said))
    assert (source.disputed, source.confirmed) == (disputed, confirmed)
