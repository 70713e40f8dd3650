"""prepare: fetch this run's model, data and benchmark, build engines, measure the untouched model on validation."""

from __future__ import annotations

import importlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import tuneloop
from tuneloop.agents.policy.dataset_selection import DatasetSelection
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, PausedError, RecipeError
from tuneloop.core.events import AgentAnswered, BaselineMeasured, JobProgress
from tuneloop.core.files import digest, read_model, write_json
from tuneloop.core.run_spec import AUTO, PlacedBenchmark, RunSpec, Setup
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.create_run import choose_datasets_for
from tuneloop.graph.nodes.choose_model import chosen_model
from tuneloop.graph.nodes.evaluate import measure_experiment, run_evaluation
from tuneloop.graph.nodes.measure_throughput import measure_throughput
from tuneloop.graph.outcomes.promotion import describe_validation, estimate_power
from tuneloop.graph.outcomes.stopping import next_node
from tuneloop.graph.steering.inbox_listener import raise_if_paused
from tuneloop.tools.benchmark_items.folder import (
    SMALLEST,
    BenchmarkFolder,
    ValidationSize,
    choose_size,
    seconds_of_experiment,
    select_validation,
)
from tuneloop.tools.benchmark_items.of_run import declared_benchmarks, resolve_benchmarks
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.contamination.splits import check_benchmarks_disjoint, make_guard
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.evaluation.item_sets import choose_backend
from tuneloop.tools.evaluation.run_evaluation import (
    items_order_hash,
    probe_place,
    probe_seconds,
    probe_status,
    start_probe,
    stop_probe,
    validation_sets,
)
from tuneloop.tools.hub import datasets, models
from tuneloop.tools.hub.store import fingerprint
from tuneloop.tools.jobs.machine import cpu_threads, find_device
from tuneloop.tools.raw_data.cache import cached_profile
from tuneloop.tools.raw_data.client import shared_reader
from tuneloop.tools.raw_data.filtered_view import RECORD, DatasetView, filter_hash, make_view
from tuneloop.tools.runs.evidence import HASHES, record_evidence
from tuneloop.tools.runs.journal import keep_score
from tuneloop.tools.runs.signature import write_setup
from tuneloop.tools.scoring.llm_judge import check_judge, find_judge
from tuneloop.tools.weights.formats import check_architecture

# Which data sets a run learns from: the user's, or those that the researcher chooses from the cards of all registered ones.


def chosen_datasets(ctx: Context, benchmark: Benchmark) -> tuple[str, ...]:
    """Names; nothing is fetched to choose. Raises InvalidRequestError when no card fits the benchmark."""
    if ctx.run_tools.spec.datasets:
        return ctx.run_tools.spec.datasets
    if ctx.run.selection.is_file():
        return read_model(ctx.run.selection, DatasetSelection).datasets
    selection = choose_datasets_for(benchmark)
    write_json(ctx.run.selection, selection.model_dump(mode="json"))
    says = f"data: {', '.join(selection.datasets)}"
    ctx.emit(AgentAnswered(agent="researcher", says=says, why=selection.reason))
    return selection.datasets


SAY_EVERY = 2.0


def prepare(ctx: Context) -> dict[str, Any]:
    """Settle everything the loop stands on: `setup.json`, `baseline/`; what was measured is not measured again."""
    began = time.monotonic()
    if not ctx.run.setup.is_file():
        write_setup(ctx.run, fetch_and_build(ctx))
        ctx.run_tools.start_workers()
        importlib.import_module("tuneloop.mcp_servers.client")  # takes a second, and the workers start meanwhile
    if ctx.run_tools.spec.evaluated:
        measure_base_model(ctx, began)
    if not (ctx.run.baseline / HASHES).is_file():
        measure_throughput(ctx)
        if not ctx.run_tools.spec.evaluated:
            note_time(ctx, began)
        record_evidence(ctx.run, ctx.run.baseline)
    return {"stage": next_node(ctx)}


