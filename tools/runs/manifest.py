"""A run's manifest `run.yaml`: what was asked, and which tuneloop wrote it in which format."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import Any

import yaml
from pydantic import ValidationError

import tuneloop
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_atomic
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec

# Raised with every change of what a run's folder holds; runs of other formats are refused.
FORMAT = 3


def write_manifest(run: RunFolder, spec: RunSpec) -> None:
    """Version, time and spec."""
    made = {
        "version": tuneloop.__version__,
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
    }
    write_atomic(run.spec, yaml.safe_dump({**made, "spec": spec.model_dump(mode="json")}, sort_keys=False))


def read_spec(run: RunFolder) -> RunSpec:
    """What was asked. Raises InvalidRequestError in one line: no such run, unreadable, or made by another tuneloop."""
    given = read_manifest(run)
    version, made = str(given.get("version", "unknown")), given.get("format", 1)
    if made != FORMAT:
        raise (
            newer_version_error(run, version)
            if isinstance(made, int) and made > FORMAT
            else older_version_error(run, version)
        )
    try:
        return RunSpec.model_validate(given["spec"])
    except (KeyError, TypeError, ValidationError) as e:
        raise InvalidRequestError(f"{run.spec}: not a run's manifest: {' '.join(str(e).split())}") from e


def repeated_spec(run: RunFolder) -> RunSpec:
    """What was asked, measured on as many validation items as then. Raises InvalidRequestError as `read_spec`."""
    spec = read_spec(run)
    if spec.benchmark_limit is not None or not run.validation.is_file():
        return spec
    return spec.model_copy(update={"benchmark_limit": read_json(run.validation)["limit"]})


def created_at(run: RunFolder) -> str:
    """When the run was begun: two runs of one name are told apart by it."""
    return str(read_manifest(run).get("created", ""))


def creating_version(run: RunFolder) -> str:
    """The version of tuneloop that made the run."""
    return str(read_manifest(run).get("version", "unknown"))


def read_manifest(run: RunFolder) -> dict[str, Any]:
    """Plain values of `run.yaml`. Raises InvalidRequestError when it is not there or no mapping."""
    try:
        given = yaml.safe_load(run.spec.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise InvalidRequestError(f"run {run.id!r} is not in {run.root.parent}; `tuneloop list runs` shows them") from e
    except (OSError, ValueError, yaml.YAMLError) as e:
        raise InvalidRequestError(f"{run.spec}: not a run's manifest: {' '.join(str(e).split())}") from e
    if not isinstance(given, dict):
        raise InvalidRequestError(f"{run.spec}: not a run's manifest: no mapping")
    return given


def newer_version_error(run: RunFolder, version: str) -> InvalidRequestError:
    """What is said of a run from the future."""
    return InvalidRequestError(
        f"run {run.id} was made by a newer tuneloop ({version}); this is {tuneloop.__version__}: upgrade to go on with it"
    )


def older_version_error(run: RunFolder, version: str) -> InvalidRequestError:
    """What is said of a run whose format is not read any more."""
    return InvalidRequestError(
        f"run {run.id} was made by an older tuneloop ({version}), whose runs {tuneloop.__version__} does not read: start it anew"
    )


# The runs there are.


def all_runs(home: Home) -> list[RunFolder]:
    """All runs, newest first."""
    found = home.runs.glob("[!.]*/run.yaml") if home.runs.is_dir() else []
    return [RunFolder(p.parent) for p in sorted(found, key=lambda p: (p.stat().st_mtime_ns, p), reverse=True)]


def find_run(home: Home, name: str) -> RunFolder:
    """The run called `name`. Raises InvalidRequestError, which says the closest name there is."""
    by_name = {run.id: run for run in all_runs(home)}
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see: tuneloop list runs"
        raise InvalidRequestError(f"no run {name!r} in {home.runs}: {hint}")
    return by_name[name]
