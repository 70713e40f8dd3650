"""prepare: fetch this run's model, data and benchmark, build engines, measure the untouched model on validation."""

from __future__ import annotations

import importlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import tuneloop
from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import Paused, RecipeError, WorldError
from tuneloop.core.events import BaselineMeasured, JobProgress
from tuneloop.core.files import write_json
from tuneloop.core.setup import Placed, Setup
from tuneloop.graph.context import Context
from tuneloop.graph.foresight import chosen, foreseen
from tuneloop.graph.nodes.evaluate import measure, run_evaluation
from tuneloop.graph.onward import after
from tuneloop.graph.selection import chosen_datasets
from tuneloop.graph.steering.inbox_listener import raise_if_paused
from tuneloop.graph.wait import KILLS, killed, wait
from tuneloop.tools import benchmarks, datasets, models
from tuneloop.tools.backend import choose_backend
from tuneloop.tools.benchmarks.sizes import SMALLEST, Size, choose_size, seconds_of_experiment
from tuneloop.tools.contamination.splits import check_apart
from tuneloop.tools.conversion import (
    conversion_proof,
    conversion_status,
    is_converted,
    place,
    start_conversion,
    stop_conversion,
    take_converted,
)
from tuneloop.tools.device import find_device
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.judge import check_judge, find_judge
from tuneloop.tools.measuring import (
    order_of,
    probe_place,
    probe_status,
    probed,
    start_probe,
    stop_probe,
    validation_sets,
)
from tuneloop.tools.models import ModelFolder
from tuneloop.tools.models.native import check_native
from tuneloop.tools.models.pickled import pickled
from tuneloop.tools.params.model_card import read_model_card
from tuneloop.tools.runs.journal import keep
from tuneloop.tools.store import fingerprint
from tuneloop.tools.workbench import job_report
from tuneloop.tools.workers import warm_up

SAY_EVERY = 2.0


def prepare(ctx: Context) -> dict[str, Any]:
    """Settle everything the loop stands on; `setup.json`, `baseline/validation.json`, then `baseline/scores.json`."""
    began = time.monotonic()
    if not ctx.run.setup.is_file():
        write_json(ctx.run.setup, settle(ctx).model_dump(mode="json"))
        warm_up(ctx.bench)
    file = ctx.run.baseline / "scores.json"
    if not file.is_file():
        ctx.emit(foreseen(ctx))
        try:
            choose_validation(ctx)
            look_ahead(ctx)
            measured = measure(ctx, 0)
        except RecipeError as e:
            raise WorldError(f"the base model could not be measured: {e}") from e
        write_json(ctx.run.baseline / "spent.json", {"seconds": ctx.state.spent + time.monotonic() - began})
        score = keep(file, measured)
        ctx.emit(BaselineMeasured(value=score.value, low=score.low, high=score.high, n=score.n))
    return {"stage": after(ctx)}


def choose_validation(ctx: Context) -> None:
    """Settle number and order of the validation items; a run that is resumed, repeated or forked keeps them."""
    if not ctx.run.validation.is_file():
        size = validation_size(ctx)
        sets = validation_sets(ctx.bench, size.limit)
        order = {one.name: order_of(one) for one in sets}
        ctx.emit(chosen(ctx, size, sets))
        write_json(ctx.run.validation, {**asdict(size), "order": order})


def validation_size(ctx: Context) -> Size:
    """What was asked for, else as many items as are cheap, judged by the untouched model on the first ones."""
    spec, bench = ctx.bench.spec, ctx.bench
    if spec.benchmark_limit is not None:
        return Size(spec.benchmark_limit, "as asked")
    there = [len(benchmarks.validation(folder).every) for folder in bench.benchmarks]
    if max(there) <= SMALLEST:
        return Size(None, "all there are")
    affordable = spec.validation_share * seconds_of_experiment(spec.timeout, spec.loop_n)
    return choose_size(there, probe(ctx), affordable)


def probe(ctx: Context) -> dict[int, float]:
    """Seconds that one item of each benchmark takes. Raises RecipeError or WorldError."""
    bench = ctx.bench
    run_evaluation(
        ctx,
        "probe",
        probe_place(bench),
        lambda: start_probe(bench),
        lambda: probe_status(bench),
        lambda: stop_probe(bench),
    )
    return probed(bench)


