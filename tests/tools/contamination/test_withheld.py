"""What holds an item of the test is withheld, whole; the rest is shown."""

from __future__ import annotations

from tuneloop.tools.contamination import Guard, Known
from tuneloop.tools.contamination.withheld import CARD, LINE, open_lines, open_text, sealed, told

TEST = "Zorvexa keeps 31 quillmarks and finds 17 more quillmarks below the bridge. How many are there now?"
SHOWN = "Brimoldo sells 24 snarfbells and then 13 more snarfbells on Monday. How many were sold in all?"
GUARD = Guard([Known("b", "test", "1", {"prompt": TEST}), Known("b", "validation", "2", {"prompt": SHOWN})])


def test_the_test_is_withheld_and_validation_is_not() -> None:
    rows = [{"turns": [{"say": TEST.upper()}]}, {"q": SHOWN}, {"q": "What is two?"}, f"{SHOWN} {TEST}"]
    assert sealed(GUARD, rows) == [True, False, False, True]
    assert sealed(None, rows) == [False] * 4


def test_a_card_is_withheld_whole() -> None:
    assert open_text(GUARD, f"# Sums\n\n{TEST}", CARD) == CARD
    assert open_text(GUARD, "# Sums", CARD) == "# Sums"


def test_of_a_log_the_lines_that_hold_one() -> None:
    log = f"reading\n{{'q': {TEST!r}}}\nValueError: no answer"
    assert open_lines(GUARD, log) == f"reading\n{LINE}\nValueError: no answer"
    torn = TEST.replace("quillmarks below", "quillmarks\nbelow")
    assert open_lines(GUARD, f"reading\n{torn}") == LINE, "two lines hold it together"


def test_how_many() -> None:
    assert told(0) == {}
    assert told(3)["withheld"].startswith("3 rows not shown: they hold items of the sealed test")
