"""Clauses about data: only these sources, or never those."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.core.directive import Meaning, Sources

DATA = r"(?:sources?|data ?sets?|files?|corpus|corpora|data|rows|records|examples|collection)"
ONLY = re.compile(
    r"\b(?:only|just|solely|exclusively|nothing but|nothing else|no other|restrict\w*|limit\w*|"
    r"stick (?:to|with)|confine\w*|alone|no others|purely|keep to|none but)\b|"
    r"\b(?:all|every|each)\b.*\b(?:from|in|of) (?:the )?<s\d+>"
)
BUT = re.compile(
    r"\b(?:all|everything|every|any|anything)\b.*\b(?:but|except(?: for)?|other than|apart from|besides|"
    r"excluding|minus)\b|\b(?:except(?: for)?|apart from|excluding)\b"
)
NOT = re.compile(
    r"\b(?:not|never|no|without|avoid\w*|skip|ignore|ignoring|leave out|leave|drop|exclude|excluding|"
    r"remove|omit|ban|stop (?:using|reading|training|feeding|giving)|stay away|keep away|discard|get rid of|throw out|"
    r"throw away|quit (?:using)|hands off|off limits|do away with|reject|blacklist|out|distrust|forget)\b"
)
DOING = re.compile(
    r"\b(?:use|using|train|read|take|learn|only|never|restrict|limit|stick|data|source|from|on|with)\b|^<s\d+>|<s\d+>$"
)
NAMED = re.compile(
    rf"\b(?:only|just|solely|exclusively|nothing but|restrict\w* (?:\w+ )*to|stick (?:to|with)) (?:use |"
    rf"using |train on |take |read |from |on |with |rows from |"
    rf"data from )*(?:the )?(?P<a>[\w./ -]+?) {DATA}\b|"
    rf"\b(?:not|never|without|avoid|skip|ignore|leave out|drop|exclude|stop using) (?:use |using |"
    rf"train on |read |any |anything from |touch )*(?:the )?(?P<b>[\w./ -]+?) {DATA}\b"
)
VAGUE = frozenset(
    [
        "training",
        "train",
        "same",
        "new",
        "other",
        "all",
        "any",
        "that",
        "this",
        "more",
        "own",
        "my",
        "your",
        "of",
        "good",
        "clean",
        "best",
        "first",
        "raw",
        "the",
        "bad",
        "noisy",
        "some",
        "these",
        "those",
    ]
)


# Of the words as they were said: at a beginning it counts as courtesy elsewhere.
JUST = re.compile(r"^(?:\w+[ ,]+){0,2}just\b(?!.*\b(?:too|also|as well|once|some|more)\b)")


def sources(clause: Clause, raw: str) -> tuple[Meaning, ...]:  # noqa: PLR0911 - one line a reading
    """What may be read; () when the clause is about something else. Names that nobody knows stay as they were said."""
    text = clause.text
    names = tuple(dict.fromkeys(name for found in clause.all("s") for name in found))  # type: ignore[attr-defined]
    if part := re.search(r"<(s\d+)> (?:file )?(?:from|of|in|out of) (?:the )?<(s\d+)>", text):
        whole = clause.things[part[2]]
        names = tuple(name for name in names if name not in whole or name in clause.things[part[1]])  # type: ignore[operator]
    if clause.has(r"<[pvtmk]\d+>") or not names:
        return () if names else unknown(text)
    if not DOING.search(text) and not NOT.search(text):
        return ()
    if BUT.search(text) and not re.search(r"\b(?:never|not|nothing|none|no)\b", text):
        return (Sources(never=names),)
    if re.search(
        r"\b(?:nothing (?:but|except|other than)|none but|not? (?:\w+ )*(?:anything|other|others|else)\b|"
        r"and nothing else|no other)\b",
        text,
    ):
        return (Sources(only=names),)
    mixed = re.split(r"\b(?:instead of|rather than|not|without|never)\b", text, maxsplit=1)
    if len(mixed) == 2 and "<s" in mixed[0] and "<s" in mixed[1]:
        away = names_in(clause, mixed[1])
        return (Sources(never=away, only=names_in(clause, mixed[0]) if ONLY.search(text) else ()),)
    never = NOT.search(text)
    only = ONLY.search(text) or (None if never else JUST.match(raw))
    if only and never and not re.search(r"\bonly\b", never[0]):
        return (
            (Sources(never=names),)
            if re.search(r"\bjust (?:drop|skip|ignore|leave|do not|not|exclude|remove)", text)
            else ()
        )
    if only:
        return (Sources(only=names),)
    return (
        (Sources(never=names),)
        if never
        and not re.search(r"\b(?:do|does|did) not (?:drop|skip|ignore|leave|exclude|remove|omit|forget)\b", text)
        else ()
    )


def names_in(clause: Clause, text: str) -> tuple[str, ...]:
    """Sources that a part of the clause names."""
    found = (clause.things[tag] for tag in re.findall(r"<(s\d+)>", text))
    return tuple(dict.fromkeys(name for some in found for name in some))  # type: ignore[attr-defined]


def unknown(text: str) -> tuple[Meaning, ...]:
    """`only the … source` with a name that no source has: kept as said, and refused by who knows what there is."""
    match = NAMED.search(text)
    if match is None or "<" in (match["a"] or match["b"]):
        return ()
    words = tuple(word for word in (match["a"] or match["b"]).split() if word not in VAGUE)
    if not words or len(words) > 4:
        return ()
    name = " ".join(words)
    return (Sources(only=(name,)) if match["a"] else Sources(never=(name,)),)
