"""One text in two dresses has the same tokens; what says something else has not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.contamination.normalize import BREAK, tokens_with_breaks

SAME = [
    (r"$\frac12$ + \dfrac{3}{4}", "1/2 + 3/4"),
    (r"3\frac{1}{2}", "3 1/2"),
    ("3½", "3 1/2"),
    (r"\frac{\sqrt{2}}{2}", "√2/2"),
    (r"\text{Find } \left( x^{2} \right)", "find (x²)"),
    ("x<sup>2</sup>", "x^2"),
    (r"a \leq b \times 2", "a ≤ b · 2"),
    ("2*3", r"2 \times 3"),
    (r"90^\circ", "90°"),
    (r"\begin{align} a &= b \\ c \end{align}", "a = b c"),
    (r"12{,}500 or 12\,500", "12,500 or 12500"),
    (r"50\%", "50 percent"),
    ("**Tom** has *3*", "tom has 3"),
    ("5 &lt; 6", "5 < 6"),
    ("７．５ ＡＢＣ", "7.5 abc"),
    ("2.50, 7.00 and .5", "2.5 7 and 0.5"),
    ("𝟐𝟓 ﬁsh", "25 fish"),
    ("naïve cafe\u0301", "naive café"),
    ("soft\u00adhyphen", "softhyphen"),
    ("٢٥ تُفَّاحَة", "25 تفاحة"),
    ("५ सेब", "5 सेब"),
    ("पाँच सेब", "5 सेब"),
    (r"\TEXT{Find} \FRAC{1}{2} \Pi", r"\text{find} 1/2 \pi"),
    ("がぎ", "か\u3099ぎ"),
    ("有十二个", "有12个"),
    ("二〇二五年", "2025年"),
    ("三万五千人", "35000人"),
    ("3.5万", "35000"),
    ("twenty-three apples", "23 Apples"),
    ("two hundred and five thousand three", "205003"),
    ("5 million", "5,000,000"),
    ("one thousand, two hundred | thirty, five", "1200 30 5"),
    ("fünfundzwanzig Äpfel", "25 Apfel"),
    ("treinta y cinco", "35"),
    ("двадцать три", "23"),
    ("тwеnty-threе аpples", "23 apples"),
    ("Вox of ѕix реars", "box of 6 pears"),
    ("nineteen ninety", "19 90"),
    ("two or three, one and two", "2 or 3 1 and 2"),
]
OTHER = [
    ("3 - 4", "3 + 4"),
    ("2^3", "23"),
    ("1.5", "15"),
    ("1/2", "12"),
    ("-3", "3"),
    ("有十二个", "有二个"),
    ("a < b", "a > b"),
    ("सीता", "सात"),
    ("か", "が"),
    ("Is it CC(=O)OC?", "Is it CC(=O)Oc?"),
]


def plain_tokens(text: str) -> list[str]:
    return [token for token in tokens_with_breaks(text) if token != BREAK]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_dress_does_not_count(one: str, other: str) -> None:
    assert plain_tokens(one) == plain_tokens(other) != []


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_says_something_else_is_told_apart(one: str, other: str) -> None:
    assert plain_tokens(one) != plain_tokens(other)


def test_paragraphs_options_and_lines_of_a_list_are_borders() -> None:
    text = "Which\none?\nA. 12 apples\n(b) 3 pears C) I am\n\nB.\n30. no"
    options = ["¶", "12", "apples", "¶", "3", "pears", "¶", "i", "am", "¶", "¶", "30", "no"]
    assert tokens_with_breaks(text) == ["which", "1", *options]
    assert tokens_with_breaks("Which?\n1. yes\n2. no") == ["which", "¶", "yes", "¶", "no"]


@given(st.text())
def test_tokens_of_any_text_hold_no_blanks_and_no_capitals(text: str) -> None:
    found = plain_tokens(text)
    assert all(token and token == token.casefold() and not any(map(str.isspace, token)) for token in found)
