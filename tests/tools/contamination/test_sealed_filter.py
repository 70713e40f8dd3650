"""What holds an item of the test is omitted, whole; the rest is shown."""

from __future__ import annotations

import pytest

from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem
from tuneloop.tools.contamination.sealed_filter import (
    CARD,
    LINE,
    filter_lines,
    filter_text,
    find_sealed,
    withheld_notice,
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
def test_what_is_sealed_is_withheld_and_what_is_shown_is_not(item: str) -> None:
    rows = [{"turns": [{"say": item.upper()}]}, {"q": SHOWN}, {"q": "What is two?"}, f"{SHOWN} {item}"]
    assert find_sealed(GUARD, rows) == [True, False, False, True]
    assert find_sealed(None, rows) == [False] * 4


@SEALED
def test_a_card_is_withheld_whole(item: str) -> None:
    assert filter_text(GUARD, f"# Sums\n\n{item}", CARD) == CARD
    assert filter_text(GUARD, "# Sums", CARD) == "# Sums"


@SEALED
def test_of_a_log_the_lines_that_hold_one(item: str) -> None:
    log = f"reading\n{{'q': {item!r}}}\nValueError: no answer"
    assert filter_lines(GUARD, log) == f"reading\n{LINE}\nValueError: no answer"
    torn = item.replace(" before ", "\nbefore ").replace("quillmarks below", "quillmarks\nbelow")
    assert filter_lines(GUARD, f"reading\n{torn}") == LINE, "two lines hold it together"


def test_how_many() -> None:
    assert withheld_notice(0) == {}
    assert withheld_notice(3)["omitted"] == (
        "3 rows not shown: they hold items of the sealed test or of the validation half that is not shown, "
        "and are not trained on either"
    )
