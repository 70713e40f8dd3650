"""The tools of server `data` that read rows of a run's data sets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.mcp_servers.injection_marking import mark_answer
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Count, Offset
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.sealed_filter import find_sealed, withheld_notice
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.raw_data.files import record_files
from tuneloop.tools.raw_data.reader import RawFile
from tuneloop.tools.raw_data.row_queries import column_values, find_duplicates, find_overlaps, rows_at, search_rows
from tuneloop.tools.raw_data.sample import bound_value

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

        Rows that hold items of the sealed test or of the validation half that is not shown are `omitted`, here and
        everywhere: their number is told. Texts beyond 2,000 are cut.
        """
        file = RawFile(self._file(dataset, path))
        pairs = (pair for numbers, rows in file.batches() for pair in zip(numbers, rows, strict=True))
        chosen = list(itertools.islice(pairs, offset, offset + count))
        rows = [{"where": f"{path}:{number}", "row": bound_value(row, LONG)} for number, row in chosen]
        return mark_answer({**self._open_rows(rows, [row for _, row in chosen]), "trouble": file.read_error})

    def column_stats(self, dataset: Dataset, column: Column, path: AnyFile = "", count: Count = 10) -> dict[str, Any]:
        """Statistics of one column: types, empty and different values, lengths, range, how often the top values occur."""
        found = column_values(self._files(dataset, path), column, count, self._guard())
        if found is None:
            raise ToolError(
                f"no row of {path or dataset} has {column!r}; data_inspect_dataset names the columns there are"
            )
        held = withheld_notice(found.omitted, "values")
        top = [{"value": value, "count": number} for value, number in found.top]
        return mark_answer({**found.facts.model_dump(mode="json"), "top": top, "top_exact": found.counted, **held})

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
        hits, total = search_rows(self._files(dataset, path), text, column, offset, count)
        rows = [
            {"where": hit.where, "path": hit.path, "around": hit.around, "row": bound_value(hit.row, MEDIUM)}
            for hit in hits
        ]
        return mark_answer({"found": total, **self._open_rows(rows, [hit.row for hit in hits])})

    def find_duplicates(
        self, dataset: Dataset, path: AnyFile = "", column: AnyColumn = "", count: Count = 5, offset: Offset = 0
    ) -> dict[str, Any]:
        """Find duplicate rows, there twice or more: equal, or by one column (say the question) but for case and spacing.

        `repeated` rows come after an equal one, `near` are nearly like an earlier one beside that (same numbers, seven eighths
        of the words). The groups are paged, the largest first. At most 200,000 rows are compared; `whole`: that was all.
        """
        files = self._files(dataset, path)
        found = find_duplicates(files, column)
        page = found.repeats[offset : offset + count]
        held = rows_at(files, {where for group in page for where in group.where})
        flags = [all(find_sealed(self._guard(), [held[where] for where in group.where])) for group in page]
        groups = [
            {"rows": r.count, "where": list(r.where), "shared": bound_value(r.shared, BRIEF)}
            for r, hidden in zip(page, flags, strict=True)
            if not hidden
        ]
        return mark_answer(
            {
                "compared": found.compared,
                "whole": found.whole,
                "repeated": found.repeated,
                "near": found.near,
                "first_near": found.first_near,
                "groups": groups,
                "groups_in_all": len(found.repeats),
                **withheld_notice(sum(flags), "groups of rows"),
            }
        )

    def check_overlap(self, dataset: Dataset, count: Count = 5, offset: Offset = 0) -> dict[str, Any]:
        """Is raw data contaminated, does it overlap with the benchmark? Rows that leak its items: validation shown, test counted.

        A recipe that trains on the first is refused unless the run drops them. The others, also those with `unseen`
        validation items, are dropped by code. Above 200,000 rows every n-th is looked at.
        """
        run_tools = self.scope.run_tools()
        files = self._files(dataset, "")
        prints = [b.fingerprint for b in run_tools.setup.benchmarks]
        key = digest(dataset, run_tools.setup.dataset_fingerprints[dataset], *prints, self._guard().identity)
        kept = run_tools.run.root / "profiles" / f"overlap-{key}.json"
        if not kept.is_file():
            found = find_overlaps(files, self._guard())
            hits = [
                {"where": where, "benchmark": hit.benchmark, "item": hit.id, "row": bound_value(row, MEDIUM)}
                for where, row, hit in found.validation[:1000]
            ]
            counts = {split: found.counts.get(split, 0) for split in ("validation", "unseen", "test")}
            write_json(kept, {"rows": found.rows, "checked": found.checked, "overlaps": counts, "validation": hits})
        known: dict[str, Any] = read_json(kept)
        return mark_answer({**known, "validation": known["validation"][offset : offset + count]})

    def _guard(self) -> Guard:
        """Knows the items of all splits of the run's benchmarks."""
        run_tools = self.scope.run_tools()
        return make_guard(run_tools.benchmarks, run_tools.validation_limit)

    def _open_rows(self, answers: list[Any], rows: list[Any]) -> dict[str, Any]:
        """`rows`: the answers about rows that hold no sealed item; how many were omitted."""
        guard = self._guard()  # a long row is not looked at to its end, and an answer may show of its end
        flags = [any(pair) for pair in zip(find_sealed(guard, rows), find_sealed(guard, answers), strict=True)]
        kept = [answer for answer, held in zip(answers, flags, strict=True) if not held]
        return {"rows": kept, **withheld_notice(sum(flags))}

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
