"""`tuneloop clean`: show what may go from the disk, ask, remove it."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from tuneloop.cli.select_run import select_run
from tuneloop.cli.terminal import cell_text, table_console
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import format_size
from tuneloop.core.lease import hold_lease
from tuneloop.core.run_spec import parse_seconds
from tuneloop.core.settings import load_settings
from tuneloop.tools.housekeeping.cleanup import find_removables
from tuneloop.tools.housekeeping.removable import KINDS, CleanupRequest, Removable, remove_found
from tuneloop.tools.runs.journal import load_journal

EXAMPLES = """\b
Examples:
  tuneloop clean                          look, then decide
  tuneloop clean my-run --dry-run         of one run, only look
  tuneloop clean --only caches --yes      for scripts
  tuneloop clean --runs 30d --engines     also whole runs and evaluations untouched for 30 days, unused engines

\b
Kinds: leftovers (begun and never finished), caches, scratch (of what is over), models (neither best nor last), and only
when asked for: runs, evaluations (of `tuneloop eval` and `matrix`), engines. Recipes, data, logs and scores go only with a whole
run or evaluation; sealed splits never.
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--only", multiple=True, type=click.Choice(KINDS), help="This kind only; repeat it for more.  [default: all]"
)
@click.option(
    "--runs", "older", metavar="TIME", help="Also whole runs and evaluations not worked on for TIME: 12h, 30d."
)
@click.option("--engines", is_flag=True, help="Also engines that neither this release nor an unfinished run uses.")
@click.option("--dry-run", is_flag=True, help="Show, remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list; removes only with --yes.")
def command(
    run_id: str | None, only: tuple[str, ...], older: str | None, engines: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Show what may go of RUN (of everything): what, where, size, why; then ask and remove it."""
    home = load_settings().home
    run = select_run(home, run_id) if run_id else None
    wanted = CleanupRequest(run=run, older=parse_age(older), engines=engines)
    found = [find for find in find_removables(home, wanted, load_journal) if not only or find.kind in only]
    sizes = [find.bytes for find in found]
    if as_json:
        click.echo(json.dumps([finding_row(f, s) for f, s in zip(found, sizes, strict=True)], indent=1))
    else:
        show_findings(found, sizes)
    if not found or dry_run or not (yes or (not as_json and click.confirm(f"Remove {format_size(sum(sizes))}?"))):
        return
    with hold_lease(home.root):
        freed = [remove_found(find) for find in found]
    kept = sum(not f and bool(s) for f, s in zip(freed, sizes, strict=True))
    note = f"; {kept} kept, in use" if kept else ""
    click.echo(f"removed {format_size(sum(freed))}{note}", err=as_json)


def parse_age(text: str | None) -> float | None:
    """Seconds. Raises InvalidRequestError: an unlimited age would mean every run."""
    if text is None:
        return None
    try:
        found = parse_seconds(text)
    except ValueError as e:
        raise InvalidRequestError(f"--runs: {e}") from e
    if not isinstance(found, float):
        raise InvalidRequestError(
            f"--runs {text}: name an age, e.g. 30d; one run goes with `tuneloop clean RUN --runs 1s`"
        )
    return found


def finding_row(find: Removable, count: int) -> dict[str, Any]:
    """A find for scripts."""
    paths = [str(path) for path in find.paths]
    return {"kind": find.kind, "what": find.what, "bytes": count, "why": find.why, "paths": paths}


def show_findings(found: list[Removable], sizes: list[int]) -> None:
    """The finds as a table, the largest first, and the total."""
    if not found:
        click.echo("nothing may go: no leftovers, caches, scratch or losing models")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("kind", "what", "size", "why"):
        table.add_column(name, justify="right" if name == "size" else "left", no_wrap=name in ("kind", "size"))
    for find, count in sorted(zip(found, sizes, strict=True), key=lambda pair: -pair[1]):
        table.add_row(find.kind, Text(cell_text(find.what)), format_size(count), Text(cell_text(find.why)))
    console = table_console()
    console.print(table)
    console.print(f"{format_size(sum(sizes))} in {len(found)} places")
