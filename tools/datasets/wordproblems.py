"""wordproblems: raw word problems of four sources in four formats, with the defects of collected data; made, not downloaded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Dataset
from tuneloop.core.files import write_atomic, write_json, write_lines
from tuneloop.tools.embedded.messy import rows_with_key

DATASET = Dataset(
    name="wordproblems",
    description=(
        "Word problems with two to four steps of arithmetic, as collected: a textbook (CSV), replies of a model (JSON Lines), "
        "chats (JSON) and a quiz (TSV). Fields, styles and quality differ between the sources and nothing is cleaned."
    ),
    domain="math",
    licence="Apache-2.0",
)

CARD = """\
# wordproblems (raw)

Made word problems in English: two to four steps of arithmetic with whole numbers up to 60. Four sources, not cleaned and not
checked against any benchmark.

- `textbook.csv` (CSV with a header, {textbook} rows): `problem`, `worked_solution`, `grade`,
  `key` (the answer at the back of the book)
- `distilled.jsonl` (JSON Lines, {distilled} rows): `conversation` (list of `from`, `value`), `temperature`;
  a question may have several replies
- `chat.json` (one JSON object, {chat} rows under `data.threads`): `input.text`, `input.lang`, `output.text`, `likes`
- `quiz.tsv` (tab-separated with a header, {quiz} rows): `q`, `a`

Expect wrong answers, repeated questions, small talk, replies without steps, and questions that also occur elsewhere.
No row follows the answer format of a particular benchmark. Licence: Apache-2.0.
"""


def fetch(folder: Path) -> None:
    """Write the four files and their card; the same bytes every time."""
    rows: dict[str, list[dict[str, Any]]] = {"textbook": [], "distilled": [], "chat": [], "quiz": []}
    for raw in rows_with_key():
        rows[raw.source].append(raw.fields)
    write_table(folder / "textbook.csv", rows["textbook"], ",")
    write_lines(folder / "distilled.jsonl", rows["distilled"])
    write_json(folder / "chat.json", {"version": 2, "data": {"threads": rows["chat"]}})
    write_table(folder / "quiz.tsv", rows["quiz"], "\t")
    write_atomic(folder / "README.md", CARD.format(**{name: len(group) for name, group in rows.items()}))


def write_table(path: Path, rows: Iterable[dict[str, Any]], delimiter: str) -> None:
    """A table with a header line."""
    text = io.StringIO()
    rows = list(rows)
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue())
