"""Where everything lies on disk: `FT_FILE_PATH` and one folder per run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError


@dataclass(frozen=True)
class Home:
    """`$FT_FILE_PATH`: shared things, fetched once, and the runs. `shared_engines` are those of all homes."""

    root: Path
    shared_engines: Path | None = None

    @property
    def models(self) -> Path:
        """Base models, one folder each."""
        return self.root / "models"

    @property
    def datasets(self) -> Path:
        """Raw data sets, one folder each."""
        return self.root / "datasets"

    @property
    def benchmarks(self) -> Path:
        """Benchmarks: items, and `sealed/` that only `finish` sees."""
        return self.root / "benchmarks"

    @property
    def engines(self) -> Path:
        """Engines: `<name>-<lock hash>/`, in the folder that all homes share where there is one."""
        return self.shared_engines or self.engine_links

    @property
    def engine_links(self) -> Path:
        """Links to the engines that this home has used."""
        return self.root / "engines"

    @property
    def cache(self) -> Path:
        """What may be deleted at any time and saves work when it is there: results of evaluations, digests of weights."""
        return self.root / "cache"

    @property
    def proxies(self) -> Path:
        """Sockets of model proxies, one folder per run: outside of what any worker or job of the run may write."""
        return self.root / "proxies"

    @property
    def views(self) -> Path:
        """Data sets without rows that hold sealed items, each with its record."""
        return self.root / "views"

    @property
    def evaluations(self) -> Path:
        """Evaluations outside of runs: `<id>/`."""
        return self.root / "evaluations"

    @property
    def trainings(self) -> Path:
        """Trainings outside of runs: `<id>/`, by everything that decides them."""
        return self.root / "trainings"

    @property
    def results(self) -> Path:
        """Result trees of `tuneloop matrix` that the web page shows: `<task>/`."""
        return self.root / "results"

    @property
    def key(self) -> Path:
        """`signing.key`: signs the runs of this home; only its owner can read it."""
        return self.root / "signing.key"

    @property
    def runs(self) -> Path:
        """Runs: `<id>/`."""
        return self.root / "runs"

    def run(self, run_id: str) -> RunFolder:
        """The folder of one run. Raises InvalidRequestError for a name that would lead elsewhere."""
        if (
            run_id in {"", ".."}
            or Path(run_id).name != run_id
            or not run_id.isprintable()
            or len(run_id.encode()) > 255
        ):
            raise InvalidRequestError(
                f"{run_id[:80]!r} is no run's name; right is one folder below {self.runs}, e.g. aime25-1"
            )
        return RunFolder(self.runs / run_id)


@dataclass(frozen=True)
class RunFolder:
    """`runs/<id>/`; `training`: which training of each recipe is meant, 1 or one with another seed."""

    root: Path
    training: int = 1

    @property
    def id(self) -> str:
        """The run's name."""
        return self.root.name

    @property
    def spec(self) -> Path:
        """`run.yaml`: spec, versions, resolved folders."""
        return self.root / "run.yaml"

    @property
    def signature(self) -> Path:
        """`signature.json`: signature of `run.yaml` and `setup.json` with the home's key."""
        return self.root / "signature.json"

    @property
    def lock(self) -> Path:
        """Held while an orchestrator works on the run."""
        return self.root / "lock"

    @property
    def inbox(self) -> Path:
        """Messages to the run, one file each."""
        return self.root / "inbox"

    @property
    def heard(self) -> Path:
        """Messages that were acknowledged and left to a chat model."""
        return self.inbox / "heard"

    @property
    def answers(self) -> Path:
        """What the listener was told and answered."""
        return self.root / "answers"

    @property
    def conversation(self) -> Path:
        """`conversation.jsonl`: messages to the run and its answers."""
        return self.root / "conversation.jsonl"

    @property
    def directives(self) -> Path:
        """`directives.jsonl`: every state of every directive, the newest last."""
        return self.root / "directives.jsonl"

    @property
    def events(self) -> Path:
        """`events.jsonl`, one writer."""
        return self.root / "events.jsonl"

    @property
    def checkpoint(self) -> Path:
        """SQLite file of the graph's checkpointer."""
        return self.root / "checkpoint.sqlite"

    @property
    def stores(self) -> Path:
        """`stores.json`: where checkpoints of this run were kept, the place of now last."""
        return self.root / "stores.json"

    @property
    def stamps(self) -> Path:
        """`stamps.json`: sizes and times of model, data and benchmark when they were last found unchanged."""
        return self.root / "stamps.json"

    @property
    def selection(self) -> Path:
        """`selection.json`: the data sets that were chosen when the user named none, and why."""
        return self.root / "selection.json"

    @property
    def model_choice(self) -> Path:
        """`model_choice.json`: the base model that was chosen when the user named none, why, and what else there was."""
        return self.root / "model_choice.json"

    @property
    def fork(self) -> Path:
        """`fork.json`: the run that this one was forked from, and after which experiment."""
        return self.root / "fork.json"

    @property
    def setup(self) -> Path:
        """`setup.json`: what `prepare` chose and fetched; written last by it."""
        return self.root / "setup.json"

    @property
    def ledger(self) -> Path:
        """`ledger.jsonl`: one line per request of a job or an agent to a model."""
        return self.root / "ledger.jsonl"

    def calls_begun(self, who: str = "") -> Path:
        """`calls_begun.jsonl`: requests of agents, or of `who`, that are in flight or were when their process was killed."""
        return self.root / f"{who}calls_begun.jsonl"

    @property
    def budget(self) -> Path:
        """`budget.json`: of which limits there was a warning, and which were reached."""
        return self.root / "budget.json"

    @property
    def models(self) -> Path:
        """`models.json`: detected properties of the agents' models."""
        return self.root / "models.json"

    @property
    def baseline(self) -> Path:
        """The untouched model's scores and jobs."""
        return self.root / "baseline"

    @property
    def validation(self) -> Path:
        """`baseline/validation.json`: how many validation items of each benchmark this run measures, and their order."""
        return self.baseline / "validation.json"

    @property
    def preparations(self) -> tuple[Path, ...]:
        """Folders with jobs of `prepare`: the base model's evaluation, what comes before it, what is measured beside it."""
        return (self.baseline, self.baseline / "probe", self.baseline / "throughput")

    @property
    def throughput(self) -> Path:
        """`baseline/throughput.json`: how fast the base model trains here, where the run's time decides what is planned."""
        return self.baseline / "throughput.json"

    @property
    def experiments(self) -> Path:
        """One folder per experiment: `001/`, `002/` and so on."""
        return self.root / "experiments"

    @property
    def final(self) -> Path:
        """Jobs and sealed scores of `finish`; no tool of an agent reads here."""
        return self.root / "final"

    @property
    def stop(self) -> Path:
        """`final/stop.json`: why the run finishes before its limits: the researcher proposed it, or its patience is over."""
        return self.final / "stop.json"

    @property
    def candidate(self) -> Path:
        """The whole (merged) model that the sealed test measures; it becomes `best/` unless the base model is better."""
        return self.final / "candidate"

    @property
    def candidates(self) -> Path:
        """`final/candidates.json`: trainings with further seeds, and which model goes to the sealed test."""
        return self.final / "candidates.json"

    @property
    def best(self) -> Path:
        """The whole (merged) best model."""
        return self.root / "best"

    @property
    def trackers(self) -> Path:
        """What experiment trackers were sent: `<name>.json`; files of those that keep theirs here."""
        return self.root / "trackers"

    @property
    def report(self) -> Path:
        """`report.md`."""
        return self.root / "report.md"

    @property
    def report_json(self) -> Path:
        """`report.json`, written last: the run is over."""
        return self.root / "report.json"

    def experiment(self, number: int) -> ExperimentFolder:
        """The folder of one experiment."""
        own = ExperimentFolder(self.experiments / f"{number:03d}")
        return own if self.training == 1 else ExtraTrainingFolder(own.root / "seeds" / str(self.training), own)


