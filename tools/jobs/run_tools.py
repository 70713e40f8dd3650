"""One run's places, engines and sandbox in one hand: what every tool of a run starts from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuneloop.core.brief import SplitSizes
from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_field, read_model
from tuneloop.core.job import Command, JobStatus, Sandbox
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, newest_attempt
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, Validation, sealed_count, select_validation
from tuneloop.tools.config.sharding import Devices
from tuneloop.tools.data_script.data_view import DataView, data_view, source_commands
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.engines.blueprint import USUAL
from tuneloop.tools.engines.find import find_pinned_engine
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.jobs.gpu_share import gpu_environment, training_devices
from tuneloop.tools.jobs.machine import cpu_environment
from tuneloop.tools.jobs.node_files import open_nodes
from tuneloop.tools.jobs.warm_workers import WarmWorkers, worker_command
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.llm_proxy.launcher import keep_running, with_endpoint
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.signature import check_signed

CACHES = {"HF_HOME", "XDG_CACHE_HOME"}
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# What engines read while they are imported; the same for every job of both, because warm workers import only once.
AT_IMPORT = {
    **OFFLINE,
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "LLAMAFACTORY_VERBOSITY": "WARN",
    "DISABLE_VERSION_CHECK": "1",
}


@dataclass(frozen=True)
class RunTools:
    """Lazy: nothing is read or opened before it is needed."""

    run: RunFolder
    settings: Settings

    @cached_property
    def spec(self) -> RunSpec:
        """What the user asked for."""
        return read_spec(self.run)

    @cached_property
    def view(self) -> DataView:
        """The raw data that scripts see, by the directives when it was first asked for: it stays the same for a job."""
        return data_view(self.run, self.setup.datasets, source_commands(self.run))

    @cached_property
    def setup(self) -> Setup:
        """What `prepare` settled. Raises ToolError before that, InvalidRequestError when another home did."""
        if self.run.setup.exists():
            check_signed(self.run)
        try:
            return read_model(self.run.setup, Setup)
        except FileNotFoundError as e:
            raise ToolError(f"run {self.run.id} is not prepared yet: wait for its first node") from e

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where this run's jobs go. What `auto` once was it stays: jobs of one kind are not seen by another.

        That a run was begun unprotected allows nothing: only the owner of this process does.
        """
        check_signed(self.run)
        kind = self.setup.sandbox if self.run.setup.exists() else self.spec.sandbox
        sandbox = open_run_sandbox(kind, self.settings.unsandboxed)
        return open_nodes(self.spec.executor, sandbox, self.settings)

    @cached_property
    def benchmark(self) -> BenchmarkFolder:
        """The benchmark that decides."""
        return self.benchmarks[0]

    @cached_property
    def benchmarks(self) -> tuple[BenchmarkFolder, ...]:
        """All that is measured; the first decides."""
        return tuple(BenchmarkFolder(b.benchmark, b.root, b.fingerprint) for b in self.setup.benchmarks)

    @property
    def validation_limit(self) -> int | None:
        """Validation items that are measured of each benchmark at most, as `prepare` settled it; None: all."""
        if not self.run.validation.is_file():
            return self.spec.benchmark_limit
        limit: int | None = read_field(self.run.validation, "limit", int | None)
        return limit

    def validation(self, folder: BenchmarkFolder) -> Validation:
        """The validation items that this run measures of one benchmark."""
        return select_validation(folder, self.validation_limit)

    def engine(self, name: str) -> Engine:
        """The engine that the run was prepared with. Raises InvalidRequestError when it is gone."""
        made = self.setup.versions.get(name, "")
        identity = made.rpartition("(")[2].rstrip(")")
        return find_pinned_engine(name, self.settings, identity) if identity else ensure_engine(name, self.settings)

    def experiment(self, number: int) -> ExperimentFolder:
        """An experiment that has begun. Raises ToolError naming those there are."""
        folder = self.run.experiment(number)
        if not folder.root.is_dir():
            there = sorted(p.name for p in self.run.experiments.glob("[0-9]*"))
            raise ToolError(f"experiment {number} does not exist; there are {', '.join(there) or 'none'}")
        return folder

    def open_experiment(self, number: int) -> ExperimentFolder:
        """An experiment that has begun and not ended: what is finished is never written again. Raises ToolError."""
        folder = self.experiment(number)
        if folder.result.is_file():
            raise ToolError(f"experiment {number} is finished and stays as it is; right is the one that is open now")
        return folder

    def environment(self, work: Path) -> dict[str, str]:
        """A job's environment: offline, caches in its own scratch folder, threads as the device wants."""
        return {**self._common_environment, "HOME": str(work), "HF_HOME": str(work / "hf"), "TMPDIR": "/tmp"}  # noqa: S108

    @property
    def training_seed(self) -> int:
        """What data and trainings are seeded with."""
        return self.spec.seed

    @property
    def device(self) -> str:
        """What the run computes on: cpu or cuda."""
        return self.setup.device

    @property
    def threads(self) -> int:
        """Threads of its jobs on a CPU, settled once: another number rounds otherwise."""
        return self.setup.threads

    @property
    def devices(self) -> Devices:
        """What one training of the run may use, as it is now; trainings of a matrix are of no run."""
        return training_devices(self.settings, self.spec if self.run.spec.is_file() else None, self.device)

    @property
    def _common_environment(self) -> dict[str, str]:
        """The part of it that is the same for all jobs."""
        cpu = cpu_environment(self.threads) if self.device == "cpu" else {}
        return {**AT_IMPORT, **cpu}

    @property
    def workers(self) -> WarmWorkers:
        """The run's warm engines."""
        return WarmWorkers(self.run.root, self.sandbox, self._worker_command)

    def _worker_command(self, name: str, place: Path) -> Command:
        files = self.settings.scorer_folder
        read = (str(self.setup.model_root), *([str(files)] if files else []))
        return worker_command(self.engine(name), place, self.environment(place), read, self.run.root)

    def start_workers(self) -> None:
        """A worker of each engine that the run has, which forks this machine's jobs; waits for none."""
        if self.spec.executor == "local":
            for engine in USUAL:
                if engine in self.setup.versions:
                    self.workers.start(engine)

    @contextmanager
    def warm_engines(self) -> Iterator[None]:
        """Workers while a run is driven: started at once where the run is prepared, retired in the end.

        A run whose report is written needs none: nobody would come back to retire them after a kill.
        """
        if self.run.setup.is_file() and not self.run.report_json.is_file():
            self.start_workers()
        try:
            yield
        finally:
            if self.run.setup.is_file():
                self.workers.stop()

    def launch(
        self,
        jobs: Path,
        name: str,
        command: Command,
        *,
        retry: bool = False,
        worker: str = "",
        access: Access | None = None,
    ) -> Path:
        """Start a job, or find it running or over; `retry`: one that failed is started again.

        `worker` names the engine whose warm worker forks the job; without one, or where it does not come up, the job
        is started cold, with the same environment. `access` opens it an endpoint of the LLM proxy; such a job always starts cold.
        """

        def ready(command: Command) -> Command:
            clear_caches(command)
            place = self.workers.socket(worker) if worker and self.spec.executor == "local" else ""
            gpus = {} if command.generated else gpu_environment(jobs)
            env = {**self._common_environment, **gpus, **command.env}
            ready = command.model_copy(update={"worker": place, "env": env})
            return with_endpoint(self.run, self.settings, jobs, name, ready, access) if access else ready

        return launch(self.sandbox, jobs, name, command, retry=retry, ready=ready)

    def status(self, jobs: Path, name: str) -> tuple[JobStatus, Path | None]:
        """State of the newest attempt of a job, and its folder. While it runs, the LLM proxy is kept running."""
        folder = newest_attempt(jobs, name)
        if folder is None:
            return JobStatus(state="absent"), None
        status = self.sandbox.poll(folder)
        if status.state == "running":
            keep_running(self.run, self.settings)
        return status, folder

    def stop(self, jobs: Path, name: str, grace: float = 5.0) -> None:
        """End the newest attempt of a job if it runs: after `grace` seconds by force. Returns at once."""
        folder = newest_attempt(jobs, name)
        if folder is not None and self.sandbox.poll(folder).state == "running":
            self.sandbox.stop(folder, grace)

    def proof(self, jobs: Path, name: str) -> Path | None:
        """The file by which the newest attempt of a job will say that it is over; None before a launch."""
        folder = newest_attempt(jobs, name)
        return folder / "exit.json" if folder else None

    def failure_text(self, folder: Path, status: JobStatus) -> str:
        """One paragraph on how a job ended badly, with the last lines of its log."""
        end = status.exit
        how = f"{end.reason}, exit status {end.code}" if end else status.state
        return f"{folder.name}: {how}\n{log_tail(folder, 12)}".strip()


def split_sizes(run_tools: RunTools, folder: BenchmarkFolder | None = None) -> SplitSizes:
    """Items of a benchmark, by default of the one that decides, as this run measures them."""
    folder = folder or run_tools.benchmark
    found = run_tools.validation(folder)
    return SplitSizes(validation=len(found.every), shown=len(found.shown), test=sealed_count(folder))


def clear_caches(command: Command) -> None:
    """What a killed predecessor left half in its caches would be believed by libraries: the job starts without them."""
    for name in CACHES & command.env.keys():
        place = Path(command.env[name])
        if any(place.is_relative_to(folder) for folder in command.write):
            remove_path(place)
