"""The piece that a row and an item have in common, to show why one was found in the other."""

from __future__ import annotations

import difflib
import re
from typing import Any

from tuneloop.tools.contamination.probes import row_texts

WORD = re.compile(r"\w+")
MOST_WORDS = 2000  # of a text; what is longer is compared as far as here
LONGEST_PIECE = 300


def matched_piece(row: Any, item: str) -> str:
    """The longest run of words of `item` in the row, as the row writes it; "" without one."""
    wanted = [match[0].casefold() for match in WORD.finditer(item)][:MOST_WORDS]
    best = ""
    for text in row_texts(row):
        found = list(WORD.finditer(text))[:MOST_WORDS]
        words = [match[0].casefold() for match in found]
        run = difflib.SequenceMatcher(None, words, wanted, autojunk=False).find_longest_match()
        if run.size:
            piece = text[found[run.a].start() : found[run.a + run.size - 1].end()]
            best = max(best, piece, key=len)
    return best[:LONGEST_PIECE]
