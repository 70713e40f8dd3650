"""An inspection for people: what was read, column by column, how good the reasoning is, what is broken."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tuneloop.core.wording import clean, size
from tuneloop.tools.inspecting.facts import ColumnFacts, FileFacts, Inspection, PartFacts, ReasoningFacts, Spread

MOST_FILES, MOST_COLUMNS, MOST_PARTS = 8, 40, 20
SHADES = {"high": "green", "medium-high": "green", "medium": "yellow", "low": "red", "none": "red"}


def show(found: Inspection, console: Console) -> None:
    """One panel a part, then what is wrong, then one line of sums."""
    for part in found.parts[:MOST_PARTS]:
        console.print(panel(part))
    if len(found.parts) > MOST_PARTS:
        console.print(f"and {len(found.parts) - MOST_PARTS} parts more; --json has them all")
    for line in faults(found):
        console.print(line)
    broken = f", {found.broken:,} broken lines" if found.broken else ""
    tokens = f", tokens by {clean(found.tokenizer, 60)}" if found.tokenizer else ""
    console.print(f"{clean(found.name, 60)}: {found.rows:,} rows{broken}, {size(found.bytes)}{tokens}", markup=False)


def panel(part: PartFacts) -> Panel:
    """One part: files, columns, reasoning."""
    inner: list[RenderableType] = [files(part), Padding(columns(part), (1, 0))]
    if part.reasoning.solution:
        inner.append(reasoning(part.reasoning))
    if part.suspicious:
        words = ", ".join(f"“{clean(word, 60)}”" for word in list(part.suspicious_words)[:3])
        share = f"{part.suspicious} of {part.reasoning.rows} sampled rows speak to a model: {words}"
        inner.append(Text(share, style="yellow"))
    title = Text.assemble((clean(part.name, 80), "bold"), f"  {part.rows:,} rows")
    return Panel(Group(*inner), title=title, title_align="left", border_style="dim")


def files(part: PartFacts) -> Text:
    """The files in a line or a few, and how many rows are copies."""
    lines = [f"{clean(f.path, 80)}  {f.rows:,} rows, {size(f.bytes)}, {form(f)}" for f in part.files[:MOST_FILES]]
    if len(part.files) > MOST_FILES:
        lines.append(f"and {len(part.files) - MOST_FILES} files more")
    if part.duplicates:
        about = "" if part.duplicates_exact else "about "
        lines.append(f"{about}{part.duplicates:,} rows ({percent(part.duplicates, part.rows)}) repeat an earlier one")
    return Text("\n".join(lines))


def form(file: FileFacts) -> str:
    """`jsonl, gz, gb18030`."""
    return ", ".join(part for part in (file.kind, file.packing, file.encoding) if part and part != "utf-8")


def columns(part: PartFacts) -> Table:
    """A line a column."""
    with_tokens = any(c.tokens for c in part.columns)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("column", overflow="fold", min_width=14, max_width=40)
    table.add_column("types", overflow="fold", min_width=9, max_width=30)
    names = ["empty", "different", "characters*", *(["tokens*"] if with_tokens else []), "range"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for c in part.columns[:MOST_COLUMNS]:
        cells = [percent(c.empty, c.places), f"{'' if c.exact else '~'}{c.distinct:,}", lengths(c.characters)]
        if with_tokens:
            cells.append(lengths(c.tokens))
        table.add_row(Text(clean(c.path, 120)), Text(types(c)), *cells, Text(span(c)))
    left = len(part.columns) - MOST_COLUMNS + part.more_columns
    if left > 0:
        table.add_row(f"and {left} more")
    table.caption, table.caption_justify = "* median / most", "left"
    return table


def types(column: ColumnFacts) -> str:
    """`text`, or `text 98 %, null 2 %`."""
    whole = sum(column.kinds.values())
    if len(column.kinds) == 1:
        name = next(iter(column.kinds))
        return "numbers as text" if column.numeric_text else name
    return ", ".join(f"{clean(name, 20)} {percent(count, whole)}" for name, count in list(column.kinds.items())[:4])


def lengths(spread: Spread | None) -> str:
    """`12 / 80`."""
    return f"{spread.p50:,} / {spread.max:,}" if spread else ""


def span(column: ColumnFacts) -> str:
    """`0 to 9`; of lists how many elements."""
    if column.items is not None:
        few, many = column.items.min, column.items.max
        return f"{few} each" if few == many else f"{few} to {many} each"
    return "" if column.low is None else f"{column.low:g} to {column.high:g}"


def reasoning(found: ReasoningFacts) -> Text:
    """The two words and the numbers behind them."""
    text = Text()
    text.append("reasoning quality ").append(found.baseline_quality, style=f"bold {SHADES[found.baseline_quality]}")
    text.append(f", work to polish {found.polish_difficulty}\n")
    pairs = [
        f"{found.reasoned:.0%} of rows reason in {clean(found.solution, 60)}",
        f"{found.readable:.0%} state an answer that can be read",
        f"{found.agreeing:.0%} of {found.compared} agree with {clean(found.answer, 40)}"
        if found.agreeing is not None
        else "",
        f"{found.repeated:.0%} of the questions repeat an earlier one" if found.question else "",
        f"{found.characters.p50:,} characters of reasoning (median)" if found.characters else "",
        "letters: " + ", ".join(f"{name} {share:g} %" for name, share in list(found.scripts.items())[:4]),
    ]
    return text.append("; ".join(pair for pair in pairs if pair) + f"; {found.rows:,} rows sampled", style="dim")


def faults(found: Inspection) -> Iterator[Text]:
    """Broken lines, files that could not be read to their end, files without a row."""
    for file in (*(f for part in found.parts for f in part.files), *found.empty_files):
        if file.trouble:
            yield Text(f"{clean(file.path, 80)}: {clean(file.trouble)}", style="red")
        if file.broken:
            yield Text(f"{clean(file.path, 80)}: {file.broken:,} broken lines", style="yellow")
            for place in file.shown:
                yield Text(
                    f"  {clean(place.where, 100)}: {clean(place.why, 100)}: {clean(place.text, 80)}", style="dim"
                )
    for file in found.empty_files:
        if not (file.trouble or file.broken):
            yield Text(f"{clean(file.path, 80)}: no rows", style="yellow")


def percent(count: int, whole: int) -> str:
    """`3 %`, `0.2 %`, nothing for none."""
    share = 100 * count / whole if whole else 0
    return "" if not count else f"{share:.0f} %" if share >= 1 else f"{share:.1g} %"
