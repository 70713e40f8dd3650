"""MCP server `data`: what there is to learn from, and what an experiment made of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest, read_json, write_atomic, write_json
from tuneloop.mcp_servers.arguments import Count, Experiment, Offset, Split
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import make_server
from tuneloop.tools.benchmarks import items, prompt
from tuneloop.tools.profiling import records, sources
from tuneloop.tools.profiling.kept import kept_profile
from tuneloop.tools.scripts import script_findings, script_result, start_script
from tuneloop.tools.workbench import job_report

if TYPE_CHECKING:  # nodes call these tools without a server, and fastmcp is slow to import
    from fastmcp import FastMCP

Dataset = Annotated[str, Field(max_length=1000, description="data set name, as data_list_datasets gives it")]
File = Annotated[str, Field(max_length=4096, description="one of the data set's files, as data_list_datasets gives it")]
Code = Annotated[str, Field(max_length=200_000, description="text of process_data.py")]
INSTRUCTIONS = (
    "Raw data sets of a run, its benchmark's validation items, and reports on the data that experiments made."
)


class DataTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def list_datasets(self) -> list[dict[str, Any]]:
        """Data sets of this run with their files."""
        found = []
        for name, root in self.scope.bench().setup.datasets.items():
            files = [
                {"path": str(p.relative_to(root) if p != root else p.name), "bytes": p.stat().st_size}
                for p in sources(root)
            ]
            readme = (
                next((p.read_text(errors="replace")[:5000] for p in sorted(root.glob("README*"))), "")
                if root.is_dir()
                else ""
            )
            found.append({"name": name, "files": files, "readme": readme})
        return found

    def profile_dataset(self, dataset: Dataset) -> dict[str, Any]:
        """Facts about a data set: fields, formats, duplicates, agreement of labels, lengths, likeness to the benchmark."""
        bench = self.scope.bench()
        self._root(dataset)
        file = bench.run.root / "profiles" / f"{digest(dataset, bench.setup.dataset_fingerprints[dataset])}.json"
        if not file.is_file():
            shown = items(bench.benchmark, "validation", bench.spec.benchmark_limit)
            write_json(file, kept_profile(bench.settings.home, bench.setup, dataset, shown))
        found: dict[str, Any] = read_json(file)
        return found

    def sample_records(
        self, dataset: Dataset, path: File, count: Count = 5, offset: Offset = 0
    ) -> list[dict[str, Any]]:
        """Raw records of one file of a data set; long texts are cut at 2,000 characters."""
        root = self._root(dataset)
        by_name = named(root)
        if path not in by_name:
            raise ToolError(f"{dataset} has no file {path!r}; it has {', '.join(by_name)}")
        rows = itertools.islice(records(by_name[path]), offset, offset + count)
        return [{k: _cut(v) for k, v in row.items()} for row in rows]

    def show_items(self, count: Count = 5, offset: Offset = 0, split: Split = "validation") -> list[dict[str, str]]:
        """Benchmark items with the prompt a model gets and the gold answer; only splits open to you."""
        self.scope.allow(split)
        bench = self.scope.bench()
        shown = items(bench.benchmark, "validation", bench.spec.benchmark_limit)[offset : offset + count]
        return [{"id": i.id, "prompt": prompt(bench.setup.benchmark, i), "answer": i.answer} for i in shown]

    def report(self, experiment: Experiment) -> dict[str, Any]:
        """The data gate's report on what an experiment trains on: rows, what was dropped and why, lengths, findings."""
        file = self.scope.bench().experiment(experiment).data / "report.json"
        if not file.is_file():
            raise ToolError(f"experiment {experiment} has no data yet")
        found: dict[str, Any] = read_json(file)
        return found

    def try_script(self, experiment: Experiment, code: Code) -> dict[str, Any]:
        """Check `process_data.py` and run it with --debug in the sandbox; returns at once, ask data_try_result."""
        bench = self.scope.bench()
        findings = script_findings(bench, code)
        if findings:
            raise ToolError("; ".join(findings))
        folder = bench.experiment(experiment)
        write_atomic(folder.script, code)
        return {"job": start_script(bench, folder, debug=True)}

    def try_result(self, experiment: Experiment) -> dict[str, Any]:
        """State of the script tried last; when it is over, the first rows it wrote."""
        bench = self.scope.bench()
        folder = bench.experiment(experiment)
        status, job = bench.status(folder.jobs, "dry_run")
        if status.state != "over" or job is None:
            return job_report(status)
        rows = read_json(script_result(bench, folder, status, job, debug=True))
        return job_report(status, rows=len(rows), first=rows[:5])

    def _root(self, dataset: str) -> Any:
        datasets = self.scope.bench().setup.datasets
        if dataset not in datasets:
            raise ToolError(f"no data set {dataset!r} in this run; there are {', '.join(datasets)}")
        return datasets[dataset]


def named(root: Path) -> dict[str, Path]:
    """Files with records, by the path that scripts and tools call them."""
    return {str(p.relative_to(root)) if p != root else p.name: p for p in sources(root)}


def readme(root: Path) -> str:
    """The card that came with the data, at most 5,000 characters."""
    files = sorted(root.glob("README*")) if root.is_dir() else []
    return files[0].read_text(errors="replace")[:5000] if files else ""


def _cut(value: Any) -> Any:
    return value[:2000] if isinstance(value, str) else value


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope."""
    t = DataTools(scope)
    tools = (t.list_datasets, t.profile_dataset, t.sample_records, t.show_items, t.report, t.try_script, t.try_result)
    return make_server("data", INSTRUCTIONS, tools)