def look_ahead(ctx: Context) -> None:
    """While the base model is measured: what the first researcher will ask for, which takes seconds to make."""
    ctx.call("evaluation_evaluate", experiment=0)
    for dataset in ctx.bench.setup.datasets:
        ctx.call("data_profile_dataset", dataset=dataset)
    importlib.import_module("tuneloop.mcp_servers.client")


class Reporter:
    """Progress of long preparations, a line every two seconds for each subject."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.said: dict[str, float] = {}
        self.over = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it if it is time; the end is always said. Raises Paused."""
        if self.over:
            raise Paused("the other preparation was interrupted")
        raise_if_paused(self.ctx)
        now = time.monotonic()
        if now - self.said.get(what, 0.0) >= SAY_EVERY or (total and done >= total):
            self.said[what] = now
            self.ctx.emit(JobProgress(job=what, done=done, total=total, unit=""))


def settle(ctx: Context) -> Setup:
    """Make or fetch what is missing; the second engine is built while the model is made."""
    spec, settings, say = ctx.bench.spec, ctx.settings, Reporter(ctx)
    judged_by = judge(ctx, [benchmarks.check(name, settings) for name in (spec.benchmark, *spec.also)])
    with ThreadPoolExecutor(max_workers=2) as pool:
        second = pool.submit(partial(ensure_engine, "opencompass", settings, say))
        try:
            first = ensure_engine("llamafactory", settings, say)
            model = models.resolve(spec.base_model, settings, say)
            engines = (first, second.result())
        except BaseException:
            # The pool waits for its thread: Ctrl-C here must reach the engine that is built over there.
            say.over = True
            raise
    for engine in engines:
        check_native(model.root, engine)
    model = in_safetensors(ctx, first, model)
    read_model_card(model.root)
    choose_backend(settings.eval_backend, engines[1], find_device())
    bench = benchmarks.resolve(spec.benchmark, settings.home, spec.benchmark_description, settings)
    also = [benchmarks.resolve(name, settings.home, None, settings) for name in spec.measured[1:]]
    check_apart([bench, *also])
    found = datasets.resolve_all(chosen_datasets(ctx, bench.benchmark), settings.home, settings, say)
    link(ctx, found)
    return Setup(
        benchmark=bench.benchmark,
        benchmark_root=bench.root,
        benchmark_fingerprint=bench.fingerprint,
        also=tuple(Placed(benchmark=b.benchmark, root=b.root, fingerprint=b.fingerprint) for b in also),
        model_name=model.name,
        model_root=model.root,
        model_fingerprint=fingerprint(model.root),
        datasets={d.dataset.name: d.root for d in found},
        dataset_fingerprints={d.dataset.name: fingerprint(d.root) for d in found},
        sandbox=ctx.bench.sandbox.kind,
        device=find_device(),
        planner=ctx.planner.name,
        judge=judged_by,
        versions={"tuneloop": tuneloop.__version__, **{e.name: f"{e.version} ({e.identity})" for e in engines}},
    )


def judge(ctx: Context, wanted: list[Benchmark]) -> str:
    """The model that judges what rules do not call right, "" none; asked whether it is there. Raises SetupError."""
    access = find_judge(ctx.settings, wanted)
    if access is None:
        return ""
    check_judge(ctx.settings, access)
    return access.models[0]


def in_safetensors(ctx: Context, engine: Engine, model: ModelFolder) -> ModelFolder:
    """The model, or where its weights are pickled the copy of it that is made by a job. Raises as `take_converted`."""
    if not pickled(model.root):
        return model
    copy = place(ctx.bench, model)
    for _ in range(KILLS):
        if is_converted(copy):
            return ModelFolder(model.name, copy)
        start_conversion(ctx.bench, engine, model)
        status = wait(
            ctx.unhurried(),
            "convert",
            lambda: job_report(conversion_status(ctx.bench)),
            lambda: stop_conversion(ctx.bench),
            conversion_proof(ctx.bench),
        )
        if not killed(status):
            return ModelFolder(model.name, take_converted(ctx.bench, model))
    raise WorldError(f"converting the base model was killed {KILLS} times; look at {ctx.run.baseline / 'jobs'}")


def link(ctx: Context, found: list[datasets.DatasetFolder]) -> None:
    """`runs/<id>/datasets/<name>` leads to where each data set lies: one place for scripts to read from."""
    for d in found:
        place = ctx.run.root / "datasets" / d.dataset.name
        target = place / d.root.name if d.root.is_file() else place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(d.root)
