"""What is shown of an overlap is the longest run of words that row and item share."""

from typing import Any

import pytest

from tuneloop.tools.contamination.probes import LONGEST_PIECE, matched_piece

ITEM = "Tom has 3 apples and buys 4 more. How many apples has Tom?"


@pytest.mark.parametrize(
    ("row", "piece"),
    [
        ({"q": f"Exercise 7. {ITEM.upper()} Think."}, ITEM.upper().removesuffix("?")),
        ({"q": "Ann has 3 apples, and buys 4 MORE!", "a": "How many apples has she?"}, "has 3 apples, and buys 4 MORE"),
        ([["nothing of it"]], ""),
        ("", ""),
    ],
)
def test_longest_run(row: Any, piece: str) -> None:
    assert matched_piece(row, ITEM) == piece


def test_it_is_short() -> None:
    assert len(matched_piece("word " * 5000, "word " * 5000)) == LONGEST_PIECE
