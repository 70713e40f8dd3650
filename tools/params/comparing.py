"""The answer to a question that compares: methods and other decisions by what is their own, parameters by their cards."""

from __future__ import annotations

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.dimensions import BY_NAME
from tuneloop.tools.params.filtering import filter_parameters
from tuneloop.tools.params.kinds import Item
from tuneloop.tools.params.methods import compare_methods
from tuneloop.tools.params.understand import Understood
from tuneloop.tools.params.wording import as_yaml, card, lines, listed, plain_default

Part = tuple[tuple[str, ...], str]  # names shown, the leading ones first, and the text


def compare(asked: Understood, catalog: Catalog) -> Part | None:
    """The sides one after the other; None where there is one side only."""
    sides = list({item.text: item for item in asked.items if item.names or item.decisions}.values())[:4]
    if all(side.decisions for side in sides) and len({side.decisions for side in sides}) > 1:
        return _compare_decisions(sides, catalog)
    names = tuple(dict.fromkeys(name for side in sides for name in side.names[:1]))
    if len(names) < 2 and len({side.choice for side in sides}) < 2 and not any(side.decisions for side in sides):
        return None
    parts = [_side(side, catalog) for side in sides]
    return names, "\n\n".join(parts)


def _side(side: Item, catalog: Catalog) -> str:
    """One side that is a parameter, a value of one, or a decision."""
    notes = [f"**{side.text}**"]
    if side.choice:
        notes.append(f"a value of `{side.names[0]}`: `{side.names[0]}: {as_yaml(side.choice)}`.")
    elif side.decisions and (not side.concept or not side.names):
        notes.append("; ".join(f"{key} {value}: {BY_NAME[key].value(value).meaning}" for key, value in side.decisions))
        return "\n".join(notes)
    if side.concept:
        notes.append(side.concept.say)
    return "\n".join(notes) + "\n" + card(catalog.parameters[side.names[0]])


def _compare_decisions(sides: list[Item], catalog: Catalog) -> Part:
    pairs = [side.decisions[0] for side in sides]
    if any(len(side.decisions) > 1 for side in sides) or len(set(pairs)) < 2:
        return _compare_sets(sides, catalog)
    found = compare_methods(catalog, pairs)
    parts = [
        f"**{side.value}** ({side.dimension}): {side.meaning}. Its own parameters:\n"
        + (lines(catalog, side.own) or "- none")
        for side in found.sides
    ]
    parts.append(f"Shared: {listed(found.shared)}")
    defaults = [f"{name} {plain_default(catalog.parameters[name])}" for side in found.sides for name in side.own[:1]]
    parts += [f"Defaults: {', '.join(defaults)}"] if defaults else []
    return tuple(dict.fromkeys(name for side in found.sides for name in side.own)), "\n\n".join(parts)


def _compare_sets(sides: list[Item], catalog: Catalog) -> Part:
    """Sides that stand for several decisions, such as qlora."""
    kept = [
        {k.parameter.name: k for k in filter_parameters(catalog, dict(side.decisions)) if k.needed} for side in sides
    ]
    parts, names = [], []
    for side, mine in zip(sides, kept, strict=True):
        own = [name for name in mine if any(name not in other for other in kept)]
        meaning = "; ".join(f"{key} {value}: {BY_NAME[key].value(value).meaning}" for key, value in side.decisions)
        parts.append(f"**{side.text}** ({meaning}). Not shared by all:\n" + (lines(catalog, own) or "- none"))
        names += own
    return tuple(dict.fromkeys(names)), "\n\n".join(parts)
