"""MCP server `evaluation`: measure models on open splits, read scores, explain failures, compare pairwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastmcp import FastMCP

from tuneloop.core.errors import ToolError
from tuneloop.core.protocols import EvaluationStatus, Launched
from tuneloop.core.score import Score
from tuneloop.mcp_servers.injection_marking import mark_answer
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Count, Group, Kind, Measured, Name, Offset, Split, make_server
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, render_prompt
from tuneloop.tools.benchmark_items.resolve import benchmark_cards, scoring_needs
from tuneloop.tools.evaluation.run_evaluation import evaluation_status, start_evaluation, stop_evaluation
from tuneloop.tools.jobs.run_tools import split_sizes
from tuneloop.tools.runs.journal import further_scores_file, shown_score, whole_score
from tuneloop.tools.scoring.failures import explain_failures
from tuneloop.tools.scoring.verdicts import group_scores
from tuneloop.tools.statistics import compare

INSTRUCTIONS = "Scores of a run's models on the splits open to you. The test split is sealed until the run ends."


class EvaluationTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def list_benchmarks(self) -> list[dict[str, Any]]:
        """Which benchmarks are measured in this run, the one that decides first; without a run all that are registered.

        Each with what is asked, metric, licence, source, what scoring needs, and what cannot be had here and why.
        """
        if self.scope.newest is None:
            return benchmark_cards(self.scope.settings.home)
        return [
            {
                **folder.benchmark.model_dump(mode="json", exclude={"validation_size", "test_size"}),
                "needs": scoring_needs(folder.benchmark),
                "items": split_sizes(self.scope.run_tools(), folder).model_dump(),
                "decides": number == 0,
            }
            for number, folder in enumerate(self.scope.run_tools().benchmarks)
        ]

    def evaluate(self, experiment: Measured, split: Split = "validation") -> Launched:
        """Measure (evaluate) the model of an experiment on all benchmarks of the run; returns at once, poll get_result.

        What runs or is over stays as it is. `job` is null when there is nothing to do: every answer is known. Where
        replies are code, or a judge decides, there are further jobs: call again when one is over.
        """
        self.scope.allow(split)
        self._check_evaluated()
        return Launched(experiment=experiment, job=start_evaluation(self.scope.run_tools(), experiment))

    def get_result(self, experiment: Measured, split: Split = "validation") -> EvaluationStatus:
        """What score an experiment got; before that how far its evaluation is (absent, running, over or lost; items done).

        `scores` is null before that; then value, 95 % interval, n, parse rate, further metrics and parts of each
        benchmark, the one that decides first; without items.
        """
        self.scope.allow(split)
        run_tools = self.scope.run_tools()
        scores = None
        if self._file(experiment).is_file():
            names = [folder.benchmark.name for folder in run_tools.benchmarks]
            scores = tuple(self.score(experiment, name).summary for name in names)
        return EvaluationStatus(**dict(evaluation_status(run_tools, experiment)), scores=scores)

    def stop(self, experiment: Measured) -> EvaluationStatus:
        """Stop an evaluation that is under way."""
        stop_evaluation(self.scope.run_tools(), experiment)
        return self.get_result(experiment)

    def explain_failures(
        self,
        experiment: Measured,
        benchmark: Name = "",
        kind: Kind = "any",
        group: Group = "",
        count: Count = 10,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Why a model failed on validation: counts of failures on the items that are shown, and a page of these items.

        Kinds with examples, the weakest groups, wrong answers that come again and again; of an item the prompt, what was
        said, the answer found in it and the right one.
        """
        return mark_answer(self.explained(experiment, benchmark, kind=kind, group=group, count=count, offset=offset))

    def explained(self, experiment: int, benchmark: str = "", **page: Any) -> dict[str, Any]:
        """The same with every text as it is."""
        folder = self._folder(benchmark)
        asked = {i.id: render_prompt(folder.benchmark, i) for i in self.scope.run_tools().validation(folder).shown}
        score = self.score(experiment, folder.benchmark.name)
        ids = {r.id: r.id if r.id in asked else r.id.rpartition("~")[0] for r in score.items}
        foreign = [name for name, own in ids.items() if own not in asked]
        if foreign:
            raise ToolError(f"the score is of other items than the benchmark's ({foreign[0][:80]!r}): measure it again")
        prompts = {name: asked[own] for name, own in ids.items()}
        longest = folder.benchmark.max_new_tokens
        return explain_failures(score, prompts, longest, **page)

    def compare(self, candidate: Measured, incumbent: Measured, benchmark: Name = "") -> dict[str, Any]:
        """Did one experiment beat another, and by how much? Paired on the same items: gain with its 95 % interval, wins, losses."""
        name = self._folder(benchmark).benchmark.name
        pair = [self.score(number, name, whole=True) for number in (candidate, incumbent)]
        return compare(*pair).model_dump(mode="json")

    def _check_evaluated(self) -> None:
        """Raises ToolError for a run without a benchmark."""
        if not self.scope.run_tools().spec.evaluated:
            raise ToolError("this run has no benchmark, and nothing is evaluated")

    def _folder(self, benchmark: str) -> BenchmarkFolder:
        self._check_evaluated()
        folders = {folder.benchmark.name: folder for folder in self.scope.run_tools().benchmarks}
        if benchmark and benchmark not in folders:
            raise ToolError(f"no benchmark {benchmark!r} in this run; there are {', '.join(folders)}")
        return folders[benchmark] if benchmark else next(iter(folders.values()))

    def _file(self, experiment: int) -> Path:
        run = self.scope.run_tools().run
        return (run.experiment(experiment).root if experiment else run.baseline) / "scores.json"

    def score(self, experiment: int, benchmark: str, *, whole: bool = False) -> Score:
        """With the items that agents may see; `whole`: with all, of which only numbers may leave. Raises ToolError."""
        file = self._file(experiment)
        if not file.is_file():
            raise ToolError(f"experiment {experiment} has no score (yet)")
        own = file if shown_score(file).benchmark == benchmark else further_scores_file(file, benchmark)
        if whole:
            return whole_score(own, file)
        score = shown_score(own)
        return score.model_copy(update={"groups": group_scores(score.items, score.direction)})


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope; an owner's is `evaluation_owner.py`."""
    t = EvaluationTools(scope)
    tools = (t.list_benchmarks, t.evaluate, t.get_result, t.stop, t.compare, t.explain_failures)
    return make_server("evaluation", INSTRUCTIONS, tools)
