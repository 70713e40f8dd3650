"""The tools of server `data` that read rows of a run's data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.mcp_servers.injection_marking import mark_answer
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Count, Offset
from tuneloop.tools.contamination.probes import matched_piece
from tuneloop.tools.raw_data.cache import dataset_view
from tuneloop.tools.raw_data.client import shared_reader
from tuneloop.tools.raw_data.files import record_files

Dataset = Annotated[str, Field(max_length=1000, description="data set name, as data_list_datasets gives it")]
File = Annotated[str, Field(max_length=4096, description="one of the data set's files, as data_list_datasets gives it")]
AnyFile = Annotated[str, Field(max_length=4096, description="one of the data set's files; empty: all of them")]
Column = Annotated[
    str,
    Field(
        max_length=500,
        description="path of a column, as data_inspect_dataset gives it: answer, meta.source, turns[].value",
    ),
]
AnyColumn = Annotated[str, Field(max_length=500, description="path of a column; empty: the whole row")]
Wanted = Annotated[str, Field(min_length=1, max_length=500, description="words to look for, in any case; no pattern")]
LONG, MEDIUM, BRIEF = 2000, 1000, 300  # characters of a text in an answer


class RowTools:
    """What reads rows, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def sample_rows(self, dataset: Dataset, path: File, count: Count = 5, offset: Offset = 0) -> dict[str, Any]:
        """Show rows (examples) of one file of a data set, the first ten or from `offset` on, with their lines.

        Rows that hold items of the sealed test or of the validation half that is not shown are not in the data set.
        Texts beyond 2,000 are cut.
        """
        file = self._file(dataset, path)
        found, trouble = shared_reader().sample(self.root(dataset), file, offset, count, LONG)
        rows = [{"where": f"{path}:{line}", "row": row} for line, row in found]
        return mark_answer({"rows": rows, "trouble": trouble})

    def column_stats(self, dataset: Dataset, column: Column, path: AnyFile = "", count: Count = 10) -> dict[str, Any]:
        """Statistics of one column: types, empty and different values, lengths, range, how often the top values occur."""
        found = shared_reader().column(self.root(dataset), self._files(dataset, path), column, count)
        if found is None:
            raise ToolError(
                f"no row of {path or dataset} has {column!r}; data_inspect_dataset names the columns there are"
            )
        facts, values, counted = found
        top = [{"value": value, "count": number} for value, number in values]
        return mark_answer({**facts.model_dump(mode="json"), "top": top, "top_exact": counted})

    def search_rows(
        self,
        dataset: Dataset,
        text: Wanted,
        path: AnyFile = "",
        column: AnyColumn = "",
        count: Count = 5,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Search the raw data: find (look for) rows that contain a text or word, in one column or anywhere; how many, a page."""
        files, asked = self._files(dataset, path), {"text": text, "column": column, "longest": MEDIUM}
        return mark_answer(shared_reader().search(self.root(dataset), files, offset=offset, count=count, **asked))

    def find_duplicates(
        self, dataset: Dataset, path: AnyFile = "", column: AnyColumn = "", count: Count = 5, offset: Offset = 0
    ) -> dict[str, Any]:
        """Find duplicate rows, there twice or more: equal, or by one column (say the question) but for case and spacing.

        `repeated` rows come after an equal one, `near` are nearly like an earlier one beside that (same numbers, seven eighths
        of the words). The groups are paged, the largest first. At most 200,000 rows are compared; `whole`: that was all.
        """
        files, asked = self._files(dataset, path), {"column": column, "longest": BRIEF}
        return mark_answer(shared_reader().duplicates(self.root(dataset), files, offset=offset, count=count, **asked))

    def check_overlap(self, dataset: Dataset, count: Count = 5, offset: Offset = 0) -> dict[str, Any]:
        """Is raw data contaminated, does it overlap with the benchmark? Rows that leak its items: validation shown, test counted.

        Rows with validation items are dropped after the script and counted, unless the run refuses them; `piece` is the longest
        run of words that row and item share. The others, also those with `unseen` validation items, were removed from the
        data set before anything of this run read it.
        """
        self.root(dataset)
        view = dataset_view(self.scope.run_tools().setup, dataset)
        if view is None:
            raise ToolError(f"the run was prepared without looking for overlaps in {dataset}")
        overlaps = {"validation": view.validation_rows, "unseen": 0, "test": 0, **view.removed}
        shown = [
            {**hit.model_dump(mode="json"), "piece": matched_piece(hit.row, self._item_text(hit.benchmark, hit.item))}
            for hit in view.validation[offset : offset + count]
        ]
        return mark_answer({"rows": view.rows, "overlaps": overlaps, "validation": shown})

    def _item_text(self, benchmark: str, number: str) -> str:
        """What a shown validation item asks."""
        run_tools = self.scope.run_tools()
        folder = next(folder for folder in run_tools.benchmarks if folder.benchmark.name == benchmark)
        shown = run_tools.validation(folder).shown
        return next(("\n".join(item.fields.values()) for item in shown if str(item.id) == number), "")

    def _files(self, dataset: str, path: str) -> dict[str, Path]:
        """All files of a data set, or the one named."""
        return {path: self._file(dataset, path)} if path else files_by_name(self.root(dataset))

    def _file(self, dataset: str, path: str) -> Path:
        by_name = files_by_name(self.root(dataset))
        if path not in by_name:
            some = ", ".join(list(by_name)[:20])
            raise ToolError(f"{dataset} has no file {path!r}; it has {some}")
        return by_name[path]

    def root(self, dataset: str) -> Path:
        """Where a data set of this run lies. Raises ToolError naming those there are."""
        datasets = self.scope.run_tools().setup.datasets
        if dataset not in datasets:
            raise ToolError(f"no data set {dataset!r} in this run; there are {', '.join(datasets)}")
        return datasets[dataset]


def files_by_name(root: Path) -> dict[str, Path]:
    """Files with records, by the path that scripts and tools call them."""
    return {str(p.relative_to(root)) if p != root else p.name: p for p in record_files(root)}
