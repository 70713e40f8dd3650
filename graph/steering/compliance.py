"""Directives at work: what a config violates, and which directives are done once a recipe has followed them."""

from __future__ import annotations

from tuneloop.core.constraints import Constraint, Values, epochs_violation, same, violations
from tuneloop.core.directive import Directive, Keep, Use
from tuneloop.core.directive_log import append_row, open_directives
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.experiment import Forecast, Value
from tuneloop.core.layout import RunFolder
from tuneloop.graph.context import Context
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import Config, readable_train_config
from tuneloop.tools.config.grpo_config import GrpoConfig, is_grpo
from tuneloop.tools.config.installed import NAME, find_catalog, installed_catalog

QUOTED = 120  # characters of a directive's text in a finding


def kept_values(ctx: Context) -> Values:
    """Values that must stay as they are: the best experiment's, or the first's while there is no best."""
    names = [d.command.parameter for d in open_directives(ctx.run.directives) if isinstance(d.command, Keep)]
    journal = ctx.journal
    model = journal.best or next(iter(journal.experiments), None)
    if not names or model is None:
        return {}
    values = with_defaults(ctx, config_values(ctx.run, model.number))
    return {name: values[name] for name in names if name in values}


def config_values(run: RunFolder, number: int) -> Values:
    """The plain values of an experiment's config; {} where it has none that can be read."""
    return plain_values(readable_train_config(run.experiment(number)))


def plain_values(config: Config) -> Values:
    """Keys whose values are no lists or mappings."""
    return {key: value for key, value in config.values.items() if isinstance(value, str | int | float | bool)}


def catalog(ctx: Context) -> Catalog | None:
    """Parameters of the run's engine, else of this machine's; None where none is built: then nothing can be checked."""
    try:
        if ctx.run.setup.is_file() and ctx.run_tools.setup.versions.get(NAME):
            return installed_catalog(ctx.run_tools.engine(NAME))
        return find_catalog(ctx.settings)
    except (InvalidRequestError, InfrastructureError):
        return None


def with_defaults(ctx: Context, values: Values) -> Values:
    """The values, and the engine's defaults where nothing is written."""
    known = catalog(ctx)
    found = known.parameters.values() if known else ()
    plain = {p.name: p.default for p in found if p.literal and isinstance(p.default, str | int | float | bool)}
    return {**plain, **values}


def config_violations(ctx: Context, config: Config) -> list[str]:
    """Findings in the form of the preflight checks, each with the directive's own text and the cure."""
    directives = [d for d in open_directives(ctx.run.directives) if isinstance(d.command, Constraint)]
    grpo = is_grpo(config.values)
    if grpo:  # what LLaMA-Factory alone knows waits for an SFT
        directives = [d for d in directives if getattr(d.command, "parameter", "") in GrpoConfig.model_fields]
    if not directives:
        return []
    values = plain_values(config) if grpo else with_defaults(ctx, plain_values(config))
    return [
        f"train.yaml:{config.lines.get(v.parameter, 0)} {v.parameter}: {correction(v.parameter, v.value, v.right)}; "
        f"the user wants: {quoted(next(d for d in directives if d.command == v.constraint))}"
        for v in violations([d.command for d in directives], values, kept_values(ctx))
    ]


def check_epochs(ctx: Context, forecast: Forecast) -> None:
    """Raises RecipeError when a plan in steps passes over the built data more or less often than a directive allows."""
    directives = open_directives(ctx.run.directives)
    broken = epochs_violation([d.command for d in directives], forecast.epochs, forecast.steps)
    if broken is not None:
        bound, steps = broken
        directive = next(d for d in directives if d.command == bound)
        raise RecipeError(
            f"train.yaml: {forecast.steps} steps are {forecast.epochs:.1f} epochs of the built data; write max_steps: "
            f"{steps}; the user wants: {quoted(directive)}",
            culprit="config",
        )


def correction(name: str, value: Value | None, right: Value | None) -> str:
    """What is wrong and what would be right, as the validator reads it."""
    found = "is not written" if value is None else f"is {as_yaml(value)}"
    if right is None:
        return f"{found}; leave it out, or write another value"
    is_number = isinstance(right, int | float) and not isinstance(right, bool)
    written = as_yaml(right) if is_number and value is not None else f"{name}: {as_yaml(right)}"
    return f"{found}; write {written}"


def as_yaml(value: Value) -> str:
    """A value as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def quoted(directive: Directive) -> str:
    """The directive's own text and its number."""
    return f"{' '.join(directive.text.split())[:QUOTED]!r} (directive {directive.id})"


def complete_uses(ctx: Context) -> None:
    """Values for the next experiment are done when it was made with them; doing it again changes nothing.

    A config that was there before the directive was not made with it.
    """
    values, file = config_values(ctx.run, ctx.state.experiment), ctx.folder.config
    made = file.stat().st_mtime if file.is_file() else 0.0
    for directive in open_directives(ctx.run.directives):
        use = directive.command
        if (
            isinstance(use, Use)
            and not use.always
            and use.parameter in values
            and same(values[use.parameter], use.value)
            and directive.at.timestamp() <= made
        ):
            append_row(ctx.run.directives, directive.model_copy(update={"state": "done"}))
