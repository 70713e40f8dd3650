"""Ask a model a list of things as one job behind a door: what is asked, and what it left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest, write_json, write_lines
from tuneloop.core.job import Command, Limits
from tuneloop.core.layout import job_input_file
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.llm_proxy.access import Access, upstreams

SCRIPT = ENGINES / "llm_client" / "ask.py"
CLIENT = ENGINES / "llm_client" / "tuneloop_models"  # what data scripts ask with
SOURCES = (SCRIPT, CLIENT / "endpoint.py")
RESULTS = "results.json"
SPENT = "limit_reached"


@dataclass(frozen=True)
class LlmRequest:
    """One question. `path`: `chat/completions` or `completions`; `spare`: fields that the endpoint may do without."""

    id: str
    path: str
    body: dict[str, Any]
    spare: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """By content."""
        return digest(self.path, json.dumps(self.body, sort_keys=True))


@dataclass(frozen=True)
class LlmAnswer:
    """`text` None: there is none, and `why` says why; `finish`: how it ended; `model`: who says to have written it."""

    text: str | None
    finish: str
    model: str
    why: str


def batch_command(
    engine: Engine, requests: Sequence[LlmRequest], out: Path, access: Access, limits: Limits, settings: Settings
) -> Command:
    """The job that asks all `requests` and leaves `out/results.json`; launched with `access`, again after a kill.

    What it has heard stays in `out` and is not asked again of the same endpoint. Writes the job's input beside `out`.
    """
    place = job_input_file(out.parent, out.name)
    keys = {r.id: digest(upstreams(settings)[access.purpose].base, r.key) for r in requests}
    rows = [{"id": r.id, "key": keys[r.id], "path": r.path, "body": r.body, "spare": r.spare} for r in requests]
    write_lines(place / "requests.jsonl", rows)
    write_json(
        place / "job.json", {"out": str(out), "workers": access.workers, "requests": str(place / "requests.jsonl")}
    )
    out.mkdir(parents=True, exist_ok=True)
    return Command(
        argv=(str(engine.python), "-s", str(SCRIPT), str(place / "job.json")),
        cwd=str(out),
        env={
            "PYTHONPATH": str(CLIENT.parent),
            "HOME": str(out),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        },
        read=(*engine.readable, str(SCRIPT), str(CLIENT), str(place)),
        write=(str(out),),
        limits=limits,
        key=digest(*(source.read_bytes() for source in SOURCES), *(f"{name} {key}" for name, key in keys.items())),
    )


def read_answers(out: Path, wanted: Sequence[LlmRequest]) -> dict[str, LlmAnswer]:
    """What the job left, by id, one for each of `wanted`. Raises InfrastructureError when it left something else."""
    try:
        rows = read_untrusted_json(out / RESULTS)["results"]
        told = ("finish", "model", "why")
        found = {str(row["id"]): LlmAnswer(_text(row["text"]), *(str(row[name]) for name in told)) for row in rows}
    except (FileNotFoundError, ValueError, LookupError, TypeError) as e:
        raise InfrastructureError(f"{out / RESULTS} cannot be read: {e!r}"[:500]) from e
    if found.keys() != {one.id for one in wanted}:
        raise InfrastructureError(
            f"{out / RESULTS} has {len(found)} answers; right is one to each of {len(wanted)} requests"
        )
    return found


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"an answer is no text but {type(value).__name__}")
    return value