def measure_base_model(ctx: Context, began: float) -> None:
    """Settle the validation items, then `baseline/scores.json`; what is there stays."""
    file = ctx.run.baseline / "scores.json"
    if file.is_file():
        return
    ctx.emit(estimate_power(ctx))
    try:
        choose_validation(ctx)
        prefetch_profiles(ctx)
        # Downloads and builds before it may have taken all of the run's time: it is measured all the same.
        measured = measure_experiment(replace(ctx, began=time.monotonic()), 0)
    except RecipeError as e:
        raise InfrastructureError(f"the base model could not be measured: {e}") from e
    note_time(ctx, began)
    score = keep_score(file, measured)
    ctx.emit(BaselineMeasured(value=score.value, low=score.low, high=score.high, n=score.n))


def note_time(ctx: Context, began: float) -> None:
    """Write what the preparation took."""
    write_json(ctx.run.baseline / "spent.json", {"seconds": ctx.state.spent + time.monotonic() - began})


def choose_validation(ctx: Context) -> None:
    """Settle number and order of the validation items; a run that is resumed, repeated or forked keeps them."""
    if not ctx.run.validation.is_file():
        size = validation_size(replace(ctx, began=time.monotonic()))
        sets = validation_sets(ctx.run_tools, size.limit)
        order = {one.name: items_order_hash(one) for one in sets}
        ctx.emit(describe_validation(ctx, size, sets))
        write_json(ctx.run.validation, {**asdict(size), "order": order})


def validation_size(ctx: Context) -> ValidationSize:
    """What was asked for, else as many items as are cheap, judged by the untouched model on the first ones."""
    spec, run_tools = ctx.run_tools.spec, ctx.run_tools
    if spec.benchmark_limit is not None:
        return ValidationSize(spec.benchmark_limit, "as asked")
    there = [len(select_validation(folder).every) for folder in run_tools.benchmarks]
    if max(there) <= SMALLEST:
        return ValidationSize(None, "all there are")
    affordable = spec.validation_share * seconds_of_experiment(spec.timeout, spec.loop_n)
    return choose_size(there, probe_item_seconds(ctx), affordable)


def probe_item_seconds(ctx: Context) -> dict[int, float]:
    """Seconds that one item of each benchmark takes. Raises RecipeError or InfrastructureError."""
    run_tools = ctx.run_tools
    run_evaluation(
        ctx,
        "probe",
        probe_place(run_tools),
        lambda: start_probe(run_tools),
        lambda: probe_status(run_tools),
        lambda: stop_probe(run_tools),
    )
    return probe_seconds(run_tools)


def prefetch_profiles(ctx: Context) -> None:
    """While the base model is measured: what the first researcher will ask for, which takes seconds to make."""
    ctx.evaluation.evaluate(0)
    run_tools = ctx.run_tools
    shown = run_tools.validation(run_tools.benchmark).shown
    for dataset in run_tools.setup.datasets:
        cached_profile(run_tools.settings.home, run_tools.setup, dataset, shown)


class PreparationProgress:
    """Progress of long preparations, a line every two seconds for each subject."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.said: dict[str, float] = {}
        self.over = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it if it is time; the end is always said. Raises PausedError."""
        if self.over:
            raise PausedError("the other preparation was interrupted")
        raise_if_paused(self.ctx)
        now = time.monotonic()
        if now - self.said.get(what, 0.0) >= SAY_EVERY or (total and done >= total):
            self.said[what] = now
            self.ctx.emit(JobProgress(job=what, done=done, total=total, unit=""))


