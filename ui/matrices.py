"""What the pages of `tuneloop matrix` show: result trees below `results/` of the home, their reports, and items with replies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_model
from tuneloop.core.formatting import format_interval
from tuneloop.core.layout import Home
from tuneloop.tools.matrix.evaluation import RESULTS, SUMMARY, Sample, Summary
from tuneloop.tools.matrix.experiments import ResultTree
from tuneloop.tools.matrix.report import CHANGES, PAGE, Change
from tuneloop.ui.views import SHOWN_ITEMS, check_inside, markdown_html, shown_text

LARGEST_CELL = 1 << 26  # bytes of one cell's items


def matrices_page(home: Home) -> dict[str, Any]:
    """All result trees, the newest first."""
    return {"trees": [(tree.root.name, tree_state(tree)) for tree in all_trees(home)], "results": home.results}


def all_trees(home: Home) -> list[ResultTree]:
    """Folders with evaluations, without links: one that was put there could lead anywhere."""
    results = Path(os.path.realpath(home.root)) / home.results.name
    found = [place for place in results.glob("*/eval") if place.is_dir() and Path(os.path.realpath(place)) == place]
    return [ResultTree(place.parent) for place in sorted(found, key=lambda place: place.stat().st_mtime, reverse=True)]


def tree_state(tree: ResultTree) -> str:
    """What there is of it."""
    cells = sum(1 for _ in cell_folders(tree))
    return f"{cells} evaluations, {'with' if (tree.report / PAGE).is_file() else 'no'} report"


def find_tree(home: Home, name: str) -> ResultTree:
    """Raises InvalidRequestError when there is none of the name."""
    found = {tree.root.name: tree for tree in all_trees(home)}
    if name not in found:
        raise InvalidRequestError(f"no matrix {name!r} in {home.results}")
    return found[name]


def matrix_page(home: Home, name: str) -> dict[str, Any]:
    """The report, and every pair's items that change sides; before it is written the cells that are there."""
    tree = find_tree(home, name)
    changes = tree.report / CHANGES
    check_inside(tree.root, changes)
    return {
        "task": name,
        "html": markdown_html(shown_text(tree.root, tree.report / PAGE)),
        "cells": [(folder.name, score_text(tree, folder)) for folder in cell_folders(tree)],
        "changes": read_model(changes, list[Change]) if changes.is_file() else [],
        "shown": SHOWN_ITEMS,
    }


def cell_folders(tree: ResultTree) -> Iterator[Path]:
    """Evaluations that are over, by name."""
    return (file.parent for file in sorted((tree.root / "eval").glob(f"*/{SUMMARY}")))


def score_text(tree: ResultTree, folder: Path) -> str:
    """A cell's accuracy with its interval; a damaged one says so."""
    try:
        check_inside(tree.root, folder / SUMMARY)
        found = read_model(folder / SUMMARY, Summary)
    except (InvalidRequestError, OSError) as error:
        return str(error)
    return f"{format_interval(found.accuracy, found.low, found.high)} of {found.n} items"


def item_page(home: Home, name: str, item: str) -> dict[str, Any]:
    """What each cell said to one item. Raises InvalidRequestError where no cell has it."""
    tree = find_tree(home, name)
    replies = [(folder.name, sample) for folder in cell_folders(tree) if (sample := reply(tree, folder, item))]
    if not replies:
        raise InvalidRequestError(f"matrix {name!r} has no item {item[:80]!r}")
    prompts = dict.fromkeys(sample.prompt for _, sample in replies)
    return {"task": name, "item": item, "gold": replies[0][1].gold, "prompts": list(prompts), "replies": replies}


def reply(tree: ResultTree, folder: Path, item: str) -> Sample | None:
    """One cell's; None where it was not asked. Raises InvalidRequestError for a damaged cell."""
    check_inside(tree.root, folder / RESULTS)
    if not (folder / RESULTS).is_file():
        return None
    return next((one for one in read_model(folder / RESULTS, list[Sample], LARGEST_CELL) if one.id == item), None)
