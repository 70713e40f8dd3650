"""Answers a question about parameters in Markdown; every name in an answer is a parameter of the release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.comparing import Part, compare
from tuneloop.tools.params.dimensions import BY_NAME, collisions, completed
from tuneloop.tools.params.filtering import Kept, filter_parameters
from tuneloop.tools.params.kinds import Kind
from tuneloop.tools.params.lexicon import Concept
from tuneloop.tools.params.search import concepts_like, index_of
from tuneloop.tools.params.understand import Understood, templates_for, understand
from tuneloop.tools.params.wording import (
    INVERSE,
    card,
    line,
    lines,
    listed,
    off_value,
    settings,
)

MOST_FOUND, MOST_CARDS, ALSO = 12, 3, 6
EXAMPLES = (
    "Ask for example: `what is lora_rank`, `parameters for qlora with deepspeed`, `compare lora and freeze`, "
    "`how do I resume`, `which template for qwen3`."
)


@dataclass(frozen=True)
class Answer:
    """`said`: what was understood, in one line; `names`: the parameters shown, the leading ones first."""

    kind: Kind
    said: str
    names: tuple[str, ...]
    decisions: dict[str, str]
    body: str

    @property
    def text(self) -> str:
        """The whole answer."""
        return f"Understood: {self.said}\n\n{self.body}\n"


def answer(text: str, catalog: Catalog) -> Answer:
    """The answer to a question in English or Chinese; no model, no network, the same every time."""
    asked = understand(text, catalog)
    makers: dict[str, Callable[[Understood, Catalog], Part]] = {
        "list": _list,
        "describe": _describe,
        "compare": lambda asked, catalog: compare(asked, catalog) or _describe(asked, catalog),
        "advise": _advise,
        "templates": _templates,
        "search": _search,
    }
    names, body = makers[asked.kind](asked, catalog) if asked.kind in makers else ((), "")
    kind: Kind = asked.kind if body else "nothing"
    return Answer(
        kind, said(asked, kind), names, dict(asked.decisions), body or f"No parameter fits these words. {EXAMPLES}"
    )


def said(asked: Understood, kind: Kind) -> str:
    """What was understood, in one line."""
    parts: list[str] = [kind]
    if asked.decisions:
        parts.append(", ".join(f"{key} {value}" for key, value in asked.decisions.items()))
    if asked.left:
        parts.append(f"without {', '.join(dict.fromkeys(item.text for item in asked.left))}")
    if kind != "list" and asked.names:
        parts.append(listed(asked.names[:6]))
    if asked.read_as:
        parts.append(", ".join(f"{typed} read as {meant}" for typed, meant in asked.read_as.items()))
    if asked.rest:
        parts.append(
            f"words looked up: {' '.join(asked.rest)}"
            if kind == "search"
            else f"not understood: {' '.join(asked.rest)}"
        )
    return "; ".join(parts)


def _list(asked: Understood, catalog: Catalog) -> Part:
    if not asked.decisions:
        return _everything(catalog)
    away = left_names(asked)
    kept = [k for k in filter_parameters(catalog, asked.decisions) if k.parameter.name not in away]
    names = tuple(k.parameter.name for k in kept)
    assumed = [f"{k} {v}" for k, v in completed(asked.decisions).items() if k not in asked.decisions]
    head = [f"{len(kept)} of {len(catalog.parameters)} parameters matter for {_decided(asked.decisions)}."]
    head += [f"Assumed: {', '.join(assumed)}."] if assumed else []
    head += [f"The engine refuses this combination: {text}." for text in collisions(asked.decisions)]
    more = [key for i in asked.items if i.concept for key in i.concept.keys if key not in names and key not in away]
    body = "\n".join(head) + "\n\n" + grouped(kept)
    return _leading(asked, (*names, *more)), body + ("\n\n**also asked for**\n" + lines(catalog, more) if more else "")


def left_names(asked: Understood) -> frozenset[str]:
    """Parameters of what the question leaves out: all of something broad such as evaluation, else the leading one."""
    plain = {name for item in asked.left for name in item.names}
    keys = {key for i in asked.left if i.concept and i.form("broad") and not i.decisions for key in i.concept.keys}
    return frozenset(plain | keys) - set(asked.names)


def _decided(decisions: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value} ({BY_NAME[key].value(value).meaning})" for key, value in decisions.items())


def _leading(asked: Understood, names: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters that the decisions brought in come first."""
    plain = set(asked.names)
    return tuple(sorted(names, key=lambda name: name not in plain))


