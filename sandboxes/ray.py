"""Ray: the REST interface of Ray Jobs, of which every Ray cluster has one; no part of Ray is needed on this machine.

Ray sees an entrypoint, never the job: it may call one FAILED that worked, forget one, and start one that it was told to stop
while it waited. `cluster.py` says what decides. A finished job's record is deleted, for Ray itself keeps it for ever.
"""

from __future__ import annotations

import math
import os.path
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.formatting import format_size
from tuneloop.core.job import Command
from tuneloop.core.setting_values import parse_web_address
from tuneloop.sandboxes.cluster import ClusterSandbox, Ended, Scheduler, Seen, job_name
from tuneloop.sandboxes.local import LocalSandbox

ASK_SECONDS = 30.0  # for an answer of the dashboard: a busy head takes its time
PATIENCE = 300.0  # a head that is lost does not come back by itself
MEANS: dict[str, Literal["refused", "queued"]] = {
    "JOB_ENTRYPOINT_COMMAND_ERROR": "refused",
    "RUNTIME_ENV_SETUP_FAILURE": "refused",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": "refused",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "queued",  # after a quarter of an hour without a place
}
RESOURCE = re.compile(r"(\w[\w:.-]*)=(\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB)?")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}  # as users of Ray write them, as its nodes list them


