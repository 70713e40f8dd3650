"""Tools of the server `evaluation` for the owner of the machine: any model on any benchmarks, besides a run's experiments."""

from __future__ import annotations

from typing import Annotated, Any

from fastmcp import FastMCP
from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_model
from tuneloop.core.score import Score
from tuneloop.mcp_servers.evaluation import EvaluationTools
from tuneloop.mcp_servers.injection_marking import mark_answer
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Count, Group, Kind, Measured, Name, Offset, Split, make_server
from tuneloop.tools.benchmark_items.resolve import benchmark_cards
from tuneloop.tools.evaluation.standalone.record import EvaluationRecord, Told, request_stop
from tuneloop.tools.evaluation.standalone.request import EvaluationRequest, begin_evaluation, find_evaluation
from tuneloop.tools.evaluation.standalone.results import paired_difference
from tuneloop.tools.runs.request import OpenFolders
from tuneloop.tools.scoring.failures import explain_failures

Word = Annotated[str, Field(min_length=1, max_length=4096)]
Model = Annotated[
    str,
    Field(
        max_length=4096,
        description="folder with whole or merged weights or an adapter, registered name, hub id, .jsonl file of replies, "
        "or a model's name at the endpoint",
    ),
]
Benchmarks = Annotated[list[Word], Field(max_length=50, description="names as list_benchmarks gives them, or folders")]
Base = Annotated[str, Field(max_length=4096, description="model below an adapter; empty: the one that it names")]
Endpoint = Annotated[
    str, Field(max_length=2000, description="URL of an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1")
]
Called = Annotated[
    str,
    Field(
        max_length=60, pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$", description="what results call it; empty: as it is"
    ),
]
Limit = Annotated[int | None, Field(ge=1, le=10**7, description="items of each benchmark, chosen by hash; empty: all")]
Tokens = Annotated[int | None, Field(ge=1, le=10**6, description="tokens; empty: as declared")]
Temperature = Annotated[float | None, Field(ge=0, le=2, description="instead of the benchmark's own")]
TopP = Annotated[float | None, Field(gt=0, le=1, description="instead of the benchmark's own")]
Batch = Annotated[int | None, Field(ge=1, le=4096, description="prompts answered together; empty: by device")]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1, description="of answers that are drawn")]
Id = Annotated[str, Field(max_length=80, description="of an evaluation, as evaluate returned it")]
Number = Annotated[int | None, Field(ge=0, le=999_999, description="experiment of the run; 0 is the untouched model")]
Which = Annotated[Measured | Id, Field(description="experiment number of the run, or id of an evaluation")]
INSTRUCTIONS = (
    "Measure any model on benchmarks: evaluate returns an id at once, get_result says how far it is and the scores, compare "
    "tests two of them, explain_failures shows wrong answers. Experiments of a run are named by number. Always on the "
    "validation split: the sealed test is closed."
)


