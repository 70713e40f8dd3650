"""`tuneloop engines`: build, list, verify and remove the environments that trainings and evaluations run in."""

from __future__ import annotations

import json
import sys

import click
from rich.table import Table

from tuneloop.cli.main import ExampleGroup
from tuneloop.cli.terminal import progress_bar, table_console
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import printable
from tuneloop.core.settings import load_settings
from tuneloop.tools.engines import Engine, ensure_engine, list_engines, remove_engine, verify_engine
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, USUAL
from tuneloop.tools.engines.image import engine_image

LINE = 2000  # characters: what an engine said may be in it

SHOWN = ("torch", "transformers")
EXAMPLES = """\b
Examples:
  tuneloop engines build                 those of every run, from their locks
  tuneloop engines build llamafactory --docker
  tuneloop engines list
  tuneloop engines verify opencompass
  tuneloop engines remove llamafactory
"""


@click.group(cls=ExampleGroup, epilog=EXAMPLES)
def command() -> None:
    """Build, list, verify and remove the environments that jobs run in."""


@command.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(ENGINE_BLUEPRINTS)))
@click.option("--docker", "as_image", is_flag=True, help="Make an image of each, which the docker sandbox then uses.")
@click.option("--base", default="", metavar="IMAGE", help="The image's system.  [default: made of Debian's packages]")
def build(names: tuple[str, ...], as_image: bool, base: str) -> None:
    """Make NAMES ready (without: those of every run) from the lock; or verify LLAMA_FACTORY_PATH, OPENCOMPASS_PATH."""
    settings = load_settings()
    for name in names or USUAL:
        with progress_bar(name) as say:
            engine = ensure_engine(name, settings, say)
            image = engine_image(engine, base, say) if as_image else ""
        click.echo(f"{name} {engine.version}: {engine.folder}" + (f", image {image}" if image else ""))


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout.")
def list_(as_json: bool) -> None:
    """Show the engines that are built."""
    engines = list_engines(load_settings().home)
    if as_json:
        click.echo(json.dumps([engine_row(engine) for engine in engines], indent=1))
        return
    table = Table("engine", "version", *SHOWN, "folder")
    for engine in engines:
        table.add_row(engine.name, engine.version, *(engine.packages.get(p, "") for p in SHOWN), str(engine.folder))
    table_console().print(table if engines else "none yet; `tuneloop engines build` makes them")


def engine_row(engine: Engine) -> dict[str, object]:
    """An engine for scripts."""
    plain = {"name": engine.name, "version": engine.version, "identity": engine.identity}
    return {**plain, "folder": str(engine.folder), "python": str(engine.python), "packages": dict(engine.packages)}


@command.command()
@click.argument("names", nargs=-1, type=click.Choice(tuple(ENGINE_BLUEPRINTS)))
def verify(names: tuple[str, ...]) -> None:
    """Import what jobs import, in each engine; exit code 1 when something is wrong."""
    engines = [engine for engine in list_engines(load_settings().home) if not names or engine.name in names]
    missing = set(names) - {engine.name for engine in engines}
    if missing or not engines:
        raise InvalidRequestError(
            f"not built: {', '.join(sorted(missing)) or 'any engine'}; right is `tuneloop engines build`"
        )
    bad = False
    for engine in engines:
        problems = verify_engine(engine)
        bad = bad or bool(problems)
        click.echo(f"{engine.folder.name}: {printable('; '.join(problems), LINE) or 'works'}")
    sys.exit(int(bad))


@command.command()
@click.argument("name")
def remove(name: str) -> None:
    """Delete the engines called NAME, or the one in the folder NAME; refused while a process uses one."""
    for folder in remove_engine(load_settings().home, name):
        click.echo(f"removed {folder}")