def grouped(kept: list[Kept]) -> str:
    """Lines under their reasons."""
    by_why: dict[str, list[str]] = {}
    for k in kept:
        by_why.setdefault(k.why, []).append(line(k.parameter))
    return "\n\n".join(f"**{why}**\n" + "\n".join(rows) for why, rows in by_why.items())


def _everything(catalog: Catalog) -> Part:
    owners: dict[str, list[str]] = {}
    for p in catalog.parameters.values():
        owners.setdefault(p.owner, []).append(p.name)
    body = [f"{len(catalog.parameters)} parameters of LLaMA-Factory {catalog.versions['llamafactory']}."]
    body += [f"**{owner}** ({len(names)}): {listed(names)}" for owner, names in owners.items()]
    return tuple(catalog.parameters), "\n\n".join(body)


def _describe(asked: Understood, catalog: Catalog) -> Part:
    leads = [name for item in asked.items for name in item.names[:1]] or list(asked.names)
    leads = list(dict.fromkeys(leads))[:MOST_CARDS]
    notes = [f"{item.text}: {item.concept.say}" for item in asked.items if item.concept]
    notes += [f"{item.choice} is a value of {item.names[0]}." for item in asked.items if item.choice]
    also = _also(asked, catalog, leads)
    parts = [card(catalog.parameters[name]) for name in leads]
    parts += [" ".join(notes)] if notes else []
    parts += ["See also:\n" + lines(catalog, also)] if also else []
    return (*leads, *also), "\n\n".join(parts)


def _also(asked: Understood, catalog: Catalog, leads: list[str]) -> tuple[str, ...]:
    """What belongs to what was asked: the concepts' other keys, then what a search finds."""
    keys = [key for item in asked.items if item.concept for key in item.concept.keys]
    found = index_of(catalog).find([word for item in asked.items for word in item.text.replace("_", " ").split()], ALSO)
    rest = [name for item in asked.items for name in item.names[1:]]
    return tuple(name for name in dict.fromkeys((*keys, *rest, *found)) if name not in leads)[:ALSO]


def _advise(asked: Understood, catalog: Catalog) -> Part:
    concepts = sorted((item.concept for item in asked.items if item.concept), key=lambda c: c.form == "broad")
    keys = {key: value for concept in concepts for key, value in concept.keys.items()}
    write = _switched(asked, concepts, catalog) or dict(keys)
    write = {key: value for key, value in write.items() if value is not None}
    body = [" ".join(dict.fromkeys(concept.say for concept in concepts))]
    body += [settings(write)] if write else []
    body += [lines(catalog, keys)]
    return tuple(keys), "\n\n".join(body)


def _switched(asked: Understood, concepts: list[Concept], catalog: Catalog) -> dict[str, Any]:
    """The leading parameters, off or on as the question says; {} where it says nothing of the kind."""
    leads = [catalog.parameters[next(iter(concept.keys))] for concept in concepts if concept.form != "problem"]
    if asked.switch == "off":
        return {p.name: off_value(p) for p in leads}
    return {p.name: False for p in leads if asked.switch == "on" and p.name.startswith(INVERSE)}


def _search(asked: Understood, catalog: Catalog) -> Part:
    index = index_of(catalog)
    words = [word for item in asked.items for word in item.text.replace("_", " ").split()] + list(asked.rest)
    strange = [word for word in asked.rest if not index.knows(word)]
    if not asked.items and (not words or len(strange) * 2 > len(words)):
        return (), ""
    keys = [key for item in asked.items if item.concept for key in item.concept.keys]
    if not asked.items:
        keys = [key for concept in concepts_like(asked.rest, catalog) for key in concept.keys]
    owned = [name for item in asked.items if item.owner for name in item.names]
    plain = [name for item in asked.items for name in item.names[:1]]
    found = index.find(words, MOST_FOUND) if not owned else []
    names = tuple(dict.fromkeys((*owned, *plain, *keys, *found)))[: max(MOST_FOUND, len(owned))]
    return names, lines(catalog, names)


def _templates(asked: Understood, catalog: Catalog) -> Part:
    like = templates_for(asked.words, catalog)
    shown = like or sorted(catalog.templates)
    head = f"{len(shown)} of {len(catalog.templates)} templates" + (" fit." if like else ".")
    note = "Write it as `template: NAME`; without one the tokenizer's own chat template is taken."
    return ("template",), f"{head} {note}\n\n{', '.join(shown)}"