class RayJobs(Scheduler):
    """A cluster's dashboard."""

    def __init__(self, address: str, token: str) -> None:
        super().__init__()
        self.address, self.token = address.rstrip("/"), token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx2.Client(headers=headers, timeout=ASK_SECONDS, trust_env=False)
        self.over: dict[str, dict[str, Any]] = {}

    def ask(self, method: str, path: str, *keys: str, body: dict[str, Any] | None = None) -> Any:
        """What it answers below these keys. Raises InfrastructureError with the cure, or with its own words."""
        where = self.where
        try:
            answer = self.client.request(method, self.address + path, json=body)
            if answer.is_success:
                return reduce(getitem, keys, answer.json())
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            raise InfrastructureError(f"{where} cannot be reached ({type(e).__name__}): look at RAY_ADDRESS") from e
        except (ValueError, LookupError, TypeError) as e:
            raise self.stranger() from e
        if answer.status_code in (401, 403):
            how = "refuses the token" if self.token else "wants a token, and none is set"
            raise InfrastructureError(f"{where} {how} ({answer.status_code}): look at RAY_AUTH_TOKEN")
        raise InfrastructureError(f"{where}: {last_line(answer.text) or answer.status_code}")

    @property
    def where(self) -> str:
        """For people."""
        return f"Ray at {urlsplit(self.address).hostname}"

    def stranger(self) -> InfrastructureError:
        """What answers is something else."""
        return InfrastructureError(f"{self.where}: what answers is no dashboard of Ray: look at RAY_ADDRESS")

    def ask_rows(self, path: str, *keys: str, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
        """A list of objects that have what is `wanted`. Raises as `ask`."""
        rows = self.ask("GET", path, *keys)
        if not isinstance(rows, list) or not all(isinstance(row, dict) and {*wanted} <= {*row} for row in rows):
            raise self.stranger()
        return rows

    def list_jobs(self) -> dict[str, Seen]:
        """Jobs of tuneloop, whoever's; those whose end is written down in their folder are deleted."""
        rows = self.ask_rows("/api/jobs/", wanted=("status",))
        rows = [row for row in rows if str(row.get("submission_id")).startswith("tuneloop-")]
        live = {row["submission_id"]: row for row in rows if row["status"] in ("PENDING", "RUNNING")}
        self.over = {row["submission_id"]: row for row in rows if row["submission_id"] not in live}
        for row in [*self.over.values()]:
            folder = named_folder(row)
            if folder and os.path.exists(f"{folder}/exit.json"):  # noqa: PTH110 - of others' folders: never raises
                self.forget(Path(folder))
        return {name: Seen(name, row["status"], said(row)) for name, row in live.items()}

    def ending(self, folder: Path) -> Ended | None:
        """As it was listed."""
        if (row := self.over.get(job_name(folder))) is None:
            return None
        kind = str(row.get("error_type") or row["status"])
        return Ended(kind, last_line(said(row)), MEANS.get(kind, "lost"))

    def cancel(self, folder: Path) -> None:
        """Ray starts one that waits all the same, when its turn comes; its claim is taken then, and it ends at once."""
        with suppress(InfrastructureError):
            self.ask("POST", f"/api/jobs/{job_name(folder)}/stop")

    def forget(self, folder: Path) -> None:
        """Delete it, which Ray allows for one that has ended."""
        if self.over.pop(job_name(folder), None):
            with suppress(InfrastructureError):
                self.ask("DELETE", f"/api/jobs/{job_name(folder)}")

    def nodes(self) -> list[dict[str, float]]:
        """What each node that lives has, free or not."""
        path = "/api/v0/nodes?limit=10000&detail=1"
        rows = self.ask_rows(path, "data", "result", "result", wanted=("state",))
        found = [row.get("resources_total") for row in rows if row["state"] == "ALIVE"]
        nodes = [node for node in found if isinstance(node, dict) and {*map(type, node.values())} <= {int, float}]
        if len(nodes) < len(found):
            raise self.stranger()
        return nodes

    def grows(self) -> bool:
        """Whether an autoscaler may add nodes of kinds that are not there; also where Ray does not say."""
        told = self.ask("GET", "/api/cluster_status", "data", "clusterStatus") or {}
        try:
            kinds = (told.get("autoscalerReport") or {}).get("nodeTypeMapping") or {"": ""}
        except AttributeError as e:
            raise self.stranger() from e
        if not isinstance(kinds, dict):
            raise self.stranger()
        return any(kind != f"node_{node}" for node, kind in kinds.items())

    def offers(self) -> str:
        """Nodes that have the same, together."""
        try:
            kinds = [describe(node) for node in self.nodes()]
        except InfrastructureError:
            return ""
        return " | ".join(f"{kinds.count(kind)} × {kind}" for kind in [*dict.fromkeys(kinds)][:8])


def named_folder(row: dict[str, Any]) -> str:
    """The folder of a job, "" where its row names none."""
    told = row.get("metadata")
    folder = told.get("folder") if isinstance(told, dict) else None
    return folder if isinstance(folder, str) else ""


def said(row: dict[str, Any]) -> str:
    """A row's message."""
    return str(row.get("message") or "")


@cache
def ray_jobs(address: str, token: str) -> RayJobs:
    """One for the process, for what was listed is kept."""
    return RayJobs(address, token)


class RaySandbox(ClusterSandbox):
    """The sandbox `inner`, on nodes of Ray. `resources`: what every job asks for."""

    name, executor, look, patience = "Ray", "ray", "its dashboard", PATIENCE
    # Ray leaves all devices visible to a job that was granted none.
    prelude = 'export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-}"\n'

    def __init__(
        self,
        inner: LocalSandbox,
        address: str | None,
        token: str,
        resources: Sequence[str] = (),
        memory: int | None = None,
    ) -> None:
        self.asked = parse_resources(resources)
        if memory:
            self.asked.setdefault("memory", memory)
        limits = [int(limit) for limit in (memory, self.asked.get("memory")) if limit]
        super().__init__(inner, min(limits, default=None))
        self.scheduler = self.ray = ray_jobs(check_address(address), token)

    def check_accepted(self) -> None:
        """It answers, and a node has what is asked for or may come."""
        if not self._fitting() and not self.ray.grows():
            raise InfrastructureError(f"no node has {describe(self.asked)}: look at TUNELOOP_RAY_RESOURCES")

    def _fitting(self) -> list[dict[str, float]]:
        """Nodes that have what is asked for, free or not."""
        asked = {"CPU": 1, **self.asked}
        return [node for node in self.ray.nodes() if all(node.get(name, 0) >= asked[name] for name in asked)]

    def submit(self, folder: Path, command: Command) -> str:
        """With a submission id that is the folder's: handed over twice, it is one job."""
        self.ray.forget(folder)  # of a folder that was here before
        asked = {"CPU": float(command.env.get("TUNELOOP_JOB_THREADS", "1")), **self.asked}
        if "CPU" not in self.asked:  # threads are this machine's measure, and no node may have as many cores
            asked["CPU"] = min(asked["CPU"], max((node.get("CPU", 0) for node in self._fitting()), default=math.inf))
        body = {
            "entrypoint": self.script(folder),
            "submission_id": job_name(folder),
            "metadata": {"folder": str(folder)},
            "entrypoint_num_cpus": asked.pop("CPU"),
            "entrypoint_num_gpus": asked.pop("GPU", 0),
            "entrypoint_memory": int(asked.pop("memory", 0)),
            "entrypoint_resources": asked,
        }
        self.ray.ask("POST", "/api/jobs/", body=body)
        return job_name(folder)


def check_address(address: str | None) -> str:
    """The dashboard's. Raises InvalidRequestError with the cure."""
    with suppress(ValueError):
        if found := parse_web_address(address):
            return str(found)
    said = f"RAY_ADDRESS={address} is not the address of a dashboard" if address else "RAY_ADDRESS names no cluster"
    raise InvalidRequestError(f"--executor ray: {said}; right is RAY_ADDRESS=http://HEAD:8265")


def parse_resources(words: Sequence[str]) -> dict[str, float]:
    """Ray's `num_cpus`, `num_gpus`, `memory` and names of a cluster's own, as nodes list them. Raises InvalidRequestError."""
    asked: dict[str, float] = {}
    for word in words:
        found = RESOURCE.fullmatch(word)
        if not found or found[1].lower() in ("cpu", "cpus", "gpu", "gpus") or (found[3] and found[1] != "memory"):
            raise InvalidRequestError(
                f"TUNELOOP_RAY_RESOURCES: {word!r} is no resource; right is num_gpus=1 num_cpus=4 memory=32GiB name=1"
            )
        asked[NAMES.get(found[1], found[1])] = amount = float(found[2]) * UNITS.get(found[3] or "", 1)
        if amount > 1 and amount % 1 and found[1] != "num_cpus":
            raise InvalidRequestError(f"TUNELOOP_RAY_RESOURCES: {word!r}: right is a whole number, or less than one")
    return asked


def describe(node: dict[str, float]) -> str:
    """Resources in a line, without Ray's own."""
    shown = {name: n for name, n in sorted(node.items()) if not name.startswith(("node:", "object_store"))}
    return ", ".join(f"{format_size(n) if name == 'memory' else f'{n:g}'} {name}" for name, n in shown.items())


def last_line(text: str) -> str:
    """What a traceback or a log ends with."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" .\t")]
    return lines[-1][:300] if lines else ""
