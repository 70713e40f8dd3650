"""What is Ray's alone: its address, token and resources, and what its dashboard says. Its jobs: `test_cluster.py`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.http_server import ClosingServer
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import TICKET, Exit
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.cluster import job_name
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.ray import RaySandbox, last_line, parse_resources

Opener = Callable[..., RaySandbox]
NODE = {"state": "ALIVE", "resources_total": {"CPU": 8.0, "memory": 64e9, "node:10.0.0.1": 1.0}}
NODES = {"/api/v0/nodes": {"data": {"result": {"result": [NODE]}}}}


@contextmanager
def dashboard(answers: dict[str, Any], asked: list[str]) -> Iterator[str]:
    """What stands for a cluster that cannot be made here: one that grows, one that forgets."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            answer = answers.get(self.path.partition("?")[0])
            self.send_response(200 if answer is not None else 404)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        do_DELETE = do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    with ClosingServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def asked() -> list[str]:
    """What the dashboard was asked."""
    return []


@pytest.fixture
def opened(asked: list[str]) -> Iterator[Opener]:
    """A sandbox on a cluster whose dashboard answers so."""
    answers: dict[str, Any] = {}
    with dashboard(answers, asked) as address:

        def made(resources: tuple[str, ...] = (), **more: Any) -> RaySandbox:
            answers.update({**NODES, **{f"/{name}": value for name, value in more.items()}})
            return RaySandbox(ProcessSandbox(), address, "", resources)

        yield made


@pytest.mark.parametrize("address", [None, "", "auto", "ray://head:10001", "head:6379", "http://", "http://head:99999"])
def test_an_address_that_is_no_dashboards_is_refused(address: str | None) -> None:
    with pytest.raises(InvalidRequestError, match=r"^--executor ray: .*; right is RAY_ADDRESS=http://HEAD:8265$"):
        RaySandbox(ProcessSandbox(), address, "")


@pytest.mark.parametrize(
    "word",
    ["gpu", "GPU=1", "gpus=1", "cpus=2", "num_gpus=1.5", "num_gpus=-1", "memory=32GB", "x=1GiB", "num_gpus=", "x=1.5"],
)
def test_resources_that_are_none_are_refused(word: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_RAY_RESOURCES: .*right is "):
        parse_resources((word,))


def test_resources_are_those_of_ray() -> None:
    found = parse_resources(("num_gpus=0.5", "num_cpus=1.5", "memory=1.5GiB", "accelerator_type:A100=0.001", "big=2"))
    assert found == {"GPU": 0.5, "CPU": 1.5, "memory": 1.5 * 2**30, "accelerator_type:A100": 0.001, "big": 2}


def test_what_does_not_answer_is_said(tmp_path: Path, opened: Opener) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"^--executor ray: Ray at 127.0.0.1 cannot be reached \(ConnectError\)"
    ):
        RaySandbox(ProcessSandbox(), "http://127.0.0.1:9", "").check_reachable(tmp_path)
    for answer in (b"<html>", {}, {"data": 1}):
        sandbox = opened(**{"api/v0/nodes": answer})
        with pytest.raises(InvalidRequestError, match="what answers is no dashboard of Ray: look at RAY_ADDRESS"):
            sandbox.check_reachable(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "grows"),
    [({"a1": "node_a1"}, False), ({"a1": "node_a1", "b2": "gpu-group"}, True), ({}, True), (None, True)],
)
def test_what_an_autoscaler_may_add_is_not_refused(
    opened: Opener, tmp_path: Path, kinds: dict[str, str] | None, grows: bool
) -> None:
    told = None if kinds is None else {"autoscalerReport": {"nodeTypeMapping": kinds}}
    sandbox = opened(("num_gpus=8",), **{"api/cluster_status": {"data": {"clusterStatus": told}}})
    if grows:
        sandbox.check_reachable(tmp_path)
        return
    with pytest.raises(
        InvalidRequestError, match=r"no node has 8 GPU: look at .*; there is 1 × 8 CPU, 64.0 GB memory$"
    ):
        sandbox.check_reachable(tmp_path)


