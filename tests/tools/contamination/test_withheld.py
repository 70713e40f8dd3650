"""What holds an item of the test is withheld, whole; the rest is shown."""

from __future__ import annotations

import pytest

from tuneloop.tools.contamination import Guard, Known
from tuneloop.tools.contamination.withheld import CARD, LINE, open_lines, open_text, sealed, told

HIDDEN = "Quenthir stacks 58 vortlings and loses 29 of those vortlings before dawn. How many vortlings stay stacked?"
TEST = "Zorvexa keeps 31 quillmarks and finds 17 more quillmarks below the bridge. How many are there now?"
SHOWN = "Brimoldo sells 24 snarfbells and then 13 more snarfbells on Monday. How many were sold in all?"
GUARD = Guard(
    [
        Known("b", "test", "1", {"prompt": TEST}),
        Known("b", "validation", "2", {"prompt": SHOWN}),
        Known("b", "unseen", "3", {"prompt": HIDDEN}),
    ]
)
SEALED = pytest.mark.parametrize("item", [TEST, HIDDEN], ids=["test", "unseen"])


@SEALED
def test_what_is_sealed_is_withheld_and_what_is_shown_is_not(item: str) -> None:
    rows = [{"turns": [{"say": item.upper()}]}, {"q": SHOWN}, {"q": "What is two?"}, f"{SHOWN} {item}"]
    assert sealed(GUARD, rows) == [True, False, False, True]
    assert sealed(None, rows) == [False] * 4


@SEALED
def test_a_card_is_withheld_whole(item: str) -> None:
    assert open_text(GUARD, f"# Sums\n\n{item}", CARD) == CARD
    assert open_text(GUARD, "# Sums", CARD) == "# Sums"


@SEALED
def test_of_a_log_the_lines_that_hold_one(item: str) -> None:
    log = f"reading\n{{'q': {item!r}}}\nValueError: no answer"
    assert open_lines(GUARD, log) == f"reading\n{LINE}\nValueError: no answer"
    torn = item.replace(" before ", "\nbefore ").replace("quillmarks below", "quillmarks\nbelow")
    assert open_lines(GUARD, f"reading\n{torn}") == LINE, "two lines hold it together"


def test_how_many() -> None:
    assert told(0) == {}
    assert told(3)["withheld"] == (
        "3 rows not shown: they hold items of the sealed test or of the validation half that is not shown, "
        "and are not trained on either"
    )