@dataclass(frozen=True)
class ExperimentFolder:
    """`experiments/<nnn>/`."""

    root: Path

    @property
    def number(self) -> int:
        """Counted from 1."""
        return int(self.root.name)

    @property
    def seeds_on(self) -> int:
        """How far the seed of its training is from the run's."""
        return 0

    @property
    def hypothesis(self) -> Path:
        """The researcher's answer."""
        return self.root / "hypothesis.json"

    @property
    def script(self) -> Path:
        """`process_data.py`."""
        return self.root / "process_data.py"

    @property
    def config(self) -> Path:
        """`train.yaml`."""
        return self.root / "train.yaml"

    @property
    def data(self) -> Path:
        """`data.json` and, last, `report.json`."""
        return self.root / "data"

    @property
    def forecast(self) -> Path:
        """`forecast.json`: the smoke run's forecast of the training."""
        return self.root / "forecast.json"

    @property
    def model(self) -> Path:
        """Weights or adapter."""
        return self.root / "model"

    @property
    def training(self) -> Path:
        """`training.json`: proof that the training is whole."""
        return self.root / "training.json"

    @property
    def scores(self) -> Path:
        """`scores.json`: validation, per item."""
        return self.root / "scores.json"

    @property
    def benchmark_results(self) -> Path:
        """OpenCompass's result tree, in a folder named by the time."""
        return self.root / "benchmark_results"

    @property
    def result(self) -> Path:
        """`experiment.json`, written last."""
        return self.root / "experiment.json"

    @property
    def jobs(self) -> Path:
        """`<name>.<attempt>/`, written by supervisors; jobs never see it."""
        return self.root / "jobs"

    @property
    def work(self) -> Path:
        """Scratch folders that jobs may write."""
        return self.root / "work"

    @property
    def answers(self) -> Path:
        """What each agent was told and answered."""
        return self.root / "answers"

    @property
    def approvals(self) -> Path:
        """Approval requests and decisions."""
        return self.root / "approvals"

    @property
    def failures(self) -> Path:
        """`<attempt>.json`: what failed, and the node that repairs it."""
        return self.root / "troubles"


@dataclass(frozen=True)
class ExtraTrainingFolder(ExperimentFolder):
    """`experiments/<nnn>/seeds/<k>/`: the experiment's recipe and data, another seed; model, jobs and scores of its own."""

    own: ExperimentFolder

    @property
    def number(self) -> int:
        """The experiment's."""
        return self.own.number

    @property
    def seeds_on(self) -> int:
        """How far its seed is from the run's."""
        return int(self.root.name) - 1

    @property
    def hypothesis(self) -> Path:
        """The experiment's."""
        return self.own.hypothesis

    @property
    def script(self) -> Path:
        """The experiment's."""
        return self.own.script

    @property
    def config(self) -> Path:
        """The experiment's."""
        return self.own.config

    @property
    def data(self) -> Path:
        """The experiment's."""
        return self.own.data

    @property
    def forecast(self) -> Path:
        """The experiment's."""
        return self.own.forecast


def job_input_file(work: Path, job: str) -> Path:
    """Input file of a job, next to its folder: the job can read it but not write it."""
    return work / f"{job}.input"
