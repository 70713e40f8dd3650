"""What the guard's figures time: `contamination_work.py make ROWS ITEMS DATA`, then `find DATA RESULT`."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the planted items are those of the tests

from tests.tools.contamination.dress import EDITS, edited, row  # noqa: E402
from tests.tools.contamination.families import FAMILIES, arithmetic, fits, item_text, planted  # noqa: E402
from tests.tools.contamination.items import Made, make, renamed, twin  # noqa: E402
from tuneloop.core.files import write_json  # noqa: E402
from tuneloop.tools.contamination.guard import Guard  # noqa: E402
from tuneloop.tools.contamination.probes import KnownItem  # noqa: E402

EACH = 1000  # rows of each family
PADDED = 100  # of them with thousands of words around


def timed(count: int, items: list[Made]) -> Iterator[dict[str, Any]]:
    """Rows, half of them with an item, the others with another one of its template."""
    rng = random.Random(71)
    long = [made for made in items if fits(made, "case")]
    fresh = iter(make(72, count, frozenset(made.facts for made in items)))
    for number in range(count):
        held = number % 2 == 0
        made = rng.choice(long) if held else twin(rng.choice(items), rng) if number % 20 == 1 else next(fresh)
        yield {"kind": "planted" if held else "clean", "row": row(edited(made, rng.choice(list(EDITS)), rng), rng)}


def disguised(items: list[Made]) -> Iterator[dict[str, Any]]:
    """Rows of every family; rewritten ones, which are measured only; and items with one number, name or fact changed."""
    rng = random.Random(74)
    for family, forms in FAMILIES.items():
        known = [made for made in items if fits(made, family)][: PADDED if family == "padding" else EACH]
        for number, made in enumerate(known):
            yield {"kind": family, "row": planted(forms[number % len(forms)](item_text(made), rng), made, rng)}
    for made in [made for made in items if fits(made, "case") and any(map(str.isdecimal, item_text(made)))][:EACH]:
        yield {"kind": "changed arithmetic", "row": planted(arithmetic(item_text(made), rng), made, rng)}
    for kind in ("names", "a word", "number words"):
        changed = [(made, edited(made, kind, rng)) for made in items[:EACH] if fits(made, "case")]
        for made, other in changed:
            if item_text(made) != item_text(other):
                yield {"kind": "paraphrase", "row": planted(item_text(other), made, rng)}
    known_texts = {item_text(made) for made in items}
    for made in items[: 5 * EACH]:
        for other in (twin(made, rng), *([renamed(made, rng)] if made.names else [])):
            if item_text(other) not in known_texts:
                yield {"kind": "twins", "row": planted(item_text(other), other, rng)}


def write(count: int, items: int, data: Path) -> None:
    """Items in the first line, then a row a line."""
    known = make(73, items)
    with data.open("w") as f:
        f.write(json.dumps([[made.fields, made.answer] for made in known]) + "\n")
        f.writelines(json.dumps(line) + "\n" for line in timed(count, known))
    with data.with_suffix(".families").open("w") as f:
        f.writelines(json.dumps(line) + "\n" for line in disguised(known))


def find(data: Path, rows: Path, result: Path) -> None:
    """Shares in percent of the rows of each kind that are flagged."""
    with data.open() as f:
        guard = Guard([KnownItem("b", "test", str(i), *made) for i, made in enumerate(json.loads(next(f)))])
    flagged, whole = Counter[str](), Counter[str]()
    with rows.open() as f:
        if rows == data:
            next(f)
        kinds: list[str] = []

        def read() -> Iterator[Any]:
            for line in map(json.loads, f):
                kinds.append(line["kind"])
                yield line["row"]

        hits = [hit is not None for hit in guard.find(read())]
    for kind, hit in zip(kinds, hits, strict=True):
        whole[kind] += 1
        flagged[kind] += hit
    write_json(result, {kind: 100 * flagged[kind] / whole[kind] for kind in whole})


if __name__ == "__main__":
    if sys.argv[1] == "make":
        write(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        find(*map(Path, sys.argv[2:5]))