def test_what_is_written_down_decides_and_ray_forgets_it(opened: Opener, asked: list[str], tmp_path: Path) -> None:
    """Ray calls a job FAILED that worked."""
    folder = tmp_path / "train.1"
    folder.mkdir()
    row: dict[str, Any] = {
        "submission_id": job_name(folder),
        "status": "FAILED",
        "error_type": "JOB_ENTRYPOINT_COMMAND_START_ERROR",
    }
    row |= {"message": "psutil.NoSuchProcess", "metadata": {"folder": str(folder)}}
    sandbox = opened(
        **{"api/jobs/": [row, {**row, "submission_id": "of somebody else"}, {**row, "submission_id": None}]}
    )
    (folder / "command.json").write_text("{}")
    (folder / TICKET).write_text(job_name(folder))
    assert sandbox.ray.jobs(now=True) == {}
    assert asked == ["GET /api/jobs/"]
    (folder / "exit.json").write_text(Exit(code=0, reason="finished", seconds=1.0).model_dump_json())
    assert sandbox.poll(folder).exit == Exit(code=0, reason="finished", seconds=1.0)
    sandbox.ray.jobs(now=True)
    assert asked[1:] == ["GET /api/jobs/", f"DELETE /api/jobs/{job_name(folder)}"]


@pytest.mark.parametrize(
    "rows", [{}, None, "x", [1], [{}], [[]], [{"submission_id": "tuneloop-1", "type": "no status"}]]
)
def test_what_is_no_list_of_jobs_is_said(opened: Opener, rows: Any) -> None:
    with pytest.raises(InfrastructureError, match=r"is no dashboard of Ray|^Ray at 127.0.0.1: "):
        opened(**{"api/jobs/": rows}).ray.list_jobs()


@pytest.mark.parametrize(
    "row", [{}, {"state": "ALIVE", "resources_total": None}, 1, {**NODE, "resources_total": {"CPU": "8"}}]
)
def test_what_is_no_list_of_nodes_is_said(opened: Opener, row: Any) -> None:
    sandbox = opened(**{"api/v0/nodes": {"data": {"result": {"result": [row]}}}})
    with pytest.raises(InfrastructureError, match="is no dashboard of Ray"):
        sandbox.ray.nodes()


@pytest.mark.parametrize("metadata", [None, 1, {}, {"folder": 1}, {"folder": "\0"}, {"folder": "/other/x" * 900}])
def test_a_row_whose_folder_cannot_be_looked_at_is_kept(opened: Opener, metadata: Any) -> None:
    row = {"submission_id": "tuneloop-1", "status": "FAILED", "metadata": metadata}
    sandbox = opened(**{"api/jobs/": [row]})
    assert sandbox.ray.list_jobs() == {}
    assert set(sandbox.ray.over) == {"tuneloop-1"}


def test_a_job_that_did_not_begin_is_not_waited_for_where_the_head_is_lost(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = opened()
    (tmp_path / TICKET).write_text("")
    assert sandbox.poll(tmp_path).state == "running"
    monkeypatch.setattr(RaySandbox, "patience", 0.0)
    with pytest.raises(InfrastructureError, match=r"^Ray at 127.0.0.1: .*, then `tuneloop resume`$"):
        sandbox.poll(tmp_path)


def test_the_manifests_are_whole() -> None:
    """One shared folder in all pods, and an address and resources that are taken."""
    place = Path(__file__).parent.parent.parent / "examples" / "ray"
    claim, cluster, pod = yaml.safe_load_all((place / "kuberay.yaml").read_text())
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    pods = [*(group["template"]["spec"] for group in groups), pod["spec"]]
    assert {json.dumps(one["volumes"]) for one in pods} == {json.dumps(pod["spec"]["volumes"])}
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert {one["securityContext"]["runAsUser"] for one in pods} == {1000}  # folders of jobs are closed to others
    (shared,) = {one["containers"][0]["volumeMounts"][0]["mountPath"] for one in pods}
    env = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
    settings = Settings(**env)
    assert settings.file_path.is_relative_to(shared)
    assert settings.engines_dir is not None and settings.engines_dir.is_relative_to(shared)
    asked = RaySandbox(ProcessSandbox(), settings.ray_address, "", settings.ray_resources).asked
    limits = groups[1]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (asked["GPU"], asked["CPU"]) == (int(limits["nvidia.com/gpu"]), int(limits["cpu"]))
    assert {"name", "resources", "setup", "run"} <= yaml.safe_load((place / "skypilot.yaml").read_text()).keys()


def test_last_lines() -> None:
    assert last_line("Traceback:\n  x\nValueError: no\n.\n") == "ValueError: no"
    assert last_line("") == ""
