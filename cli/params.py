"""`tuneloop params`: ask about LLaMA-Factory's parameters, filter, check and compare them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from tuneloop.cli.main import ExampleGroup
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.tools.config.aliases import squash
from tuneloop.tools.config.decisions import BY_NAME, DIMENSIONS, complete_decisions, decision_conflicts, method_named

if TYPE_CHECKING:
    from tuneloop.tools.config.catalog import Catalog


EXAMPLES = """\b
Examples:
  tuneloop params ask gradient clipping
  tuneloop params ask method: lora, quantization: 4bit
  tuneloop params ask compare lora vs freeze
  tuneloop params show lora_rank
  tuneloop params list --class LoraArguments
  tuneloop params filter method=lora quantization=4bit
  tuneloop params check train.yaml --model ./my_model learning_rate=1e-4
  tuneloop params memory train.yaml --model ./my_model
  tuneloop params diff ~/LLaMA-Factory
"""
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
MODEL = "The base model, a folder, a name or a hub id"


@click.group(cls=ExampleGroup, epilog=EXAMPLES)
def command() -> None:
    """Ask about LLaMA-Factory's parameters; check a config and estimate its memory before anything runs.

    Everything is read from the release this machine has: the engine that `tuneloop engines build llamafactory` makes,
    or what LLAMA_FACTORY_PATH names. Nothing is imported or run; only a model that is named and not here is fetched.
    """


def load_catalog_here() -> Catalog:
    """The release that this machine has. Raises InvalidRequestError."""
    from tuneloop.core.settings import load_settings
    from tuneloop.tools.config.installed import find_catalog

    return find_catalog(load_settings())


def print_json(value: Any) -> None:
    """JSON on stdout."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))


@command.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--offline", is_flag=True, help="Ask no chat model, also where CHAT_MODEL is set.")
@JSON
def ask(words: tuple[str, ...], offline: bool, as_json: bool) -> None:
    """Answer a question about parameters; exit code 2 when nothing fits.

    `method: lora, quantization: 4bit` gives the parameters that the decisions need, by category. `compare A vs B` shows
    what turns each side on. Anything else is searched: at most ten parameters, best first. Where CHAT_MODEL is set, the
    model answers with the tools of the parameter server.
    """
    from tuneloop.cli.parameter_agent import ParameterAgent

    try:
        found = ParameterAgent(chat=not offline).ask(" ".join(words))
    except ToolError as e:
        raise InvalidRequestError(str(e)) from e
    if as_json:
        print_json(found)
    else:
        shown(found["answer"])
    sys.exit(2 if found["kind"] == "nothing" else 0)


def shown(text: str) -> None:
    """Markdown, rendered in a terminal."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@command.command("list")
@click.option("--class", "owner", help="Only the parameters of one class, e.g. LoraArguments.")
@JSON
def list_(owner: str | None, as_json: bool) -> None:
    """List all parameters: name, type, default, class."""
    from tuneloop.cli.params_views import parameter_facts, parameters_table
    from tuneloop.cli.terminal import table_console

    release = load_catalog_here()
    owners = sorted({p.owner for p in release.parameters.values()})
    if owner is not None and owner not in owners:
        raise InvalidRequestError(f"no class {owner!r}; right is one of {', '.join(owners)}")
    found = [p for p in release.parameters.values() if owner in (None, p.owner)]
    if as_json:
        print_json([parameter_facts(p) for p in found])
    else:
        table_console().print(parameters_table(found))


@command.command()
@click.argument("names", nargs=-1, required=True)
@JSON
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Show everything about parameters: type, default, choices, usual values, whole help, source line."""
    from tuneloop.cli.params_views import find_parameter, parameter_facts
    from tuneloop.tools.config.parameter_text import card

    found = [find_parameter(name, load_catalog_here()) for name in names]
    if as_json:
        print_json([parameter_facts(p) for p in found])
    else:
        click.echo("\n\n".join(card(p) for p in found))


@command.command("filter", epilog="\b\n" + "\n".join(f"{d.name}: {', '.join(d.names)}" for d in DIMENSIONS))
@click.argument("decisions", nargs=-1)
@JSON
def filter_(decisions: tuple[str, ...], as_json: bool) -> None:
    """Show the 30 to 70 parameters that DECISIONS need, each with its category: `method=lora quantization=4bit`.

    What is not decided takes the first value of its list below; other names are read too: `qlora zero3`.
    """
    from rich.table import Table

    from tuneloop.cli.params_views import parameter_facts
    from tuneloop.cli.terminal import table_console
    from tuneloop.tools.config.decision_filter import filter_parameters

    made = merge_decisions(decisions)
    try:
        kept, assumed = filter_parameters(load_catalog_here(), made), complete_decisions(made)
    except ToolError as e:
        raise InvalidRequestError(str(e)) from e
    if as_json:
        rows = [{**parameter_facts(k.parameter), "why": k.why, "needed": k.needed} for k in kept]
        print_json({"decisions": assumed, "refused_by_the_engine": decision_conflicts(made), "parameters": rows})
        return
    table = Table("parameter", "default", "why", box=None, padding=(0, 2, 0, 0))
    for k in kept:
        table.add_row(k.parameter.name, str(k.parameter.default), k.why)
    console = table_console()
    console.print(table)
    console.print(f"\n{len(kept)} parameters for {', '.join(f'{key} {value}' for key, value in assumed.items())}")
    for text in decision_conflicts(made):
        console.print(f"the engine refuses this combination: {text}")


