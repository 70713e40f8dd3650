"""A run that came from another machine: what it stands on is fetched here and must be the same; then this home signs it."""

from __future__ import annotations

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import json_text, read_bytes, write_atomic
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import Setup
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.integrity import read_setup
from tuneloop.graph.nodes.prepare import fetch_and_build
from tuneloop.graph.state import VERSION, State
from tuneloop.tools.runs.evidence import HASHES, adopt_evidence
from tuneloop.tools.runs.mirror import is_mirrored
from tuneloop.tools.runs.signature import trust_folder, write_signed_setup

PLACES = ("benchmark_root", "also", "model_root", "datasets", "views")


def adopt_run(run: RunFolder, settings: Settings) -> None:
    """Sign a run on its owner's word, with the places of model, data and benchmark in this home.

    Raises InvalidRequestError where one of them is not what the run stands on; InfrastructureError when it cannot be fetched.
    """
    before = read_bytes(run.signature).decode() if run.signature.is_file() else None
    trust_folder(run)
    if setup := read_setup(run):
        try:
            move(run, setup, settings)
        except BaseException:
            if before is None:
                run.signature.unlink()
            else:  # as it was
                write_atomic(run.signature, before)
            raise


def move(run: RunFolder, setup: Setup, settings: Settings) -> None:
    """Fetch what the run stands on, compare it, and sign the places and what experiments left. Raises as `adopt_run`."""
    here = fetch_and_build(Context(run, settings, State(version=VERSION, run_id=run.id)))
    for what, value in contents(here).items():
        if contents(setup).get(what) != value:
            raise InvalidRequestError(f"{what} is another one here than run {run.id} stands on: put that one there")
    moved = setup.model_copy(update={name: getattr(here, name) for name in PLACES})
    for root in (run.baseline, *sorted(run.experiments.glob("[0-9]*"))):
        if (root / HASHES).is_file():
            adopt_evidence(run, root, is_mirrored)
    write_signed_setup(run, json_text(moved.model_dump(mode="json")))


def contents(setup: Setup) -> dict[str, str]:
    """What a run stands on, each with its hash."""
    data = {f"data set {name}": value for name, value in setup.dataset_fingerprints.items()}
    items = {f"benchmark {placed.benchmark.name}": placed.fingerprint for placed in setup.benchmarks}
    return {f"base model {setup.model_name}": setup.model_fingerprint, **data, **items}
