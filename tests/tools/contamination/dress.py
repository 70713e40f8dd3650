"""Light edits of a text and ways to put an item into a training row; written without a look at the guard."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from tests.tools.contamination.items import Made, renamed, words

Edit = Callable[[str, random.Random], str]

ONES = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = words("- - twenty thirty forty fifty sixty seventy eighty ninety")
EINER = words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"
)
ZEHNER = words("- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
DIEZ = words("- - veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa")
UNO = words("cero uno dos tres cuatro cinco seis siete ocho nueve")
SIGNS = "零一二三四五六七八九"
SWAPS = {
    "en": {"market": "fair", "whole": "entire", "gives": "hands", "sold": "dealt", "best": "well", "value": "result"},
    "de": {"jetzt": "nun", "noch": "weitere"},
    "fr": {"encore": "aussi"},
    "es": {"ahora": "hoy"},
    "ru": {"потом": "затем"},
    "zh": {"请问": "问", "然后": "之后"},
    "ar": {},
    "hi": {},
}  # fmt: skip


def english(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ONES[n // 100]} hundred" + (f" and {english(n % 100)}" if n % 100 else "")
    return f"{english(n // 1000)} thousand" + (f" {english(n % 1000)}" if n % 1000 else "")


def german(n: int) -> str:
    if n == 1:
        return "eins"
    if n < 20:
        return EINER[n]
    return (f"{EINER[n % 10]}und" if n % 10 else "") + ZEHNER[n // 10]


def spanish(n: int) -> str:
    return DIEZ[n // 10] + (f" y {UNO[n % 10]}" if n % 10 else "")


def chinese(n: int) -> str:
    if n < 10:
        return SIGNS[n]
    if n < 100:
        return ("" if n < 20 else SIGNS[n // 10]) + "十" + (SIGNS[n % 10] if n % 10 else "")
    if n < 1000:
        rest = n % 100
        return f"{SIGNS[n // 100]}百" + (
            ""
            if not rest
            else f"零{SIGNS[rest]}"
            if rest < 10
            else f"{SIGNS[rest // 10]}十{SIGNS[rest % 10] if rest % 10 else ''}"
        )
    rest = n % 1000
    return f"{SIGNS[n // 1000]}千" + (
        ""
        if not rest
        else ("零" if rest < 100 else "") + chinese(rest)
        if rest >= 20 or rest < 10
        else f"零一{chinese(rest)}"
    )


SPELL: dict[str, tuple[range, Callable[[int], str]]] = {
    "en": (range(10_000), english),
    "de": (range(2, 100), german),
    "es": (range(31, 100), spanish),
    "zh": (range(1, 10_000), chinese),
}


def spelled(text: str, rng: random.Random, language: str) -> str:
    """Some of the numbers in words."""
    if language not in SPELL:
        return text
    known, spell = SPELL[language]

    def one(match: re.Match[str]) -> str:
        return spell(int(match[0])) if int(match[0]) in known and rng.random() < 0.7 else match[0]

    return re.sub(r"(?<![\d.,A-Za-z{^+-])\d+(?![\d.,A-Za-z}+-])", one, text)


def other_digits(text: str, rng: random.Random) -> str:
    zero = rng.choice((0x0660, 0x06F0, 0x0966, 0xFF10, 0x1D7CE, 0x0E50))
    return re.sub(r"\d", lambda m: chr(zero + int(m[0])), text)


def full_width(text: str, rng: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and c not in "\\{}$^_&" else c for c in text)


def decomposed(text: str, rng: random.Random) -> str:
    return unicodedata.normalize(rng.choice(("NFD", "NFKD")), text)


def typographic(text: str, rng: random.Random) -> str:
    text = text.replace("'", "’").replace(" - ", " − ").replace(" ", rng.choice((" ", "\u00a0", "\u2009")))
    return re.sub(r"(?<=\w)(?=\w)", lambda m: "\u200b" if rng.random() < 0.05 else "", text)


def case(text: str, rng: random.Random) -> str:
    return rng.choice((str.upper, str.lower, str.swapcase))(text)


def spaces(text: str, rng: random.Random) -> str:
    blank = rng.choice(("  ", "\n", "\t", " \n "))
    return re.sub(" ", lambda m: blank if rng.random() < 0.5 else " ", text) + "\n\n"


def punctuation(text: str, rng: random.Random) -> str:
    return re.sub(r"[,;:?!。，？！؟।]|\.(?!\d)", lambda m: rng.choice(("", m[0] * 2, " " + m[0])), text)


def latex(text: str, rng: random.Random) -> str:
    if "\\" not in text and "$" not in text:
        return re.sub(
            r"(?<![\d.])\d+(?![\d.])", lambda m: rng.choice((f"${m[0]}$", rf"\({m[0]}\)", rf"$\text{{{m[0]}}}$")), text
        )
    text = re.sub(r"\\d?frac\{(\d+)\}\{(\d+)\}", rng.choice((r"\1/\2", r"\\tfrac{\1}{\2}", r"(\1)/(\2)")), text)
    text = re.sub(r"\^\{(\d)\}", rng.choice((r"^\1", r"^{ \1 }")), text)
    text = text.replace(r"\leq", rng.choice((r"\le", "≤"))).replace(r"\cdot", rng.choice(("·", r"\times")))
    text = text.replace(r"\left(", "(").replace(r"\right)", ")").replace(r"\sqrt", rng.choice((r"\sqrt ", r"\sqrt")))
    return text.replace("$", rng.choice(("", "$", "$$"))).replace(r"^\circ", rng.choice((r"^\circ", "°", r"^{\circ}")))


def thousands(text: str, rng: random.Random) -> str:
    return re.sub(r"(?<![\d.])(\d)(\d{3})(?![\d.])", rng.choice((r"\1,\2", "\\1\u202f\\2", r"\1{,}\2")), text)


def markup(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    at = rng.randrange(len(words))
    words[at] = rng.choice(("**{}**", "<b>{}</b>", "*{}*", "<i>{}</i>")).format(words[at])
    return " ".join(words).replace(" & ", " &amp; ")


EDITS: dict[str, Edit] = {
    "as it is": lambda text, rng: text, "case": case, "spaces": spaces, "punctuation": punctuation, "latex": latex,
    "full width": full_width, "digits": other_digits, "decomposed": decomposed, "typographic": typographic,
    "thousands": thousands, "markup": markup,
}  # fmt: skip
OF_ITEMS = ("names", "a word", "number words")


def edited(made: Made, edit: str, rng: random.Random) -> Made:
    """The item with all its texts edited one way."""
    if edit == "names":
        return renamed(made, rng)
    fields, options = dict(made.fields), made.options
    if edit == "a word":
        swaps = list(SWAPS[made.language].items())
        fields = {k: replaced(t, swaps, rng) for k, t in fields.items()}
    elif edit == "number words":
        fields = {k: spelled(t, rng, made.language) for k, t in fields.items()}
    else:
        change = EDITS[edit]
        fields = {k: change(t, rng) for k, t in fields.items()}
        options = tuple(change(o, rng) for o in options)
    return Made(made.kind, made.language, fields, made.answer, made.facts, made.names, options)


def replaced(text: str, swaps: Sequence[tuple[str, str]], rng: random.Random) -> str:
    known = [(a, b) for a, b in swaps if a in text]
    return text.replace(*rng.choice(known), 1) if known else text


def asked(made: Made, rng: random.Random) -> str:
    """The item as one text; fields in another order, options in another order or under other labels."""
    if made.kind == "choice":
        stem, options = made.fields["question"], list(made.options)
        rng.shuffle(options)
        label = rng.choice(("A. ", "(A) ", "A) ", "- ", "A: "))
        lines = [label.replace("A", c) + o for c, o in zip("ABCD", options, strict=True)]
        return stem + rng.choice(("\n", "\n\n", " ")) + rng.choice(("\n", "\n")).join(lines)
    texts = list(made.fields.values())
    if rng.random() < 0.5:
        texts.reverse()
    return rng.choice(("\n\n", "\n", " ")).join(texts)


def solved(made: Made, rng: random.Random) -> str:
    gold = made.options["ABCDE".index(made.answer)] if made.kind == "choice" else made.answer
    return rng.choice(("{}", "The answer is {}.", "We work step by step and find \\boxed{{{}}}.")).format(gold)


TALK = (
    "Please solve this carefully.",
    "Think step by step, then answer.",
    "You are a helpful assistant.",
    "Sure, here it is.",
)


def opened(made: Made, rng: random.Random) -> Any:
    """A choice as an open question with the right option's text."""
    return {
        "q": made.fields["question"],
        "a": rng.choice(("{}", "It is: {}")).format(made.options["ABCDE".index(made.answer)]),
    }


