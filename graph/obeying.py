"""The user's wishes at work: what a config breaks, and which wishes are over when it was used."""

from __future__ import annotations

import re

from tuneloop.core.directive import Directive, Keep, Use
from tuneloop.core.directive_log import open_directives, write_down
from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.experiment import Value
from tuneloop.core.layout import RunFolder
from tuneloop.core.obedience import Values, breaches, same
from tuneloop.graph.context import Context
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.config_text import ConfigError, parse_config
from tuneloop.tools.params.installed import NAME, find_catalog, installed_catalog
from tuneloop.tools.runs.journal import load_journal

QUOTED = 120  # letters of the user's words that a finding repeats


def kept(ctx: Context) -> Values:
    """Values that shall stay as they are: the best experiment's, or the first's while there is no best."""
    names = [d.wish.parameter for d in open_directives(ctx.run.directives) if isinstance(d.wish, Keep)]
    journal = load_journal(ctx.run)
    model = journal.best or next(iter(journal.experiments), None)
    if not names or model is None:
        return {}
    values = with_defaults(ctx, written(ctx.run, model.number))
    return {name: values[name] for name in names if name in values}


def written(run: RunFolder, number: int) -> Values:
    """The plain values of an experiment's config; {} where it has none that can be read."""
    file = run.experiment(number).config
    return plain_values(file.read_text(encoding="utf-8")) if file.is_file() else {}


def plain_values(text: str) -> Values:
    """Keys with plain values."""
    try:
        values = parse_config(text).values
    except ConfigError:
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str | int | float | bool)}


def catalog(ctx: Context) -> Catalog | None:
    """Of the run's engine, else of this machine's; None where none is built: then nothing is held against a wish."""
    try:
        if ctx.run.setup.is_file() and ctx.bench.setup.versions.get(NAME):
            return installed_catalog(ctx.bench.engine(NAME))
        return find_catalog(ctx.settings)
    except (SetupError, WorldError):
        return None


def with_defaults(ctx: Context, values: Values) -> Values:
    """With what the engine takes where nothing is written."""
    known = catalog(ctx)
    found = known.parameters.values() if known else ()
    plain = {p.name: p.default for p in found if p.literal and isinstance(p.default, str | int | float | bool)}
    return {**plain, **values}


def broken(ctx: Context, text: str) -> list[str]:
    """Findings in the words of the ladder, each with the directive's own words and its cure."""
    directives = open_directives(ctx.run.directives)
    if not any(hasattr(d.wish, "parameter") for d in directives):
        return []
    values = with_defaults(ctx, plain_values(text))
    found = breaches([d.wish for d in directives], values, kept(ctx))
    lines = {match[1]: n for n, line in enumerate(text.splitlines(), 1) if (match := re.match(r"(\w+)\s*:", line))}
    said = [(breach, next(d for d in directives if d.wish == breach.wish)) for breach in found]
    return [
        f"train.yaml:{lines.get(b.parameter, 0)} {b.parameter}: {complaint(b.parameter, b.value, b.right)}; "
        f"the user wants: {quoted(d)}"
        for b, d in said
    ]


def complaint(name: str, value: Value | None, right: Value | None) -> str:
    """What is wrong and what would be right, as the validator reads it."""
    is_ = "is not written" if value is None else f"is {plainly(value)}"
    if right is None:
        return f"{is_}; leave it out, or write another value"
    number = isinstance(right, int | float) and not isinstance(right, bool)
    return (
        f"{is_}; write {plainly(right)}" if number and value is not None else f"{is_}; write {name}: {plainly(right)}"
    )


def plainly(value: Value) -> str:
    """As YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def quoted(directive: Directive) -> str:
    """The user's own words, where they are, by number."""
    return f"{' '.join(directive.said.split())[:QUOTED]!r} (directive {directive.id})"


def settle_uses(ctx: Context) -> None:
    """Wishes for the next experiment are over when one was made with them; doing it again changes nothing."""
    values = written(ctx.run, ctx.state.experiment)
    for directive in open_directives(ctx.run.directives):
        wish = directive.wish
        if (
            isinstance(wish, Use)
            and not wish.always
            and wish.parameter in values
            and same(values[wish.parameter], wish.value)
        ):
            write_down(ctx.run.directives, directive.model_copy(update={"state": "done"}))
