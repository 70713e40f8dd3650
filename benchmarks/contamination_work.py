"""What the guard's figures time: `contamination_work.py make ROWS ITEMS DATA`, then `find DATA RESULT`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the planted items are those of the tests

from tests.tools.contamination.dress import EDITS, OF_ITEMS, edited, row  # noqa: E402
from tests.tools.contamination.items import Made, make, twin  # noqa: E402
from tuneloop.core.files import write_json  # noqa: E402
from tuneloop.tools.contamination.guard import Guard  # noqa: E402
from tuneloop.tools.contamination.probes import KnownItem  # noqa: E402

ALL = (*EDITS, *OF_ITEMS)


def planted(count: int, items: list[Made]) -> Iterator[dict[str, Any]]:
    """Rows, half of them with an item, the others with another one of its template."""
    rng = random.Random(71)
    fresh = iter(make(72, count, frozenset(made.facts for made in items)))
    for number in range(count):
        held = number % 2 == 0
        made = rng.choice(items) if held else twin(rng.choice(items), rng) if number % 20 == 1 else next(fresh)
        yield {"held": held, "row": row(edited(made, rng.choice(ALL), rng), rng)}


def write(count: int, items: int, data: Path) -> None:
    """Items in the first line, then a row a line."""
    known = make(73, items)
    with data.open("w") as f:
        f.write(json.dumps([[made.fields, made.answer] for made in known]) + "\n")
        f.writelines(json.dumps(line) + "\n" for line in planted(count, known))


def find(data: Path, result: Path) -> None:
    """Shares in percent of what is held and found, and of what is not held and flagged."""
    with data.open() as f:
        known = [KnownItem("b", "test", str(i), *made) for i, made in enumerate(json.loads(next(f)))]
        guard, held = Guard(known), []

        def rows() -> Iterator[Any]:
            for line in map(json.loads, f):
                held.append(line["held"])
                yield line["row"]

        hits = [hit is not None for hit in guard.find(rows())]
    both = list(zip(held, hits, strict=True))
    share = {
        kind: 100 * sum(hit for is_held, hit in both if is_held == kind) / held.count(kind) for kind in (True, False)
    }
    write_json(result, {"found": share[True], "flagged": share[False]})


if __name__ == "__main__":
    if sys.argv[1] == "make":
        write(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        find(Path(sys.argv[2]), Path(sys.argv[3]))
