"""`tuneloop data inspect`: what a data set holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tuneloop.cli.terminal import PlainConsole, table_console
from tuneloop.core.formatting import format_size, printable
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.raw_data.facts import ColumnFacts, FileFacts, Inspection, LengthStats, PartFacts, ReasoningFacts

if TYPE_CHECKING:
    from tuneloop.tools.raw_data.facts import Inspection


# An inspection for people: what was read, column by column, how good the reasoning is, what is broken.

MOST_FILES, MOST_COLUMNS, MOST_PARTS = 8, 40, 20
SHADES = {"high": "green", "medium-high": "green", "medium": "yellow", "low": "red", "none": "red"}


def show_inspection(found: Inspection, console: Console) -> None:
    """One panel a part, then what is wrong, then one line of sums."""
    for part in found.parts[:MOST_PARTS]:
        console.print(part_panel(part))
    if len(found.parts) > MOST_PARTS:
        console.print(f"and {len(found.parts) - MOST_PARTS} parts more; --json has them all")
    for line in fault_lines(found):
        console.print(line)
    broken = f", {found.broken:,} broken lines" if found.broken else ""
    tokens = f", tokens by {printable(found.tokenizer, 60)}" if found.tokenizer else ""
    console.print(
        f"{printable(found.name, 60)}: {found.rows:,} rows{broken}, {format_size(found.bytes)}{tokens}", markup=False
    )


def part_panel(part: PartFacts) -> Panel:
    """One part: files, columns, reasoning."""
    inner: list[RenderableType] = [files_line(part), Padding(columns_table(part), (1, 0), expand=False)]
    if part.reasoning.solution:
        inner.append(reasoning_line(part.reasoning))
    if part.suspicious:
        words = ", ".join(f"“{printable(word, 60)}”" for word in list(part.suspicious_words)[:3])
        share = f"{part.suspicious} of {part.reasoning.rows} sampled rows speak to a model: {words}"
        inner.append(Text(share, style="yellow"))
    title = Text.assemble((printable(part.name, 80), "bold"), f"  {part.rows:,} rows")
    return Panel(Group(*inner), title=title, title_align="left", border_style="dim", expand=False)


def files_line(part: PartFacts) -> Text:
    """The files in a line or a few, and how many rows are copies."""
    lines = [
        f"{printable(f.path, 80)}  {f.rows:,} rows, {format_size(f.bytes)}, {format_of_file(f)}"
        for f in part.files[:MOST_FILES]
    ]
    if len(part.files) > MOST_FILES:
        lines.append(f"and {len(part.files) - MOST_FILES} files more")
    if part.duplicates:
        about = "" if part.duplicates_exact else "about "
        lines.append(
            f"{about}{part.duplicates:,} rows ({format_percent(part.duplicates, part.rows)}) repeat an earlier one"
        )
    return Text("\n".join(lines))


def format_of_file(file: FileFacts) -> str:
    """`jsonl, gz, gb18030`."""
    return ", ".join(part for part in (file.kind, file.packing, file.encoding) if part and part != "utf-8")


def columns_table(part: PartFacts) -> Table:
    """A line a column."""
    with_tokens = any(c.tokens for c in part.columns)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("column", overflow="fold", min_width=14, max_width=40)
    table.add_column("types", overflow="fold", min_width=9, max_width=30)
    names = ["empty", "different", "characters*", *(["tokens*"] if with_tokens else []), "range"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for c in part.columns[:MOST_COLUMNS]:
        cells = [
            format_percent(c.empty, c.places),
            f"{'' if c.exact else '~'}{c.distinct:,}",
            length_cell(c.characters),
        ]
        if with_tokens:
            cells.append(length_cell(c.tokens))
        table.add_row(Text(printable(c.path, 120)), Text(column_types(c)), *cells, Text(range_cell(c)))
    left = len(part.columns) - MOST_COLUMNS + part.more_columns
    if left > 0:
        table.add_row(f"and {left} more")
    table.caption, table.caption_justify = "* median / most", "left"
    return table


def column_types(column: ColumnFacts) -> str:
    """`text`, or `text 98 %, null 2 %`."""
    whole = sum(column.kinds.values())
    if len(column.kinds) == 1:
        name = next(iter(column.kinds))
        return "numbers as text" if column.numeric_text else name
    return ", ".join(
        f"{printable(name, 20)} {format_percent(count, whole)}" for name, count in list(column.kinds.items())[:4]
    )


def length_cell(spread: LengthStats | None) -> str:
    """`12 / 80`."""
    return f"{spread.p50:,} / {spread.max:,}" if spread else ""


def range_cell(column: ColumnFacts) -> str:
    """`0 to 9`; of lists how many elements."""
    if column.items is not None:
        few, many = column.items.min, column.items.max
        return f"{few} each" if few == many else f"{few} to {many} each"
    return "" if column.low is None else f"{column.low:g} to {column.high:g}"


def reasoning_line(found: ReasoningFacts) -> Text:
    """The two words and the numbers behind them."""
    text = Text()
    text.append("reasoning quality ").append(found.baseline_quality, style=f"bold {SHADES[found.baseline_quality]}")
    text.append(f", work to polish {found.polish_difficulty}\n")
    pairs = [
        f"{found.reasoned:.0%} of rows reason in {printable(found.solution, 60)}",
        f"{found.readable:.0%} state an answer that can be read",
        f"{found.agreeing:.0%} of {found.compared} agree with {printable(found.answer, 40)}"
        if found.agreeing is not None
        else "",
        f"{found.repeated:.0%} of the questions repeat an earlier one" if found.question else "",
        f"{found.characters.p50:,} characters of reasoning (median)" if found.characters else "",
        "letters: " + ", ".join(f"{name} {share:g} %" for name, share in list(found.scripts.items())[:4]),
    ]
    return text.append("; ".join(pair for pair in pairs if pair) + f"; {found.rows:,} rows sampled", style="dim")


def fault_lines(found: Inspection) -> Iterator[Text]:
    """Broken lines, files that could not be read to their end, files without a row."""
    for file in (*(f for part in found.parts for f in part.files), *found.empty_files):
        if file.read_error:
            yield Text(f"{printable(file.path, 80)}: {printable(file.read_error)}", style="red")
        if file.broken:
            yield Text(f"{printable(file.path, 80)}: {file.broken:,} broken lines", style="yellow")
            for place in file.shown:
                yield Text(
                    f"  {printable(place.where, 100)}: {printable(place.why, 100)}: {printable(place.text, 80)}",
                    style="dim",
                )
    for file in found.empty_files:
        if not (file.read_error or file.broken):
            yield Text(f"{printable(file.path, 80)}: no rows", style="yellow")


def format_percent(count: int, whole: int) -> str:
    """`3 %`, `0.2 %`, nothing for none."""
    share = 100 * count / whole if whole else 0
    return "" if not count else f"{share:.0f} %" if share >= 1 else f"{share:.1g} %"


LONG = 20_000_000  # bytes: what is smaller is read before a bar would be seen
BROKEN = 3


@click.command()
@click.argument("name", metavar="PATH|NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
@click.option(
    "--tokenizer",
    "--model",
    "tokenizer",
    metavar="MODEL",
    help="Count tokens too, with this model's tokenizer (a sample's).  [default: none are counted]",
)
def inspect(name: str, as_json: bool, tokenizer: str | None) -> None:
    """Show what PATH (a folder or a file) or the data set NAME holds: every row is read, columns are summed.

    Rows, broken lines with their places, exact duplicates; types, empty and different values, lengths, range of every
    column; how good the reasoning is, measured. JSON, JSON Lines, CSV, TSV, text, Parquet and Arrow, packed or not.
    Exit code 3: some lines are broken, or a file could not be read to its end.
    """
    # heavy, and the group's help needs none of it
    from tuneloop.tools.hub import datasets
    from tuneloop.tools.raw_data.client import shared_reader

    settings = load_settings()
    model = tokenizer_folder(tokenizer, settings) if tokenizer else None
    root = datasets.resolve_dataset(name, settings.home, settings).root
    with progress_bar(root) as progress:
        found = shared_reader().inspect(root, "" if Path(name).exists() else name, model, progress)
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        show_inspection(found, table_console())
    sys.exit(BROKEN if is_broken(found) else 0)


def is_broken(found: Inspection) -> bool:
    """Whether a line, or a whole file, could not be read as rows."""
    files = [*(f for part in found.parts for f in part.files), *found.empty_files]
    return any(f.broken or f.read_error for f in files)


def tokenizer_folder(model: str, settings: Settings) -> Path:
    """The model's folder, fetched when it is not there yet. Raises InvalidRequestError."""
    from tuneloop.tools.hub import models

    return models.resolve_model(model, settings, lambda *_: None, unpickle=False).root


@contextmanager
def progress_bar(root: Path) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr, in a terminal, where much is to be read."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from tuneloop.core.formatting import printable
    from tuneloop.tools.raw_data.files import record_files

    console = PlainConsole(stderr=True)
    if not console.is_terminal or sum(p.stat().st_size for p in record_files(root)) < LONG:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading")

        def tell(file: str, done: int, total: int) -> None:
            progress.update(task, description=printable(file, 40), completed=done, total=total)

        yield tell