def merge_decisions(texts: Sequence[str]) -> dict[str, str]:
    """Of words such as `method=lora` and `qlora`. Raises InvalidRequestError where two decide one thing differently."""
    made: dict[str, str] = {}
    for text in texts:
        for key, value in _decided(text).items():
            if squash(made.setdefault(key, value)) != squash(value):
                raise InvalidRequestError(
                    f"{key} cannot be both {made[key]} and {value}: leave one out, or say what it decides besides"
                )
    return made


def _decided(text: str) -> dict[str, str]:
    """`method=lora`, or `lora` alone; what a word decides and writes besides goes with it."""
    key, sign, value = text.partition("=")
    if sign:
        return {key: value}
    method = method_named(text)
    if method is None:
        raise InvalidRequestError(f"{text!r}: right is DECISION=VALUE with a decision of {', '.join(BY_NAME)}")
    return {next(iter(method.decisions), "method"): text, **dict(list(method.decisions.items())[1:])}


@command.command()
@click.argument("file", type=FILE)
@click.argument("overrides", nargs=-1)
@click.option("--model", help=f"{MODEL}: template, positions, LoRA targets, memory.  [default: what FILE names]")
@click.option(
    "--data-dir", type=FOLDER, help="Folder with dataset_info.json: registration, columns.  [default: FILE's]"
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="cpu, cuda, a card such as cuda:V100, or auto: what this machine has.",
)
@click.option(
    "--profile",
    type=click.Choice(["engine", "run"]),
    default="engine",
    show_default=True,
    help="run: as the loop does.",
)
@JSON
def check(
    file: Path,
    overrides: tuple[str, ...],
    model: str | None,
    data_dir: Path | None,
    device: str,
    profile: Literal["engine", "run"],
    as_json: bool,
) -> None:
    """Check FILE (YAML or JSON) with key=value OVERRIDES before anything runs; exit code 0, or 2 with an error.

    One finding a line: `train.yaml:12 lora_rank: 0 is below 1; usual 8–64`.
    """
    from tuneloop.cli.params_views import check_file, model_folder
    from tuneloop.core.formatting import printable

    findings = check_file(load_catalog_here(), file, overrides, model_folder(model), data_dir, device, profile)
    if as_json:
        print_json([{"level": f.level, "line": f.line, "key": f.key, "text": f.text} for f in findings])
    else:
        for f in findings:
            said = printable(str(f).replace("train.yaml", file.name, 1), 2000)
            click.echo(said + ("" if f.level == "error" else f" ({f.level})"))
    sys.exit(2 if any(f.level == "error" for f in findings) else 0)


@command.command()
@click.argument("file", type=FILE)
@click.argument("overrides", nargs=-1)
@click.option("--model", required=True, help=f"{MODEL}; its headers are counted.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto: what this machine has.")
@click.option("--longest", type=click.IntRange(min=1), help="Tokens of the longest record.  [default: cutoff_len]")
@JSON
def memory(file: Path, overrides: tuple[str, ...], model: str, device: str, longest: int | None, as_json: bool) -> None:
    """Estimate the memory that a training with FILE needs on one device, component by component.

    On a CPU: the resident memory of the training's process. A run's smoke run measures it.
    """
    from rich.table import Table

    from tuneloop.cli.params_views import estimate_file, model_folder
    from tuneloop.cli.terminal import table_console

    folder = model_folder(model)
    assert folder is not None, "the option is required"
    found = estimate_file(load_catalog_here(), file, overrides, folder, device, longest)
    if as_json:
        print_json({"total": found.total, "components": found.components, "unit": "bytes"})
        return
    table = Table("component", "GiB", box=None, padding=(0, 2, 0, 0))
    for name, size in (*found.components.items(), ("total", found.total)):
        table.add_row(name, f"{size / (1 << 30):.2f}")
    table_console().print(table)


@command.command()
@click.argument("one", required=False, type=click.Path(exists=True, path_type=Path))
@click.argument("other", required=False, type=click.Path(exists=True, path_type=Path))
@JSON
def diff(one: Path | None, other: Path | None, as_json: bool) -> None:
    """Compare releases or configs; exit code 0.

    Without arguments: the engine's sources with what its classes said when it was built (drift). With one path: this
    machine's release with that checkout or environment. With two: those two. Two files: what the configs set otherwise.
    """
    from tuneloop.core.settings import load_settings
    from tuneloop.tools.config.installed import catalog_at
    from tuneloop.tools.config.releases import compare_configs, compare_releases, engine_drift

    settings = load_settings()
    if one and other and one.is_file() != other.is_file():
        raise InvalidRequestError(f"{one}, {other}: right are two configs, or two checkouts or environments")
    if one is not None and one.is_file():
        if other is None:
            raise InvalidRequestError(f"{one}: a config is compared with a second one")
        found = compare_configs(load_catalog_here(), one, other)
    elif one is None:
        found = engine_drift(settings)
    else:
        first = catalog_at(one, settings) if other else load_catalog_here()
        found = compare_releases(first, catalog_at(other or one, settings))
    if as_json:
        print_json([{"name": d.name, "text": d.text} for d in found])
    else:
        click.echo("\n".join(map(str, found)) or "no difference")
