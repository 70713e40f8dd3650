"""A user's file of replies, written anew as the engine reads it: any predictions can be scored like a model's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.core.files import read_lines, write_lines
from tuneloop.tools.evaluation import ItemSet, Weights

FORM = "right is JSON Lines with id and prediction, and set where there are several benchmarks"
Given = dict[tuple[str, str], object]


def from_file(name: str, file: Path, sets: Sequence[ItemSet], place: Path) -> Weights:
    """What is measured of the replies in `file`; `place`: a folder for what the engine reads. Raises SetupError."""
    given = read(file)
    target = place / f"{name}.jsonl"
    write_lines(target, chosen(file, given, sets))
    return Weights(name, target, replies=True)


def read(file: Path) -> Given:
    """Predictions by set ("" where none is named) and id. Raises SetupError."""
    try:
        return {(str(row.get("set", "")), str(row["id"])): row["prediction"] for row in read_lines(file)}
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as e:
        raise SetupError(f"replies {file}: {e!r}; {FORM}") from e


def chosen(file: Path, given: Given, sets: Sequence[ItemSet]) -> Iterator[dict[str, str]]:
    """One reply to each item. Raises SetupError naming the first that is missing."""
    for one in sets:
        for item in one.items:
            text = given.get((one.name, item.id), given.get(("", item.id)) if len(sets) == 1 else None)
            if not isinstance(text, str):
                raise SetupError(
                    f"replies {file}: none to item {item.id} of {one.name}, {len(given)} are there; {FORM}"
                )
            yield {"set": one.name, "id": item.id, "prediction": text}
