"""MCP server `evaluation`: measure models on open splits, read scores and failures, compare pairwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json
from tuneloop.core.score import ItemResult, Score
from tuneloop.mcp_servers.arguments import Count, Measured, Offset, Split
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import make_server
from tuneloop.tools.benchmarks import items, prompt
from tuneloop.tools.compare import compare
from tuneloop.tools.measuring import evaluation_status, start_evaluation, stop_evaluation

if TYPE_CHECKING:  # nodes call these tools without a server, and fastmcp is slow to import
    from fastmcp import FastMCP

Kind = Annotated[
    Literal["unparsed", "wrong", "any"], Field(description="unparsed: no answer found; wrong: another answer")
]
INSTRUCTIONS = "Scores of a run's models on the splits open to you. The test split is sealed until the run ends."


class EvaluationTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def launch(self, experiment: Measured, split: Split = "validation") -> dict[str, Any]:
        """Start an evaluation; returns at once, poll evaluation_status. What runs or is over stays as it is.

        `job` is null when every answer is known from the cache: then it is over already. Where replies are code, running
        them is a second job: launch again when the first is over.
        """
        self.scope.allow(split)
        return {"experiment": experiment, "job": start_evaluation(self.scope.bench(), experiment)}

    def status(self, experiment: Measured) -> dict[str, Any]:
        """State of an evaluation: absent, running, over or lost; items done."""
        return evaluation_status(self.scope.bench(), experiment)

    def stop(self, experiment: Measured) -> dict[str, Any]:
        """End an evaluation."""
        stop_evaluation(self.scope.bench(), experiment)
        return self.status(experiment)

    def scores(self, experiment: Measured, split: Split = "validation") -> dict[str, Any]:
        """Value, 95 % interval, n and parse rate of a model; without items."""
        self.scope.allow(split)
        return self._score(experiment).model_dump(mode="json", exclude={"items"})

    def failures(
        self, experiment: Measured, kind: Kind = "any", count: Count = 10, offset: Offset = 0
    ) -> list[dict[str, Any]]:
        """Validation items that a model got wrong: prompt, what it said, the answer found in it, the right one."""
        bench = self.scope.bench()
        asked = {i.id: prompt(bench.benchmark.benchmark, i) for i in items(bench.benchmark, "validation")}
        bad = [r for r in self._score(experiment).items if not r.correct and fits(r, kind)]
        return [{**r.model_dump(exclude={"correct"}), "prompt": asked[r.id]} for r in bad[offset : offset + count]]

    def compare(self, candidate: Measured, incumbent: Measured) -> dict[str, Any]:
        """Paired comparison on the same items: gain, items won and lost, exact p-value; uncorrected for tries."""
        return compare(self._score(candidate), self._score(incumbent), candidates=1).model_dump(mode="json")

    def _score(self, experiment: int) -> Score:
        run = self.scope.bench().run
        file = (run.experiment(experiment).root if experiment else run.baseline) / "scores.json"
        if not file.is_file():
            raise ToolError(f"experiment {experiment} has no score (yet)")
        return Score.model_validate(read_json(file))


def fits(result: ItemResult, kind: str) -> bool:
    """Whether a wrong item is of that kind."""
    return kind == "any" or (result.parsed is None) == (kind == "unparsed")


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope."""
    t = EvaluationTools(scope)
    return make_server("evaluation", INSTRUCTIONS, (t.launch, t.status, t.stop, t.scores, t.failures, t.compare))