class OwnerTools:
    """Functions of the owner's server. No agent of a run may have them: they reach beyond the run."""

    def __init__(self, scope: Scope, of_run: EvaluationTools) -> None:
        self.scope, self.of_run = scope, of_run

    def list_benchmarks(self) -> list[dict[str, Any]]:
        """Which benchmarks can be measured: all that are registered, with metric, licence, source and what is missing here."""
        return benchmark_cards(self.scope.settings.home)

    def evaluate(
        self,
        model: Model = "",
        benchmarks: Benchmarks = [],  # noqa: B006 - never changed, and the schema shows it
        experiment: Number = None,
        split: Split = "validation",
        base_model: Base = "",
        endpoint: Endpoint = "",
        name: Called = "",
        limit: Limit = None,
        max_out_len: Tokens = None,
        max_seq_len: Tokens = None,
        temperature: Temperature = None,
        top_p: TopP = None,
        batch_size: Batch = None,
        seed: Seed = 1,
    ) -> dict[str, Any]:
        """Measure (evaluate) any model on benchmarks, on validation: a folder, an adapter, a hub id, an endpoint, replies.

        Give model and benchmarks: it works in the background, survives this server, and the same question again starts
        nothing twice. Returns an evaluation's id for get_result. Or give experiment alone, to measure the model of one.
        """
        self.scope.allow(split)
        if experiment is not None:
            if model or benchmarks:
                raise ToolError("give model and benchmarks, or experiment: an experiment is measured on its run's own")
            return self.of_run.evaluate(experiment, split).model_dump(mode="json")
        if not model or not benchmarks:
            raise ToolError("nothing to measure: right is model and benchmarks, e.g. 'tiny' and ['wordproblems']")
        asked = EvaluationRequest(
            model=model,
            benchmark=tuple(benchmarks),
            base_model=base_model,
            endpoint=endpoint,
            name=name,
            limit=limit,
            max_out_len=max_out_len,
            max_seq_len=max_seq_len,
            temperature=temperature,
            top_p=top_p,
            batch_size=batch_size,
            seed=seed,
        )
        settings = self.scope.settings
        question = asked.checked(OpenFolders(settings.home, self.scope.roots), settings)
        own = question.id(settings)
        return {"evaluation": own, "state": begin_evaluation(settings.home, question, own).state}

    def get_result(self, evaluation: Id = "", experiment: Number = None, split: Split = "validation") -> dict[str, Any]:
        """What score (accuracy) a model or experiment got on validation; before that how far its evaluation is.

        `state`: running, over, failed, stopped or lost. `results` is null before it is over; then value, 95 % interval, n,
        parse rate and further metrics of each benchmark.
        """
        self.scope.allow(split)
        if not evaluation:
            return self.of_run.get_result(require_experiment(experiment), split).model_dump(mode="json")
        return {"evaluation": evaluation, **record_facts(self._record(evaluation))}

    def stop(self, evaluation: Id = "", experiment: Number = None) -> dict[str, Any]:
        """Stop an evaluation that is under way; what was answered is kept, evaluate again goes on."""
        if not evaluation:
            return self.of_run.stop(require_experiment(experiment)).model_dump(mode="json")
        request_stop(self._record(evaluation))
        return self.get_result(evaluation)

    def explain_failures(
        self,
        evaluation: Id = "",
        experiment: Number = None,
        benchmark: Name = "",
        kind: Kind = "any",
        group: Group = "",
        count: Count = 10,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Why a model failed on validation: counts of all failures, and a page of the items.

        Kinds with examples, the weakest groups, wrong answers that come again and again; of an item the prompt, what was
        said, the answer found in it and the right one.
        """
        if not evaluation:
            return self.of_run.explain_failures(require_experiment(experiment), benchmark, kind, group, count, offset)
        score, prompts, longest = self._record(evaluation).score(benchmark)
        return mark_answer(
            explain_failures(score, prompts, longest, kind=kind, group=group, count=count, offset=offset)
        )

    def compare(self, candidate: Which, incumbent: Which, benchmark: Name = "") -> dict[str, Any]:
        """Is one model better than another, or is it luck? Paired on the same items: gain with its 95 % interval, wins, losses.

        Two evaluations, two experiments, or one of each. Where an evaluation is among them there is a two-sided p-value too.
        """
        if isinstance(candidate, int) and isinstance(incumbent, int):
            return self.of_run.compare(candidate, incumbent, benchmark)
        of = next(which for which in (candidate, incumbent) if isinstance(which, str))
        names = [benchmark] if benchmark else self._record(of).benchmarks
        try:
            rows = [paired_difference(self._score(candidate, name), self._score(incumbent, name)) for name in names]
        except ValueError as e:
            raise ToolError(f"{candidate} and {incumbent} cannot be compared: {e}") from e
        return {"candidate": candidate, "incumbent": incumbent, "compared": rows}

    def _record(self, evaluation: str) -> EvaluationRecord:
        return find_evaluation(self.scope.settings.home, evaluation)

    def _score(self, which: int | str, benchmark: str) -> Score:
        if isinstance(which, int):
            return self.of_run.score(which, benchmark, whole=True)
        return self._record(which).score(benchmark)[0]


def build_server(scope: Scope) -> FastMCP:
    """The owner's server. It has a name of its own: agents of a run refuse to use it."""
    t = OwnerTools(scope, EvaluationTools(scope))
    tools = (t.list_benchmarks, t.evaluate, t.get_result, t.stop, t.compare, t.explain_failures)
    return make_server("evaluation-owner", INSTRUCTIONS, tools)


def require_experiment(experiment: int | None) -> int:
    """The experiment that was named. Raises ToolError without one."""
    if experiment is None:
        raise ToolError("which one? right is evaluation, as evaluate returned it, or experiment, a number of the run")
    return experiment


def record_facts(record: EvaluationRecord) -> dict[str, Any]:
    """State, progress, scores without items, and why there are none."""
    state = record.state
    told = record.told.model_dump(exclude_unset=True) if state in ("over", "failed") else {}
    now = read_model(record.progress, Told) if record.progress.is_file() else Told()
    return {
        "state": state,
        "doing": now.note if state == "running" else "",
        "done": now.done,
        "total": now.total,
        "why": told.get("error")
        or (f"its process is gone; see {record.log}, or evaluate again" if state == "lost" else ""),
        "name": told.get("name"),
        "model": told.get("model"),
        "results": told.get("results"),
        "average": told.get("average"),
        "notes": told.get("notes", []),
        "folder": told.get("place"),
    }
