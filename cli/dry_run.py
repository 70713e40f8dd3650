"""`tuneloop run --dry-run`: the plan of a run, its forecast, and what it would fetch or build; nothing of it is done."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import click
import httpx2

from tuneloop.core.catalog import Benchmark, Source
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.formatting import format_duration, format_size
from tuneloop.core.run_spec import AUTO, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.create_run import check_spec, choose_datasets_for
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.of_run import declared_benchmarks
from tuneloop.tools.benchmark_items.reasoning_gym import PREFIX as RG
from tuneloop.tools.benchmark_items.user_folder import read_user_benchmark
from tuneloop.tools.engines.blueprint import USUAL
from tuneloop.tools.engines.find import find_built_engine, given_path
from tuneloop.tools.hub import datasets, models
from tuneloop.tools.hub.base_models import find_candidates, judge_candidates, possible_models
from tuneloop.tools.hub.fetch import choose_hub
from tuneloop.tools.hub.http import HubBusyError
from tuneloop.tools.hub.listing import HubRequest, Kind
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.jobs.machine import find_device
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import all_runs, read_spec
from tuneloop.tools.statistics import Precision, smallest_gain

Action = Literal["here", "make", "build", "download", "choose", "refuse"]
ACTIONS: dict[Action, str] = {
    "here": "is here",
    "make": "is made here, without a download",
    "build": "is built: packages of its lock are downloaded, once for all runs",
    "download": "is downloaded",
    "choose": "is chosen when the run begins",
    "refuse": "is possible: the run would be refused",
}
UNKNOWN = "unknown until the first smoke run has measured it"


@dataclass(frozen=True)
class Need:
    """Something the run stands on; `bytes` None: the hub did not say."""

    what: str
    name: str
    action: Action
    bytes: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """What `--dry-run` shows."""

    spec: RunSpec
    planner: str
    sandbox: str
    device: str
    datasets: tuple[str, ...]
    reason: str
    needs: tuple[Need, ...]
    seconds_per_experiment: float | None
    smallest_gain: float | None
    test_items: int | None


def show_plan(spec: RunSpec, settings: Settings, *, as_json: bool) -> None:
    """Print it. Raises InvalidRequestError for what a run would be refused for."""
    plan = make_plan(spec, settings)
    click.echo(json.dumps(plan_facts(plan), indent=1) if as_json else "\n".join(plan_lines(plan)))


def make_plan(spec: RunSpec, settings: Settings) -> Plan:
    """Everything that is known before a run begins; of hubs only listings are asked for."""
    check_spec(spec, settings)
    declared = declared_benchmarks(spec, settings)
    selection = None if spec.datasets else choose_datasets_for(declared[0])
    chosen = selection.datasets if selection else spec.datasets
    items = sealed_items_known(spec.benchmark, settings) if spec.evaluated else None
    return Plan(
        spec=spec,
        planner=settings.chat_model or "offline",
        sandbox=open_run_sandbox(spec.sandbox, settings.unsandboxed).kind,
        device=find_device(),
        datasets=tuple(chosen),
        reason=selection.reason if selection else "as asked",
        needs=(
            *engine_needs(spec, declared, settings),
            model_need(spec, settings, declared[0]),
            *(
                benchmark_need(name, one, settings)
                for name, one in zip(spec.measured, declared, strict=True)
                if spec.evaluated
            ),
            *(dataset_need(name, settings) for name in chosen),
        ),
        seconds_per_experiment=usual_seconds(spec, settings),
        smallest_gain=round(smallest_gain(Precision(items, items)), 1) if items else None,
        test_items=items,
    )


def engine_needs(spec: RunSpec, declared: Sequence[Benchmark], settings: Settings) -> Iterator[Need]:
    """The engines of every run, and those that benchmarks ask for; what evaluates only where something is."""
    usual = [name for name in USUAL if spec.evaluated or name != "opencompass"]
    for name in dict.fromkeys((*usual, *(one.engine for one in declared if one.engine))):
        there = given_path(name, settings) or find_built_engine(name, settings)
        yield Need("engine", name, "here" if there else "build")


def model_need(spec: RunSpec, settings: Settings, benchmark: Benchmark) -> Need:
    """The base model."""
    name = spec.base_model
    if name == AUTO:
        note = "in the order of what they promise; the first three that can be had are measured on a few items"
        try:
            judged = judge_candidates(find_candidates(settings), benchmark, settings, spec)
            possible = ", ".join(one.name for one in possible_models(judged))
        except InvalidRequestError as e:
            return Need("base model", "none", "refuse", note=str(e))
        return Need("base model", f"one of {possible}", "choose", note=note)
    if name in models.registered_models():
        return Need("base model", name, "here" if (settings.home.models / name / MANIFEST).is_file() else "make")
    if Path(name).is_dir() or (settings.home.models / name / MANIFEST).is_file():
        return Need("base model", name, "here")
    return hub_need("base model", name, "model", settings)


def benchmark_need(name: str, benchmark: Benchmark, settings: Settings) -> Need:
    """A benchmark."""
    if Path(name).is_dir() or item_counts(name, settings):
        return Need("benchmark", name, "here")
    return source_need("benchmark", name, benchmark.source, settings)


def dataset_need(name: str, settings: Settings) -> Need:
    """A data set."""
    if name.startswith(RG):
        return Need("data set", name, "make")
    folder, repository = settings.home.datasets, datasets.hub_id(name)
    if Path(name).exists() or (folder / repository / MANIFEST).is_file():
        return Need("data set", name, "here")
    if not datasets.is_registered(name):
        return hub_need("data set", repository, "dataset", settings)
    if any(folder.glob(f"{glob.escape(name)}-[0-9a-f]*/{MANIFEST}")):
        return Need("data set", name, "here")
    return source_need("data set", name, datasets.dataset_card(name).source, settings)


def source_need(what: str, name: str, source: Source | None, settings: Settings) -> Need:
    """What a catalog entry is made from."""
    if source is None:
        return Need(what, name, "make")
    return hub_need(what, name, "dataset", settings, source)


def hub_need(what: str, name: str, kind: Kind, settings: Settings, source: Source | None = None) -> Need:
    """A download and its size, as the hub lists it. Raises InvalidRequestError for what the hub does not have."""
    repo, _, revision = (source.repo if source else name).partition("@")
    files, without = (source.files, source.without) if source else ((), ())
    wanted = HubRequest(repo, kind, (source.revision if source else None) or revision or None, files, without)
    hub = choose_hub(settings)
    try:
        size = sum(file.size for file in wanted.choose(hub.listing(wanted).files))
    except (InfrastructureError, HubBusyError, httpx2.HTTPError, OSError):
        return Need(what, name, "download", note=f"{hub.endpoint} does not answer: size unknown")
    return Need(what, name, "download", size, f"{repo} from {hub.endpoint}")


def item_counts(name: str, settings: Settings) -> dict[str, int] | None:
    """Items of a registered benchmark that is here."""
    if name not in resolve.registered_names():
        return None
    counts: dict[str, int] | None = resolve.benchmark_card(*resolve.load_entry(name), settings.home)["items"]
    return counts


def sealed_items_known(name: str, settings: Settings) -> int | None:
    """How many the sealed test has; None while the benchmark is not here."""
    name = resolve.local_name(name, settings.home)
    if resolve.is_user_folder(name):
        return len(read_user_benchmark(Path(name)).test)
    counts = item_counts(name, settings)
    return counts["test"] if counts else None


def usual_seconds(spec: RunSpec, settings: Settings) -> float | None:
    """What experiments of this benchmark and base model took here, the median; None: there was none."""
    took: list[float] = []
    for run in all_runs(settings.home):
        try:
            other = read_spec(run)
        except InvalidRequestError:
            continue  # of another version: its journal says nothing here
        if (other.benchmark, other.base_model) == (spec.benchmark, spec.base_model):
            took += [e.seconds for e in load_journal(run).experiments if e.score is not None]
    return median(took) if took else None


def plan_lines(plan: Plan) -> Iterator[str]:
    """For people."""
    spec = plan.spec
    rows = {
        "benchmark": ", ".join(spec.measured),
        "base model": spec.base_model,
        "data sets": f"{', '.join(plan.datasets)} ({plan.reason})",
        "planner": plan.planner,
        "sandbox": f"{plan.sandbox}, device {plan.device}",
        "ends after": ends_after(spec),
        "time": forecast_time(plan),
        "test": forecast_test(plan),
    }
    yield "plan (nothing is downloaded or run)"
    yield from (f"  {name:<11} {text}" for name, text in rows.items())
    yield "needs"
    for need in plan.needs:
        size = f", {format_size(need.bytes)}" if need.bytes is not None else ""
        note = f" ({need.note})" if need.note else ""
        yield f"  {need.what:<11} {need.name} {ACTIONS[need.action]}{size}{note}"
    known = sum(need.bytes or 0 for need in plan.needs)
    if known:
        yield f"to download besides engines: {format_size(known)}"


def ends_after(spec: RunSpec) -> str:
    """Every limit, or that there is none."""
    limits = {
        "experiments": spec.loop_n,
        "of time": spec.timeout and format_duration(spec.timeout),
        "USD": spec.max_cost,
        "tokens": spec.max_tokens,
        "GPU-hours": spec.max_gpu_hours,
        "experiments in a row without a better one": spec.patience,
    }
    given = [f"{value} {name}" for name, value in limits.items() if value is not None]
    return ", or ".join(given) or "nothing: it goes on until tuneloop stop, or finish in tuneloop chat"


def forecast_time(plan: Plan) -> str:
    """What experiments will take, by what they took."""
    each, spec = plan.seconds_per_experiment, plan.spec
    if each is None:
        return f"{UNKNOWN}; no run of this benchmark and base model is here"
    whole = f", {spec.loop_n} of them {format_duration(each * spec.loop_n)}" if spec.loop_n else ""
    fits = f", about {max(1, int(spec.timeout / each))} fit into the time" if spec.timeout else ""
    return f"an experiment about {format_duration(each)}, as in earlier runs{whole}{fits}"


def forecast_test(plan: Plan) -> str:
    """What the sealed test will be able to show."""
    if not plan.spec.evaluated:
        return "none: nothing is evaluated, and nothing will be proved"
    if plan.test_items is None:
        return "how small a gain it can show is known when the benchmark is here"
    return f"{plan.test_items:,} sealed items find a gain of {plan.smallest_gain} points four times in five, at best"


def plan_facts(plan: Plan) -> dict[str, Any]:
    """For scripts."""
    return {**asdict(plan), "spec": plan.spec.model_dump(mode="json"), "needs": [asdict(need) for need in plan.needs]}
