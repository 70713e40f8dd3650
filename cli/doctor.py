"""`tuneloop doctor`: what this machine has, what is missing, and the cure."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneloop.agents.planners import check_planner
from tuneloop.cli.notes import dotenv_notes, settings_notes
from tuneloop.cli.terminal import table_console
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.formatting import format_size, printable
from tuneloop.core.run_spec import ExecutorKind
from tuneloop.core.settings import Settings, load_settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.cluster import ClusterSandbox, prove_cluster
from tuneloop.sandboxes.docker_daemon import probe_docker, probe_gpu
from tuneloop.sandboxes.landlock import landlock_problem
from tuneloop.tools.engines.blueprint import PYTHON_RANGE, PYTHONS
from tuneloop.tools.engines.build import check_buildable
from tuneloop.tools.engines.find import find_built_engine
from tuneloop.tools.hub.http import HubBusyError
from tuneloop.tools.hub.object_storage import Storage
from tuneloop.tools.jobs.machine import NVIDIA_DRIVER, gpu_models
from tuneloop.tools.jobs.node_files import open_nodes
from tuneloop.tools.llm_proxy.access import data_access, judge_access, missing, unpriced, upstreams

# The checks of `tuneloop doctor`: each reports what was found, whether it suffices, and the remedy if not.

Verdict = Literal["ok", "note", "missing"]
MEMORY_WANTED = 3_000_000_000
DISK_WANTED = 8_000_000_000
READER_CURE = "it has limits and no environment, and could read your files: bubblewrap or Landlock closes it in"
ENGINES = {"llamafactory": "llama_factory_path", "opencompass": "opencompass_path"}


@dataclass(frozen=True)
class Check:
    """`missing` stops runs, `note` is worth knowing."""

    name: str
    verdict: Verdict
    says: str
    cure: str = ""


def run_checks(dotenv: Path) -> list[Check]:
    """Everything, in the order in which one mends it; broken settings are a check that failed, not the end."""
    try:
        settings = load_settings(dotenv)
    except InvalidRequestError as e:
        return [check_python(), Check("settings", "missing", str(e), "correct the line")]
    return [
        check_python(),
        check_processor(),
        check_memory(Path("/proc/meminfo")),
        *check_files(settings),
        *check_storage(settings),
        check_gpu(NVIDIA_DRIVER),
        *check_sandboxes(),
        *check_cluster(settings),
        *(check_engine(settings, name) for name in ENGINES),
        check_agents(settings),
        check_models(settings),
        *check_notes(settings, dotenv),
    ]


def check_python() -> Check:
    """A Python that the locks are for."""
    says = f"{platform.python_version()} at {sys.executable}"
    fit = sys.version_info[:2] in PYTHONS
    return Check("python", "ok" if fit else "missing", says, "" if fit else f"install Python {PYTHON_RANGE}")


def check_processor() -> Check:
    """Cores this process may use."""
    return Check("processor", "ok", f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}")


def check_memory(meminfo: Path) -> Check:
    """Memory that is available now."""
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    free = int(lines["MemAvailable"].split()[0]) * 1024
    if free < MEMORY_WANTED:
        return Check(
            "memory",
            "note",
            f"{format_size(free)} free",
            f"free some: training wants {format_size(MEMORY_WANTED)} or more",
        )
    return Check("memory", "ok", f"{format_size(free)} free of {format_size(int(lines['MemTotal'].split()[0]) * 1024)}")


def check_files(settings: Settings) -> list[Check]:
    """`FT_FILE_PATH` can be written and has room."""
    root = settings.home.root
    there = next(p for p in (root, *root.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        cure = "set FT_FILE_PATH to a folder that you may write"
        return [Check("FT_FILE_PATH", "missing", f"{root}: {there} cannot be written", cure)]
    free = shutil.disk_usage(there).free
    files = Check("FT_FILE_PATH", "ok", f"{root} can be written")
    if free < DISK_WANTED:
        cure = f"free some, or set FT_FILE_PATH to another disk: engines and a run want {format_size(DISK_WANTED)}"
        return [files, Check("disk", "note", f"{format_size(free)} free", cure)]
    return [files, Check("disk", "ok", f"{format_size(free)} free")]


def check_storage(settings: Settings) -> list[Check]:
    """Where runs are copied: a small object is written, read and removed."""
    if settings.storage is None:
        return []
    try:
        Storage(settings.storage).try_out()
    except (InvalidRequestError, HubBusyError) as e:
        says, _, cure = str(e).partition(": ")
        return [Check("TUNELOOP_STORAGE", "missing", says, cure)]
    return [Check("TUNELOOP_STORAGE", "ok", f"{settings.storage}: an object was written, read and removed")]


def check_gpu(driver: Path) -> Check:
    """NVIDIA devices as the kernel's driver reports them."""
    names = gpu_models(driver)
    if not names:
        return Check("gpu", "note", "none; training runs on the processor", "fine for tiny models, slow for others")
    return Check("gpu", "ok", ", ".join(names))


def check_sandboxes() -> list[Check]:
    """Each kind, tried once for real; one of them is enough, `auto` takes the first that works."""
    problems = {
        "bubblewrap": probe_bubblewrap(),
        "landlock": landlock_problem(),
        "docker": probe_docker() or probe_gpu(),
    }
    works = [kind for kind, problem in problems.items() if problem is None]
    checks = [
        Check(f"sandbox {kind}", "note", problem, unneeded_sandbox(works))
        for kind, problem in problems.items()
        if problem
    ]
    if not works:
        cure = "make one of them work, or run with --allow-unsandboxed, which protects nothing"
        return [*checks, Check("sandbox", "missing", "neither bubblewrap nor landlock nor docker works", cure)]
    if not {"bubblewrap", "landlock"} & {*works}:
        checks.append(Check("reader", "note", "raw data are read by a process without a sandbox", READER_CURE))
    return [Check("sandbox", "ok", f"auto is {works[0]}; works: {', '.join(works)}"), *checks]


