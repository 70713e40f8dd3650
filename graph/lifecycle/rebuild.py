"""Derive the state of a run from its files, when its checkpoint is lost, damaged or outdated."""

from __future__ import annotations

from dataclasses import dataclass

from tuneloop.core.event_log import iter_events
from tuneloop.core.events import NodeFinished
from tuneloop.core.files import read_field, read_model, read_text
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.stopping import next_node
from tuneloop.graph.state import VERSION, NodeFailure, State
from tuneloop.tools.budget.spending import seconds_worked
from tuneloop.tools.runs.evidence import is_prepared
from tuneloop.tools.runs.journal import load_journal

# First artifact of a node: its presence proves that earlier nodes are over, unless a repair was requested.
LAUNCHED = (("train", "train"), ("smoke_run", "smoke_run"), ("build_data", "build_data"))
FORWARD = ("validate", "build_data", "smoke_run", "train")


@dataclass(frozen=True)
class ExperimentStage:
    """Where an open experiment stands."""

    stage: str
    attempt: int = 0
    failure: NodeFailure | None = None


def rebuild(run: RunFolder, settings: Settings) -> State:
    """The state that the files prove. A node that is entered once too often finds its work done."""
    journal = load_journal(run).experiments
    number = len(journal) + 1
    state = State(version=VERSION, run_id=run.id, experiment=len(journal), spent=seconds_worked(run))
    if run.report_json.is_file():
        from langgraph.constants import END  # `tuneloop chat` answers without langgraph

        return state.model_copy(update={"stage": END, "report": str(run.report)})
    if not is_prepared(run):
        return state
    if run.final.is_dir():
        return state.model_copy(update={"stage": "finish"})
    folder = run.experiment(number)
    if not folder.root.is_dir():
        following = next_node(
            Context(run, settings, state)
        )  # of nobody there: `prepare`, whose work is done, asks who is
        return state.model_copy(update={"stage": "prepare" if following == "finish" else following})
    return with_open_experiment(state, run, number)


def with_open_experiment(state: State, run: RunFolder, number: int) -> State:
    """The state where an experiment stands by its files."""
    place = open_experiment_stage(run.experiment(number))
    stage = (
        max(place.stage, recorded_next_node(run, number, place), key=FORWARD.index)
        if place.stage in FORWARD
        else place.stage
    )
    opened = {} if place.stage == "research" else {"experiment": number}
    return state.model_copy(update={**opened, "stage": stage, "attempt": place.attempt, "failure": place.failure})


def open_experiment_stage(folder: ExperimentFolder) -> ExperimentStage:
    """Where the open experiment stands: what was sent back decides first, then the newest proof."""
    found = read_failures(folder)
    last = found[-1] if found else None
    attempt = sum(failure.leads != "critique" for failure in found)
    if (last and last.leads == "critique") or folder.scores.is_file():
        return ExperimentStage("critique", attempt, last)
    if folder.training.is_file():
        return ExperimentStage("evaluate", attempt, last)
    if not folder.hypothesis.is_file():
        return ExperimentStage("research")
    return ExperimentStage(missing_author(folder, attempt, last) or last_launched(folder, last), attempt, last)


def read_failures(folder: ExperimentFolder) -> list[NodeFailure]:
    """What failed, by attempt."""
    files = sorted(folder.failures.glob("[0-9]*.json"), key=lambda f: int(f.stem))
    return [read_model(f, NodeFailure) for f in files]


def missing_author(folder: ExperimentFolder, attempt: int, failure: NodeFailure | None) -> str:
    """The author whose answer of this attempt does not lie in its place yet, or ""."""
    wanted = {"engineer_data", "write_config"}
    if failure is not None and failure.culprit != "user":  # a user who changes a recipe gives all of it
        wanted = {failure.leads}
    for node, agent, key, file in (
        ("engineer_data", "data_engineer", "code", folder.script),
        ("write_config", "config_coder", "yaml", folder.config),
    ):
        answer = folder.answers / f"{agent}.{attempt}.json"
        if not file.is_file():
            return node
        if node in wanted and not (answer.is_file() and read_field(answer, key, str) == read_text(file)):
            return node
    return ""


def last_launched(folder: ExperimentFolder, failure: NodeFailure | None) -> str:
    """The node whose job was launched last; after a repair jobs of the recipe before lie there too: all is checked again."""
    if failure is not None:
        return "validate"
    return next((node for node, job in LAUNCHED if any(folder.jobs.glob(f"{job}.[0-9]*"))), "validate")


def recorded_next_node(run: RunFolder, number: int, place: ExperimentStage) -> str:
    """Where the node that finished last said it leads: what it left was on disk before it spoke.

    Believed only when every repair of the experiment was spoken of, too: else the last word may be of an earlier recipe.
    """
    nodes = [e for e in iter_events(run.events, "node_finished") if e.experiment == number]
    leads = [(e.node, e.detail.removeprefix("then ")) for e in nodes if isinstance(e, NodeFinished)]
    repairs = sum(node in FORWARD and then in ("engineer_data", "write_config") for node, then in leads)
    known = leads and repairs == place.attempt and leads[-1][1] in FORWARD
    return leads[-1][1] if known else place.stage


def is_behind(state: State, run: RunFolder) -> bool:
    """Whether the files have seen a later experiment or repair than `state`: a store that lost its last writes."""
    closed = len(load_journal(run).experiments)
    folder = run.experiment(closed + 1)
    here = open_experiment_stage(folder) if folder.root.is_dir() else ExperimentStage("research")
    seen = (closed, 0) if here.stage == "research" else (closed + 1, here.attempt)
    return seen > (state.experiment, state.attempt)