def fields_of(made: Made, question: str, answer: str) -> Any:
    """The item's fields as they are, the choices as a list."""
    if made.kind != "choice":
        return {"fields": list(made.fields.values()), "label": answer}
    return {"question": made.fields["question"], "choices": list(made.options), "answer": answer}


def row(made: Made, rng: random.Random) -> Any:
    """A training row that holds the item somewhere."""
    question, answer, talk = asked(made, rng), solved(made, rng), rng.choice(TALK)
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    said = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
    shapes: tuple[Callable[[], Any], ...] = (
        lambda: {"instruction": question, "input": "", "output": answer},
        lambda: {"instruction": talk, "input": question, "output": answer},
        lambda: {"instruction": talk, "input": "", "output": f"Question: {question}\nAnswer: {answer}"},
        lambda: {"conversations": said, "system": talk},
        lambda: {"messages": [{"role": "system", "content": talk}, *turns]},
        lambda: {
            "meta": {"source": "web", "id": rng.randrange(10**6)},
            "data": {"qa": [{"q": question, "a": [answer]}]},
        },
        lambda: {"text": f"<s>[INST] {talk} {question} [/INST] {answer}</s>"},
        lambda: {"payload": json.dumps({"messages": turns}, ensure_ascii=rng.random() < 0.5)},
        lambda: {"prompt": f"{talk}\n\n{question}\n\n{talk}", "chosen": answer, "rejected": "I do not know."},
        lambda: {"answer": answer, **dict(reversed(made.fields.items()))},
        lambda: fields_of(made, question, answer),
    )
    return rng.choice(shapes)()
