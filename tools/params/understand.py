"""Reads a question about parameters without a model: what is wanted, of which parameters, under which decisions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.dimensions import BY_NAME
from tuneloop.tools.params.kinds import Item, Kind, Signs, kind_of
from tuneloop.tools.params.lexicon import Lexicon, Meaning, lexicon_of, longest, stem
from tuneloop.tools.params.names import closest
from tuneloop.tools.params.negation import Token, left_out

LONGEST_QUESTION = 4000
SPARING = ("list", "compare")  # kinds of answers that can leave something out
DIMENSION_WORDS = "|".join((*BY_NAME, "data strategy", "finetuning_type", "fine-tuning method", "finetuning method"))
PAIR = re.compile(rf"\b({DIMENSION_WORDS})\s*(?:[:=]|\bis\b)\s*[\"']?([a-z0-9_ -]*[a-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Understood:
    """`read_as`: misspelt words and what they were taken for; `rest`: words that mean nothing by themselves.

    `left`: items that the answer shall not hold. `switch`: whether what is asked about shall be on or off, where
    that is said.
    """

    kind: Kind
    items: tuple[Item, ...] = ()
    decisions: Mapping[str, str] = field(default_factory=dict)
    read_as: Mapping[str, str] = field(default_factory=dict)
    rest: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    left: tuple[Item, ...] = ()
    switch: Literal["on", "off", ""] = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Leading parameters in the order of the question."""
        return tuple(dict.fromkeys(name for item in self.items for name in item.names))


@dataclass(frozen=True)
class _Found:
    items: tuple[Item, ...]
    cues: frozenset[str]
    rest: tuple[str, ...]
    left: tuple[Item, ...] = ()


def understand(text: str, catalog: Catalog) -> Understood:
    """What a question asks; the same question is always read alike."""
    lexicon = lexicon_of(catalog)
    plain = in_english(text[:LONGEST_QUESTION], lexicon)
    pairs, plain = _pairs(plain, lexicon)
    words, read_as = _words(plain, lexicon, catalog)
    tokens = _tokens(words, lexicon)
    words = [word for word in words if word != ","]
    imperative = bool(words) and words[0] in lexicon.imperatives

    def read(found: _Found) -> Understood:
        decisions = dict(reversed([pair for item in found.items for pair in item.decisions])) | pairs
        model = bool(templates_for(words, catalog)) if "template" in found.cues else False
        signs = Signs(plain, found.items, found.cues, found.rest, decisions, bool(pairs), imperative, model)
        kind = kind_of(signs)
        return Understood(
            kind, found.items, decisions, read_as, found.rest, tuple(words), found.left, _switch(found.cues)
        )

    whole = _found(tokens, lexicon, frozenset())
    away = left_out(tokens)
    if away and "advise" not in whole.cues and (spared := read(_found(tokens, lexicon, away))).kind in SPARING:
        return spared
    return read(whole)


def _switch(cues: frozenset[str]) -> Literal["on", "off", ""]:
    if not cues.isdisjoint(("switched_off", "without")):
        return "off"
    return "on" if "switched_on" in cues else ""


def in_english(text: str, lexicon: Lexicon) -> str:
    """Lower case, with Chinese words put into English ones."""
    plain = unicodedata.normalize("NFKC", text).lower().replace("lora+", "loraplus").replace("w&b", "wandb")
    if plain.isascii():
        return plain
    for chinese, english in lexicon.chinese.items():
        plain = plain.replace(chinese, f" {english} ")
    return plain


def _pairs(text: str, lexicon: Lexicon) -> tuple[dict[str, str], str]:
    """Decisions written as `method: lora`, and the text without them."""
    found: dict[str, str] = {}

    def take(match: re.Match[str]) -> str:
        dimension = match[1].lower().replace(" ", "_")
        dimension = "method" if dimension not in BY_NAME else dimension
        words = [stem(word) for word in re.findall(r"[a-z0-9_]+", match[2].lower())]
        for length in range(len(words), 0, -1):
            joined = "_".join(words[:length])
            if joined in BY_NAME[dimension].names:
                found[dimension] = joined
                return " " + " ".join(words[length:]) + " "
            for meaning in lexicon.phrases.get(tuple(words[:length]), ()):
                if any(key == dimension for key, _ in meaning.decisions):
                    found.update(meaning.decisions)
                    return " " + " ".join(words[length:]) + " "
        return match[0]

    rest = PAIR.sub(take, text)
    return found, rest