def fetch_and_build(ctx: Context) -> Setup:
    """Make or fetch what is missing."""
    spec, settings, say = ctx.run_tools.spec, ctx.settings, PreparationProgress(ctx)
    declared = declared_benchmarks(spec, settings)
    judged_by = find_run_judge(ctx, declared)
    base_engines, model = engines_and_model(spec, settings, say)
    wanted = dict.fromkeys(one.engine for one in declared if one.engine)
    engines = (*base_engines, *(ensure_engine(name, settings, say) for name in wanted))
    if spec.evaluated:
        choose_backend(settings.backend, engines[1], find_device())
    first_benchmark, *also = benchmarks = resolve_benchmarks(spec, settings)
    model = model or models.resolve_model(chosen_model(ctx, first_benchmark, base_engines, say), settings, say)
    for engine in base_engines:
        check_architecture(model.root, engine)
    read_model_card(model.root)
    check_benchmarks_disjoint(benchmarks)
    chosen = datasets.resolve_datasets(chosen_datasets(ctx, first_benchmark.benchmark), settings.home, settings, say)
    records = {one.dataset.name: filter_dataset(ctx, one, tuple(benchmarks), say) for one in chosen}
    found = [replace(one, root=records[one.dataset.name][1].root) for one in chosen]
    link_datasets(ctx, found)
    return Setup(
        benchmark=first_benchmark.benchmark,
        benchmark_root=first_benchmark.root,
        benchmark_fingerprint=first_benchmark.fingerprint,
        also=tuple(PlacedBenchmark(benchmark=b.benchmark, root=b.root, fingerprint=b.fingerprint) for b in also),
        model_name=model.name,
        model_root=model.root,
        model_fingerprint=fingerprint(model.root),
        datasets={d.dataset.name: d.root for d in found},
        dataset_fingerprints={d.dataset.name: fingerprint(d.root) for d in found},
        views={name: record for name, (record, _) in records.items()},
        sandbox=ctx.run_tools.sandbox.kind,
        device=find_device(),
        threads=cpu_threads(model.root, spec.parallel if spec.executor == "local" else 1),
        planner=ctx.planner.name,
        judge=judged_by,
        versions={"tuneloop": tuneloop.__version__, **{e.name: f"{e.version} ({e.identity})" for e in engines}},
    )


def engines_and_model(
    spec: RunSpec, settings: Settings, say: PreparationProgress
) -> tuple[tuple[Engine, ...], models.ModelFolder | None]:
    """What trains, and what evaluates where the run does; the model, None where none is named.

    The second engine is built while the model is made.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        second = pool.submit(partial(ensure_engine, "opencompass", settings, say)) if spec.evaluated else None
        try:
            first = ensure_engine("llamafactory", settings, say)
            model = None if spec.base_model == AUTO else models.resolve_model(spec.base_model, settings, say)
            return (first, second.result()) if second else (first,), model
        except BaseException:
            # The pool waits for its thread: Ctrl-C here must reach the engine that is built over there.
            say.over = True
            raise


def filter_dataset(
    ctx: Context, chosen: datasets.DatasetFolder, benchmarks: tuple[BenchmarkFolder, ...], say: PreparationProgress
) -> tuple[Path, DatasetView]:
    """The data set without rows that hold sealed items, and the record of it; made once for the same data and benchmarks."""
    guard = make_guard(benchmarks, ctx.run_tools.spec.benchmark_limit)
    prints = [folder.fingerprint for folder in benchmarks]
    key = digest(chosen.dataset.name, fingerprint(chosen.root), *prints, guard.identity, filter_hash())
    folder = ctx.settings.home.views / key
    progress = partial(say, f"looking through {chosen.dataset.name}", total=0)
    return folder / RECORD, make_view(chosen.root, folder, guard, shared_reader(), progress)


def find_run_judge(ctx: Context, wanted: list[Benchmark]) -> str:
    """The model that judges what rules do not call right, "" none; asked whether it is there. Raises InvalidRequestError."""
    access = find_judge(ctx.settings, wanted)
    if access is None:
        return ""
    check_judge(ctx.settings, access)
    return access.models[0]


def link_datasets(ctx: Context, found: list[datasets.DatasetFolder]) -> None:
    """`runs/<id>/datasets/<name>` leads to where each data set lies: one place for scripts to read from."""
    for d in found:
        place = ctx.run.root / "datasets" / d.dataset.name
        target = place / d.root.name if d.root.is_file() else place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(d.root)
