"""A run's manifest `run.yaml`: what was asked, and which tuneloop wrote it in which format."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import tuneloop
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import checked, read_field, read_yaml
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import AUTO, RunSpec
from tuneloop.tools.runs.signature import check_signed, write_signed_spec

# Raised with every change of what a run's folder holds; runs of other formats are refused.
FORMAT = 4


def write_manifest(run: RunFolder, spec: RunSpec) -> None:
    """Version, time and spec, signed by the home."""
    import yaml  # slow, and most commands write none

    made = {
        "version": tuneloop.__version__,
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
    }
    write_signed_spec(run, yaml.safe_dump({**made, "spec": spec.model_dump(mode="json")}, sort_keys=False))


def read_spec(run: RunFolder) -> RunSpec:
    """What was asked. Raises InvalidRequestError in one line: no such run, unreadable, or made by another tuneloop."""
    return _read_spec(run, run.spec.stat().st_mtime_ns if run.spec.is_file() else 0)


@lru_cache(maxsize=8)  # YAML is slow to read, and every look at a job asks
def _read_spec(run: RunFolder, _stamp: int) -> RunSpec:
    given = read_manifest(run)
    version, made = str(given.get("version", "unknown")), given.get("format", 1)
    if made != FORMAT:
        raise (
            newer_version_error(run, version)
            if isinstance(made, int) and made > FORMAT
            else older_version_error(run, version)
        )
    return checked(run.spec, given.get("spec"), RunSpec, "spec")


def repeated_spec(run: RunFolder) -> RunSpec:
    """What was asked, with the base model that was chosen then, measured on as many validation items as then.

    Raises InvalidRequestError as `read_spec`, and for a run of another home.
    """
    spec = read_spec(run)
    check_signed(run)
    spec = spec.model_copy(update={"base_model": base_model_of(run, spec)})
    if spec.benchmark_limit is not None or not run.validation.is_file():
        return spec
    return spec.model_copy(update={"benchmark_limit": read_field(run.validation, "limit", int | None)})


def base_model_of(run: RunFolder, spec: RunSpec) -> str:
    """The base model as asked for, or as the run has chosen it; `auto` until then."""
    chosen = spec.base_model == AUTO and run.model_choice.is_file()
    return read_field(run.model_choice, "base_model", str) if chosen else spec.base_model


def created_at(run: RunFolder) -> str:
    """When the run was begun: two runs of one name are told apart by it."""
    return str(read_manifest(run).get("created", ""))


def creating_version(run: RunFolder) -> str:
    """The version of tuneloop that made the run."""
    return str(read_manifest(run).get("version", "unknown"))


def read_manifest(run: RunFolder) -> dict[str, Any]:
    """Plain values of `run.yaml`. Raises InvalidRequestError when it is not there or no mapping."""
    try:
        return checked(run.spec, read_yaml(run.spec), dict[str, Any])
    except FileNotFoundError as e:
        raise InvalidRequestError(f"run {run.id!r} is not in {run.root.parent}; `tuneloop list runs` shows them") from e


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