def unneeded_sandbox(works: list[str]) -> str:
    """Remark on a sandbox that does not work: not needed when another one does."""
    return f"not needed: {works[0]} works" if works else ""


def check_cluster(settings: Settings) -> list[Check]:
    """Slurm where its commands are, Ray where it is named: a job of a moment proves that a node can do a run's work."""
    there: dict[ExecutorKind, bool] = {"slurm": shutil.which("sbatch") is not None, "ray": bool(settings.ray_address)}
    return [check_executor(settings, executor) for executor, known in there.items() if known]


def check_executor(settings: Settings, executor: ExecutorKind) -> Check:
    """One cluster."""
    try:
        sandbox = open_nodes(executor, open_sandbox("auto"), settings)
        settings.home.root.mkdir(parents=True, exist_ok=True)
        says = prove_cluster(cast(ClusterSandbox, sandbox), settings.home.root)
    except (InvalidRequestError, InfrastructureError, OSError) as e:
        return Check(executor, "note", str(e), f"not needed without --executor {executor}")
    return Check(executor, "ok", says)


def check_engine(settings: Settings, name: str) -> Check:
    """The engine that a run would use, or what it is pointed at; a missing one is built by the first run."""
    given: str | None = getattr(settings, ENGINES[name])
    if given is not None:
        there = Path(given).expanduser().is_dir()
        variable = next(f.alias for n, f in Settings.model_fields.items() if n == ENGINES[name])
        cure = "" if there else f"correct {variable} or unset it"
        return Check(
            name, "ok" if there else "missing", f"{variable}={given}" + ("" if there else ": no such folder"), cure
        )
    try:
        if built := find_built_engine(name, settings):
            return Check(name, "ok", built.folder.name)
        check_buildable(settings.home.engines.absolute())
    except InvalidRequestError as e:
        says, _, cure = str(e).partition("; right is ")
        return Check(name, "missing", says, cure)
    return Check(name, "note", "not built yet", f"the first run builds it, or: tuneloop engines build {name}")


def check_agents(settings: Settings) -> Check:
    """Who thinks for the agents; nothing is asked here."""
    if not settings.chat_model:
        return Check("planner", "ok", "the offline policy (CHAT_MODEL would let a chat model think)")
    try:
        check_planner(settings)
    except InvalidRequestError as e:
        return Check("planner", "missing", str(e), "correct the setting, or leave CHAT_MODEL empty")
    own = "".join(f", {agent} asks {model}" for agent, model in settings.chat_models.items())
    then = ", ".join((*settings.chat_fallbacks, "the offline policy"))
    where = urlsplit(settings.endpoint).hostname if settings.endpoint else "its provider"
    says = f"{settings.chat_model} at {where}{own}; where it does not answer: {then}"
    named = dict.fromkeys((settings.chat_model, *settings.chat_models.values(), *settings.chat_fallbacks))
    if unknown := unpriced(named, settings):
        return Check("planner", "note", says, f"cost is not counted: {missing(unknown)}")
    return Check("planner", "ok", says)


def check_models(settings: Settings) -> Check:
    """What data scripts may ask; nothing is asked here."""
    try:
        access = data_access(settings)
        judge_access(settings)
    except InvalidRequestError as e:
        return Check("models", "missing", str(e), "name the prices, or drop the limit on money")
    if access is None:
        return Check(
            "models", "ok", "data scripts ask none (FT_STRONG_MODELS, FT_WEAK_MODELS and an endpoint would let them)"
        )
    bounds = {"a job": access.job, "a run": access.run}
    told = [
        f"{whose} at most {value:g} {name}"
        for whose, limit in bounds.items()
        for name, value in limit.model_dump(exclude_none=True).items()
    ]
    where = urlsplit(upstreams(settings)["data"].base).hostname
    says = f"data scripts may ask {', '.join(access.models)} at {where}, {access.workers} at once; {', '.join(told) or 'no limit'}"
    if unknown := unpriced(access.models, settings):
        return Check("models", "note", says, f"cost is not counted: {missing(unknown)}")
    return Check("models", "ok", says)


def check_notes(settings: Settings, dotenv: Path) -> list[Check]:
    """Keys of `.env` that mean nothing here."""
    notes = [*dotenv_notes(dotenv), *settings_notes(settings)]
    return [Check("settings", "note", note) for note in notes] or [Check("settings", "ok", "nothing to remark")]


EXAMPLES = """\b
Examples:
  tuneloop doctor
  tuneloop doctor --json | jq -r '.[] | select(.verdict == "missing") | .cure'
"""
MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "missing": ("missing", "bold red")}


@click.command(epilog=EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Look at Python, memory, disk, GPU, sandbox, engines and settings. Exit code 1: something is missing."""
    checks = run_checks(Path(".env"))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(check) for check in checks], indent=1))
    else:
        show_checks(checks, table_console())
    ctx.exit(1 if any(check.verdict == "missing" for check in checks) else 0)


def show_checks(checks: list[Check], console: Console) -> None:
    """The checks for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for check in checks:
        mark, style = MARKS[check.verdict]
        cure = f"\n→ {check.cure}" if check.cure else ""
        table.add_row(Text(mark, style=style), check.name, Text(printable(check.says, 500) + cure))
    console.print(table)