def _words(text: str, lexicon: Lexicon, catalog: Catalog) -> tuple[list[str], dict[str, str]]:
    """Stemmed words, misspelt ones corrected, and which were."""
    text = re.sub(r"(?<=[a-z0-9])'s\b", "", text)
    raw = re.findall(r"[a-z0-9_.&]+|\d|,", re.sub(r"(?<!\de)[-/+]|[-/+](?!\d)", " ", text))
    words: list[str] = []
    read_as: dict[str, str] = {}
    for token in (word.strip(".") for word in raw):
        if "_" in token.strip("_"):
            name = (
                lexicon.names.get(token)
                or lexicon.names.get(stem(token))
                or _choice(token, lexicon)
                or closest(token, catalog)
            )
            if name and name != token:
                read_as[token] = name
            words += [name] if name else [stem(part) for part in token.split("_") if part]
            continue
        word = stem(token)
        if (word,) not in lexicon.phrases and (name := lexicon.joined.get(token)):
            read_as[token] = name
            words.append(name)
            continue
        if (word,) not in lexicon.phrases:
            short = word.rstrip("0123456789")
            meant = short if (short,) in lexicon.phrases and len(short) > 3 else lexicon.speller.read(word)
            if meant != word:
                read_as[token] = meant
            word = meant
        if word:
            words.append(word)
    return words, read_as


def _choice(token: str, lexicon: Lexicon) -> str | None:
    return token if (token,) in lexicon.phrases else None


def _tokens(words: list[str], lexicon: Lexicon) -> list[Token]:
    """The question cut into the longest phrases that mean something."""
    tokens: list[Token] = []
    at = 0
    while at < len(words):
        length = longest(lexicon.phrases, words, at) or 1
        text = " ".join(words[at : at + length])
        meanings = lexicon.phrases.get(tuple(words[at : at + length]), ())
        item = _item(text, meanings) if meanings else Item("")
        cues = frozenset(meaning.cue for meaning in meanings if meaning.cue)
        tokens.append(Token(text, item if item.names or item.decisions else None, cues, bool(meanings)))
        at += length
    return tokens


def _found(tokens: list[Token], lexicon: Lexicon, away: frozenset[int]) -> _Found:
    """What the phrases mean together, those that are left out set aside."""
    kept = [token for place, token in enumerate(tokens) if place not in away]
    return _Found(
        items=tuple(token.item for token in kept if token.item),
        cues=frozenset(cue for token in kept for cue in token.cues),
        rest=tuple(t.text for t in kept if not t.known and t.text not in lexicon.small and t.text != ","),
        left=tuple(token.item for place in sorted(away) if (token := tokens[place]).item),
    )


def _item(text: str, meanings: tuple[Meaning, ...]) -> Item:
    """Exact names lead, then concepts, then choices."""
    exact = [m for m in meanings if m.names and not m.concept and not m.choice]
    concepts = [m for m in meanings if m.concept]
    choices = [m for m in meanings if m.choice]
    lead = (concepts if concepts and "_" not in text else exact) or exact or concepts or choices
    return Item(
        text=text,
        names=tuple(dict.fromkeys(name for m in (*lead, *choices[:1]) for name in m.names)),
        concept=concepts[0].concept if concepts else None,
        decisions=tuple(pair for m in meanings for pair in m.decisions),
        choice=choices[0].choice if choices and not exact and not concepts else "",
        owner=any(m.cue == "owner" for m in meanings),
    )


def templates_for(words: list[str] | tuple[str, ...], catalog: Catalog) -> list[str]:
    """Templates of the model that the words name; the longest piece that fits decides."""
    about = lexicon_of(catalog).about_templates
    said = [word for word in words if word not in about]
    pieces = [(i, j) for i in range(len(said)) for j in range(i + 1, min(len(said), i + 4) + 1)]
    for i, j in sorted(pieces, key=lambda piece: (piece[0] - piece[1], piece[0])):
        if found := templates_like("".join(said[i:j]), catalog):
            return found
    return []


def templates_like(text: str, catalog: Catalog) -> list[str]:
    """Templates that a model's name suggests; the closest first."""
    said = re.sub(r"[^a-z0-9]", "", text.lower())
    if len(said) < 2 or said.isdigit():
        return []
    flat = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in catalog.templates}
    starts = [name for name, short in flat.items() if short.startswith(said)]
    inside = [name for name, short in flat.items() if len(short) > 2 and said.startswith(short) and name not in starts]
    return sorted(starts, key=lambda n: (len(n), n)) + sorted(inside, key=lambda n: (-len(n), n))
