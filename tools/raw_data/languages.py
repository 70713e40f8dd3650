"""Which scripts rows are written in, by the blocks of Unicode that their letters lie in; no model, no guess of a language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

# First code point of each block and the script of its letters; "" has none of its own.
BLOCKS = (
    (0, ""), (0x41, "latin"), (0x5B, ""), (0x61, "latin"), (0x7B, ""), (0xC0, "latin"), (0x2B0, ""),
    (0x370, "greek"), (0x400, "cyrillic"), (0x530, "armenian"), (0x590, "hebrew"), (0x600, "arabic"), (0x700, ""),
    (0x900, "devanagari"), (0x980, "bengali"), (0xA00, "indic"), (0xE00, "thai"), (0xE80, ""),
    (0x10A0, "georgian"), (0x1100, "hangul"), (0x1200, "ethiopic"), (0x13A0, ""), (0x1E00, "latin"),
    (0x1F00, "greek"), (0x2000, ""), (0x3040, "kana"), (0x3100, ""), (0x3400, "han"), (0x4DC0, ""), (0x4E00, "han"),
    (0xA000, ""), (0xAC00, "hangul"), (0xD7B0, ""), (0xF900, "han"), (0xFB00, ""), (0x20000, "han"), (0x323B0, ""),
)  # fmt: skip
STARTS = np.array([start for start, _ in BLOCKS])
NAMES = tuple(dict.fromkeys(name for _, name in BLOCKS if name))
KIND = np.array([NAMES.index(name) + 1 if name else 0 for _, name in BLOCKS])
KANA = NAMES.index("kana")
SAMPLE = 2000


def writing_script(text: str) -> str:
    """The script of most letters in the first 2,000 characters; any kana makes it `kana`, no letters `none`."""
    text = text[:SAMPLE]
    if text.isascii():
        return "latin" if text.upper() != text.lower() else "none"
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    counts = np.bincount(KIND[np.searchsorted(STARTS, codes, "right") - 1], minlength=len(NAMES) + 1)[1:]
    if not counts.any():
        return "none"
    if counts[KANA] and counts[KANA] * 20 > counts.sum():
        return "kana"
    return NAMES[int(counts.argmax())]


def script_shares(counts: Counter[str]) -> dict[str, float]:
    """Percent of rows by script, most first."""
    whole = sum(counts.values())
    return {name: round(100 * count / whole, 2) for name, count in counts.most_common()}


def main_script(texts: Sequence[str]) -> str:
    """The script of most of them."""
    return Counter(map(writing_script, texts)).most_common(1)[0][0] if texts else "none"
