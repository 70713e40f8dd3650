"""A run's manifest `run.yaml`: what was asked, and which tuneloop wrote it in which format."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import yaml
from pydantic import ValidationError

import tuneloop
from tuneloop.core.errors import SetupError
from tuneloop.core.files import read_json, write_atomic
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec

# Raised with every change of what a run's folder holds; runs of other formats are refused.
FORMAT = 2


def write_manifest(run: RunFolder, spec: RunSpec) -> None:
    """Version, time and spec."""
    made = {
        "version": tuneloop.__version__,
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
    }
    write_atomic(run.spec, yaml.safe_dump({**made, "spec": spec.model_dump(mode="json")}, sort_keys=False))


def read_spec(run: RunFolder) -> RunSpec:
    """What was asked. Raises SetupError in one line: no such run, unreadable, or made by another tuneloop."""
    given = read_manifest(run)
    version, made = str(given.get("version", "unknown")), given.get("format", 1)
    if made != FORMAT:
        raise newer(run, version) if isinstance(made, int) and made > FORMAT else older(run, version)
    try:
        return RunSpec.model_validate(given["spec"])
    except (KeyError, TypeError, ValidationError) as e:
        raise SetupError(f"{run.spec}: not a run's manifest: {' '.join(str(e).split())}") from e


def repeated_spec(run: RunFolder) -> RunSpec:
    """What was asked, measured on as many validation items as then. Raises SetupError as `read_spec`."""
    spec = read_spec(run)
    if spec.benchmark_limit is not None or not run.validation.is_file():
        return spec
    return spec.model_copy(update={"benchmark_limit": read_json(run.validation)["limit"]})


def created(run: RunFolder) -> str:
    """When the run was begun: two runs of one name are told apart by it."""
    return str(read_manifest(run).get("created", ""))


def made_by(run: RunFolder) -> str:
    """The version of tuneloop that made the run."""
    return str(read_manifest(run).get("version", "unknown"))


def read_manifest(run: RunFolder) -> dict[str, Any]:
    """Plain values of `run.yaml`. Raises SetupError when it is not there or no mapping."""
    try:
        given = yaml.safe_load(run.spec.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise SetupError(f"run {run.id!r} is not in {run.root.parent}; `tuneloop list runs` shows them") from e
    except (OSError, ValueError, yaml.YAMLError) as e:
        raise SetupError(f"{run.spec}: not a run's manifest: {' '.join(str(e).split())}") from e
    if not isinstance(given, dict):
        raise SetupError(f"{run.spec}: not a run's manifest: no mapping")
    return given


def newer(run: RunFolder, version: str) -> SetupError:
    """What is said of a run from the future."""
    return SetupError(
        f"run {run.id} was made by a newer tuneloop ({version}); this is {tuneloop.__version__}: upgrade to go on with it"
    )


def older(run: RunFolder, version: str) -> SetupError:
    """What is said of a run whose format is not read any more."""
    return SetupError(
        f"run {run.id} was made by an older tuneloop ({version}), whose runs {tuneloop.__version__} does not read: start it anew"
    )
