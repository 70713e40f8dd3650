"""Whatever a text is written in, its letters and digits are the same, in a time that grows with its length alone."""

from __future__ import annotations

import time

import pytest

from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.letters import letters, merged, readings, unescape, with_signs
from tuneloop.tools.contamination.probes import KnownItem

WORDS = "the quick fox jumps over 13 lazy dogs"
# Of Unicode's list of confusable signs: Lisu, Cherokee, Coptic, Canadian, Carian, Lycian, Old Italic, Osage, Warang Citi, Miao.
LOOK_ALIKE = {
    "a": "ꓮᗅ𖽀", "b": "ꓐᏏᑲ", "c": "ꓚⲥ𐊢ϲ", "d": "ꓓᑯᏧ", "e": "ꓰⴹ𐊆", "f": "ꓝᖴϝ", "g": "ꓖԍց", "h": "ꓧᕼⲏ", "i": "ꓲⵏɩ", "j": "ꓙᒍ",
    "k": "ꓗⲕᛕ", "l": "ꓡᒪⳑ", "m": "ꓟⲙϻ", "n": "ꓠⲛռ", "o": "ꓳⲟσ𐓪", "p": "ꓑⲣᑭ", "q": "ⵕգ", "r": "ꓣᖇⲅ", "s": "ꓢᏕƽ", "t": "ꓔⲧ𐌕",
    "u": "ꓴᑌ𐓶ʋ", "v": "ꓦᐯⴸ", "w": "ꓪᏔա", "x": "ꓫⲭⵝ", "y": "ꓬⲩყ", "z": "ꓜ𐋵",
}  # fmt: skip


@pytest.mark.parametrize("letter", LOOK_ALIKE)
def test_letters_of_other_scripts_are_those_that_they_look_like(letter: str) -> None:
    assert {merged(letters(sign)) for sign in LOOK_ALIKE[letter]} == {merged(letter)}


@pytest.mark.parametrize("filler", "\u3164\u115f\u1160\uffa0\u2800\u034f\u200d\u180e\ufe0f\U000e0020")
def test_blanks_that_count_as_letters_are_blanks(filler: str) -> None:
    assert letters(filler.join(WORDS)) == letters(WORDS)


def test_framed_letters_and_digits_are_letters_and_digits() -> None:
    assert letters("🅰🅱 🅐🅑 ⓐ⒝ ❶➁³ ½") == "ababab12312"


def test_parts_of_a_letter_are_the_letter() -> None:
    for whole, parts in (
        ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"),
        ("école", "e\u0301cole"),
        ("が", "か\u3099"),
    ):
        assert letters(whole) == letters(parts)


@pytest.mark.parametrize("text", ["a" + "\u0315\u0316" * 100_000, "<!" * 200_000, "[/a] " * 100_000, '<a "' * 100_000])
def test_no_text_costs_more_than_its_length(text: str) -> None:
    start = time.process_time()
    for reading in readings(text):
        letters(reading)
    with_signs(text)
    assert time.process_time() - start < 5


def test_numbers_without_end_in_entities_are_no_letters() -> None:
    endless = f"&#{'9' * 5000};"
    assert letters(unescape(f"a{endless}b &#{'0' * 5000}99;")) == "abc"
    guard = Guard([KnownItem("b", "test", "1", {"q": "Which of these dogs is the fastest of all?"})])
    assert guard.overlaps(f"which of these{endless} dogs is the fastest of all") == "test"


@pytest.mark.parametrize(
    "mark",
    [
        "[b]{}[/b]", "[color=red]{}[/color]", "[{}](https://a.example/b?c=d)", "[{}](#part)", "<!-- note -->{}",
        "<w:t a:b='c'>{}</w:t>", "<my-own-element>{}</my-own-element>", '<i title="a > b">{}</i>', "\\textcolor{{red}}{{{}}}",
        "\\href{{x.y}}{{{}}}", ":emphasis:`{}`", "\x1b[1m{}\x1b[0m",
    ],
)  # fmt: skip
def test_markup_around_each_word_is_no_text(mark: str) -> None:
    marked = " ".join(mark.format(word) for word in WORDS.split())
    assert letters(WORDS) in map(letters, readings(marked))


def test_brackets_that_nothing_closes_are_text() -> None:
    assert set(map(letters, readings("[nH] a[i] &amp; f[b](x) [/a]"))) == {"nhaiampfbxa", "nhaifbx"}
