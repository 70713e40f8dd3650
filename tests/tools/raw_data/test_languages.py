"""The script of a text is that of its letters."""

import pytest

from tuneloop.tools.raw_data.languages import main_script, writing_script


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("How many apples?", "latin"),
        ("Wie viele Äpfel hätte Zoë?", "latin"),
        ("Сколько яблок?", "cyrillic"),
        ("小明有12个苹果", "han"),
        ("りんごは何個ありますか", "kana"),
        ("사과가 몇 개 있습니까", "hangul"),
        ("كم عدد التفاح", "arabic"),
        ("कितने सेब हैं", "devanagari"),
        ("Πόσα μήλα", "greek"),
        ("12 + 3 = ?", "none"),
        ("", "none"),
        ("→ 12 ≠ 3 😀", "none"),
        ("\ud83d", "none"),
        ("Let x be 苹果 in this sentence", "latin"),
    ],
)
def test_script(text: str, name: str) -> None:
    assert writing_script(text) == name


def test_main_script() -> None:
    assert main_script(["a", "b", "яблок"]) == "latin"
    assert main_script([]) == "none"
