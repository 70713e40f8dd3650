"""Mechanical disguises of a text, eight families with several forms each; written without a look at the guard."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from tests.tools.contamination.items import Made

Disguise = Callable[[str, random.Random], str]
HOMOGLYPHS = {
    "a": "аαɑ", "b": "Ьƅ", "c": "сϲ", "d": "ԁ", "e": "еҽ", "g": "ɡ", "h": "һհ", "i": "іıι", "j": "ј", "k": "κк", "l": "ӏIl",
    "m": "мᴍ", "n": "ոη", "o": "оοօ", "p": "рρ", "q": "ԛ", "r": "гʀ", "s": "ѕꜱ", "t": "тτ", "u": "υս", "v": "ѵν", "w": "ԝѡ",
    "x": "хχ", "y": "уү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙl", "K": "КΚ", "M": "МΜ",
    "N": "Ν", "O": "ОΟ0", "P": "РΡ", "S": "Ѕ", "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "Z": "Ζ",
}  # fmt: skip
STYLED = [unicodedata.lookup(f"{name} CAPITAL A") for name in ("MATHEMATICAL BOLD", "MATHEMATICAL SANS-SERIF")]
FILLER = ["and", "so", "the", "report", "was", "filed", "late", "again"]
SENTENCES = re.compile(r"(?<=[^\d][.?!])\s+|(?<=[。？！।؟])\s*|\n+")
TAGS = (
    "<b>{}</b>",
    "**{}**",
    "_{}_",
    '<span class="x y">{}</span>',
    "\\textbf{{{}}}",
    "`{}`",
    "~~{}~~",
    "\\emph{{{}}}",
)


def some(words: Sequence[str], rng: random.Random, change: Callable[[str], str], share: float) -> str:
    return " ".join(change(word) if rng.random() < share else word for word in words)


def random_case(text: str, rng: random.Random) -> str:
    return "".join(rng.choice((char.upper(), char.lower())) for char in text)


def marked_up(text: str, rng: random.Random) -> str:
    tag = rng.choice(TAGS)
    return some(text.split(" "), rng, lambda word: tag.format(word) if word else word, rng.choice((0.1, 0.3, 1)))


def entities(text: str, rng: random.Random) -> str:
    return "".join(f"&#{ord(char)};" if rng.random() < 0.3 else char for char in text)


def paragraphs(text: str, rng: random.Random) -> str:
    return "".join(f"<p>{part}</p>\n<br/>" for part in text.split("\n"))


def noisy(text: str, rng: random.Random) -> str:
    return "".join(char + rng.choice(",.;:!?'\"_-…") if rng.random() < 0.2 else char for char in text)


def unpunctuated(text: str, rng: random.Random) -> str:
    return "".join(" " if unicodedata.category(char)[0] == "P" else char for char in text)


def look_alike(text: str, rng: random.Random) -> str:
    share = rng.choice((0.1, 0.5, 1))
    return "".join(rng.choice(HOMOGLYPHS[c]) if c in HOMOGLYPHS and rng.random() < share else c for c in text)


def styled(text: str, rng: random.Random) -> str:
    zero = ord(rng.choice(STYLED))
    return "".join(
        chr(zero + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".index(c))
        if c.isascii() and c.isalpha()
        else c
        for c in text
    )


def accented(text: str, rng: random.Random) -> str:
    return "".join(
        c + rng.choice("\u0301\u0308\u0323") if c.isascii() and c.isalpha() and rng.random() < 0.3 else c for c in text
    )


def full_width(text: str, rng: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def filler(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(FILLER, k=count))


def sentences(text: str) -> list[str]:
    return [part for part in SENTENCES.split(text) if part.strip()]


def reordered(text: str, rng: random.Random) -> str:
    parts = sentences(text)
    return rng.choice((" ", "\n", "\n\n")).join(rng.sample(parts, len(parts)))


def cut(text: str, rng: random.Random, at: int | None = None) -> str:
    parts = sentences(text)
    parts.pop(rng.randrange(len(parts)) if at is None else at)
    return " ".join(parts)


FAMILIES: dict[str, tuple[Disguise, ...]] = {
    "case": (lambda t, r: t.upper(), lambda t, r: t.lower(), lambda t, r: t.swapcase(), random_case),
    "spacing": (
        lambda t, r: re.sub(r"\s+", "", t),
        lambda t, r: re.sub(r"\s+", "\n\n", t),
        lambda t, r: " ".join(t),
        lambda t, r: re.sub(r"\s", lambda m: r.choice(("  ", "\t", "\u00a0", "\u2003", "")), t),
        lambda t, r: "".join(c + r.choice(("", "\u200b", "\u00ad")) for c in t),
    ),
    "punctuation": (lambda t, r: re.sub(r"\s+", "-", t), lambda t, r: re.sub(r"\s+", "_", t), noisy, unpunctuated),
    "markup": (marked_up, entities, paragraphs),
    "look-alike letters": (look_alike, styled, accented, full_width),
    "padding": (
        lambda t, r: f"{filler(r, 20_001)} {t}",
        lambda t, r: f"{t}\n{filler(r, 20_001)}",
        lambda t, r: f"{filler(r, 3000)}. {t} {filler(r, 30_000)}",
    ),
    "reordered sentences": (reordered,),
    "a sentence cut": (lambda t, r: cut(t, r, 0), lambda t, r: cut(t, r, -1), cut),
}  # fmt: skip
OF_SENTENCES = ("reordered sentences", "a sentence cut")


def arithmetic(text: str, rng: random.Random) -> str:
    """Numbers as sums, which is beyond what is looked for."""
    return re.sub(r"\d+", lambda m: f"({m[0]}+0)" if rng.random() < 0.5 else f"({int(m[0]) - 1}+1)", text)


def item_text(made: Made) -> str:
    """The item as one text."""
    return "\n".join(made.fields.values())


def fits(made: Made, family: str) -> bool:
    """Whether the family has a form for the item: no short one, of several sentences, with 2/5 of it left by any cut."""
    text = item_text(made)
    parts = [size(part) for part in sentences(text)]
    if size(text) < 32 or (family in OF_SENTENCES and len(parts) < 2):
        return False
    return family != "a sentence cut" or size(text) - max(parts) >= max(32, 0.4 * size(text))


def size(text: str) -> int:
    """Bytes of its letters and digits."""
    return len("".join(filter(str.isalnum, re.sub(r"\\\w+", "", text))).encode())


def planted(text: str, made: Made, rng: random.Random) -> Any:
    """A training row with the text in it."""
    shapes = (
        {"instruction": text, "input": "", "output": made.answer},
        {"instruction": "Please solve this carefully.", "input": text, "output": f"The answer is {made.answer}."},
        {
            "conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": made.answer}],
            "system": "Be brief.",
        },
        {"text": f"<s>[INST] You are a helpful assistant. {text} [/INST] {made.answer}</s>"},
        {
            "prompt": f"Think step by step.\n\n{text}\n\nEnd with a number.",
            "chosen": made.answer,
            "rejected": "I do not know.",
        },
    )
    return rng.choice(shapes)
