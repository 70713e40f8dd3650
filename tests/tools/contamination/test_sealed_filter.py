"""Lines of a log that hold an item of the test are omitted; the rest is shown."""

from __future__ import annotations

import pytest

from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem
from tuneloop.tools.contamination.sealed_filter import (
    LINE,
    filter_lines,
    find_sealed,
    omission_notice,
)

HIDDEN = "Quenthir stacks 58 vortlings and loses 29 of those vortlings before dawn. How many vortlings stay stacked?"
TEST = "Zorvexa keeps 31 quillmarks and finds 17 more quillmarks below the bridge. How many are there now?"
SHOWN = "Brimoldo sells 24 snarfbells and then 13 more snarfbells on Monday. How many were sold in all?"
GUARD = Guard(
    [
        KnownItem("b", "test", "1", {"prompt": TEST}),
        KnownItem("b", "validation", "2", {"prompt": SHOWN}),
        KnownItem("b", "unseen", "3", {"prompt": HIDDEN}),
    ]
)
SEALED = pytest.mark.parametrize("item", [TEST, HIDDEN], ids=["test", "unseen"])


@SEALED
def test_sealed_items_are_omitted_and_shown_ones_are_not(item: str) -> None:
    assert find_sealed(GUARD, [item.upper(), SHOWN, "What is two?", f"{SHOWN} {item}"]) == [True, False, False, True]


@SEALED
def test_of_a_log_the_lines_that_hold_one(item: str) -> None:
    log = f"reading\n{{'q': {item!r}}}\nValueError: no answer"
    assert filter_lines(GUARD, log) == f"reading\n{LINE}\nValueError: no answer"
    torn = item.replace(" before ", "\nbefore ").replace("quillmarks below", "quillmarks\nbelow")
    assert filter_lines(GUARD, f"reading\n{torn}") == LINE, "two lines hold it together"


def test_how_many() -> None:
    assert omission_notice(0) == {}
    assert omission_notice(3)["omitted"].startswith("3 rows were removed")
