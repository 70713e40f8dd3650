"""Spans of a scripted run arrive at a stand-in that speaks OTLP over HTTP: one tree, also across crashes and pauses."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tuneloop.core.event_log import append
from tuneloop.core.events import (
    AgentAnswered,
    Event,
    JobProgress,
    NodeFinished,
    NodeStarted,
    RecipeFailure,
    RunPaused,
    RunStarted,
)
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score
from tuneloop.graph.telemetry import export
from tuneloop.graph.telemetry.spans import collect_spans, span_id, trace_id

DEFAULT = ("--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "1")
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECRET = "What is the secret of row 17?"


class Collector(BaseHTTPRequestHandler):
    """What a real collector does with /v1/traces."""

    received: list[Any]

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        self.received.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Received:
    """Spans that came in."""

    def __init__(self, requests: list[Any], url: str) -> None:
        self.requests, self.url = requests, url

    @property
    def all(self) -> list[Any]:
        return [s for r in self.requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]

    def wait(self, count: int, seconds: float = 20) -> list[Any]:
        deadline = time.monotonic() + seconds
        while len(self.all) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.all

    def tree(self) -> dict[str, str]:
        """Name of a span → name of its parent."""
        names = {s.span_id: s.name for s in self.all}
        return {s.name: names.get(s.parent_span_id, "?" if s.parent_span_id else "") for s in self.all}


@pytest.fixture
def collector() -> Iterator[Received]:
    requests: list[Any] = []
    handler = type("Handler", (Collector,), {"received": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Received(requests, f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


class Script:
    """A run told by hand, second by second."""

    def __init__(self, run: RunFolder) -> None:
        self.run, self.now = run, 0.0

    def tell(self, event: type[Event], after: float = 1.0, **facts: Any) -> None:
        self.now += after
        said = event(at=self.at(), **facts)
        append(self.run.events, said)
        export.send_event(self.run, said)

    def node(
        self, name: str, experiment: int = 0, before: int | None = None, during: Callable[[], None] | None = None
    ) -> None:
        self.tell(NodeStarted, node=name, experiment=experiment if before is None else before)
        if during:
            during()
        self.tell(NodeFinished, node=name, experiment=experiment, seconds=1.0, cpu=0.25)

    def started(self) -> None:
        self.tell(RunStarted, run=self.run.id, benchmark="b", base_model="tiny", planner="p", sandbox="s")

    def job(self, place: Path, name: str, *, code: int | None = 0) -> None:
        folder = place / "jobs" / name
        folder.mkdir(parents=True)
        command = {"argv": ["python", SECRET], "env": {"HF_TOKEN": SECRET}}
        for file, told in (("command.json", command), ("log.txt", SECRET), ("exit.json", self.end(code))):
            if told is not None:
                self.now += 0.1
                part = folder / ".part"
                part.write_text(json.dumps(told))
                os.utime(part, (self.at().timestamp(),) * 2)
                part.rename(folder / file)  # whole at once, as a supervisor does

    @staticmethod
    def end(code: int | None) -> dict[str, Any] | None:
        return (
            None
            if code is None
            else {"code": code, "reason": "finished", "seconds": 0.2, "peak_memory": 77, "cpu": 0.1}
        )

    def at(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def close(self, number: int, *, failed: bool = False) -> None:
        score = Score(benchmark="b", split="validation", metric="accuracy", value=61.5, low=1, high=99, n=9, parsed=100)
        done = Experiment(
            number=number,
            hypothesis=Hypothesis(statement=SECRET, reason=SECRET, disproof="d", aspect="noise"),
            score=None if failed else score,
            failure=Failure(node="train", culprit="config", text=SECRET) if failed else None,
            feedback=Feedback(promoted=not failed, critique=Critique(explanation=SECRET, lesson=SECRET)),
        )
        write_json(self.run.experiment(number).result, done.model_dump(mode="json"))

    def report(self) -> None:
        scores = {"test": {"value": 60.0}}
        told: dict[str, Any] = {
            "benchmark": "b",
            "base_model": "tiny",
            "planner": "p",
            "sandbox": "s",
            "experiments": [1],
        }
        told |= {"budget": {"experiments": 1, "seconds": 9.0, "spent": {}}, "claim": None}
        best = {"experiment": 1, "delivered": True, "claimed": True, **scores}
        write_json(self.run.report_json, {**told, "baseline": scores, "best": best})


def small_run(run: RunFolder) -> None:
    """Prepare, one experiment whose smoke run fails once and whose training outlives a crash, finish."""
    script, folder = Script(run), run.experiment(1).root
    script.started()
    script.node("prepare", during=lambda: script.job(run.baseline, "evaluate.1"))
    script.node("research", 1, before=0, during=lambda: script.tell(AgentAnswered, agent="researcher", says=SECRET))

    def troubled() -> None:
        script.job(folder, "smoke_run.1", code=1)
        script.tell(RecipeFailure, node="smoke_run", culprit="config", text=SECRET, experiment=1)

    script.node("smoke_run", 1, during=troubled)
    script.tell(NodeStarted, node="train", experiment=1)
    script.job(folder, "train.1", code=None)
    script.tell(JobProgress, job="train", done=1, total=2, experiment=1)
    # kill -9 of everything; an hour later
    script.now += 3600
    script.started()
    script.node("train", 1, during=lambda: script.job(folder, "train.2"))
    script.tell(NodeStarted, node="evaluate", experiment=1)
    script.tell(RunPaused, reason=SECRET)
    script.started()
    script.node("evaluate", 1, during=lambda: script.job(folder, "evaluate.1"))
    script.node("critique", 1, during=lambda: script.close(1))

    def merged_and_told() -> None:
        script.job(run.final, "merge.1")
        script.report()

    script.node("finish", 1, during=merged_and_told)


def facts(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_one_tree_across_a_crash_and_a_pause(
    tmp_path: Path, collector: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    run = RunFolder(tmp_path / "runs" / "r1")
    small_run(run)
    found = collector.wait(17)
    told = [(s.name, collector.tree()[s.name], s.status.message) for s in found]
    assert sorted(told) == sorted(
        [
            ("run", "", ""),
            ("prepare", "run", ""),
            ("job evaluate", "evaluate", ""),
            ("experiment 1", "run", ""),
            ("research", "experiment 1", ""),
            ("smoke_run", "experiment 1", "problem: config"),
            ("job smoke_run", "smoke_run", "finished, exit status 1"),
            ("train", "experiment 1", "cut short"),
            ("train", "experiment 1", ""),
            ("job train", "train", "lost"),
            ("job train", "train", ""),
            ("evaluate", "experiment 1", "cut short"),
            ("evaluate", "experiment 1", ""),
            ("job evaluate", "evaluate", ""),
            ("critique", "experiment 1", ""),
            ("finish", "run", ""),
            ("job merge", "finish", ""),
        ]
    )
    assert {s.trace_id for s in found} == {trace_id(run).to_bytes(16, "big")}
    assert len({s.span_id for s in found}) == len(found)
    (root,) = [s for s in found if s.name == "run"]
    begin, end = (datetime.fromtimestamp(ns / 1e9, UTC) for ns in (root.start_time_unix_nano, root.end_time_unix_nano))
    assert begin == START + timedelta(seconds=1)
    assert (end - begin).total_seconds() > 3600
    for s in found:
        assert root.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano <= root.end_time_unix_nano


def test_numbers_and_names_but_no_text(tmp_path: Path, collector: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    run = RunFolder(tmp_path / "runs" / "r1")
    small_run(run)
    by_name = {s.name: facts(s) for s in collector.wait(17)}
    assert by_name["run"] == {
        "tuneloop.run": "r1", "tuneloop.benchmark": "b", "tuneloop.base_model": "tiny", "tuneloop.planner": "p",
        "tuneloop.sandbox": "s", "tuneloop.experiments": 1, "tuneloop.best": 1, "tuneloop.baseline.test": 60.0,
        "tuneloop.best.test": 60.0,
    }  # fmt: skip
    assert by_name["experiment 1"]["tuneloop.score"] == 61.5
    assert by_name["experiment 1"]["tuneloop.outcome"] == "promoted"
    assert by_name["critique"]["tuneloop.cpu_seconds"] == 0.25
    job = by_name["job merge"]
    assert (job["tuneloop.code"], job["tuneloop.peak_memory"], job["tuneloop.attempt"], job["tuneloop.cpu"]) == (
        0,
        77,
        1,
        0.1,
    )
    raw = b"".join(r.SerializeToString() for r in collector.requests)
    assert SECRET.encode() not in raw
    assert str(tmp_path).encode() not in raw
    assert b"deployment.environment" in raw and b"tuneloop" in raw


def test_a_failed_experiment_is_an_error(tmp_path: Path) -> None:
    script = Script(RunFolder(tmp_path / "r"))
    script.started()
    script.node("research", 1, before=0)
    script.tell(NodeStarted, node="critique", experiment=1)
    script.close(1, failed=True)
    end = NodeFinished(at=script.at(), node="critique", experiment=1, seconds=1)
    append(script.run.events, end)
    found = {s.name: s for s in collect_spans(script.run, end, script.run.events.stat().st_size)}
    assert found["experiment 1"].error == "train: config"
    assert found["experiment 1"].begin == START + timedelta(seconds=2)
    assert found["critique"].parent == span_id(script.run, "experiment", 1)


def test_same_run_name_gives_another_trace(tmp_path: Path) -> None:
    one, other = (Script(RunFolder(tmp_path / place / "r")) for place in ("a", "b"))
    one.started()
    other.now = 5
    other.started()
    assert trace_id(one.run) != trace_id(other.run)


@pytest.mark.parametrize("away", ["refuses", "is silent"])
def test_a_dead_collector_costs_nothing(tmp_path: Path, away: str) -> None:
    """The whole small run in a process of its own, told by the process's clock; one line on stderr at most."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if away == "refuses":
            server.close()
        code = (
            "import sys, time; from pathlib import Path\n"
            f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "from test_export import small_run; from tuneloop.core.layout import RunFolder\n"
            "began = time.monotonic(); small_run(RunFolder(Path(sys.argv[1]))); print(time.monotonic() - began)"
        )
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        began = time.monotonic()
        argv = [sys.executable, "-c", code, str(tmp_path / "r")]
        p = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
        whole = time.monotonic() - began
    assert p.returncode == 0, p.stderr
    assert float(p.stdout) < 2
    assert whole < 20
    assert p.stderr.count("\n") <= 1
    assert not p.stderr or p.stderr.startswith("traces do not arrive; the run goes on without: ")


def test_unasked_nothing_is_imported() -> None:
    code = (
        "import sys; from pathlib import Path; from tuneloop.graph.telemetry import export as tracing\n"
        "from tuneloop.core.events import RunPaused\n"
        "from tuneloop.core.layout import RunFolder\n"
        "tracing.send_event(RunFolder(Path('/nowhere')), RunPaused(reason='x'))\n"
        "print([m for m in sys.modules if m.startswith('opentelemetry')], len(__import__('threading').enumerate()))"
    )
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert p.stdout == "[] 1\n"


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
    ],
)
def test_the_standard_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on: bool) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert export.is_tracing_enabled() is on


def test_without_the_extra_one_line_says_so(tmp_path: Path) -> None:
    """A process that cannot find the exporter."""
    code = (
        "import sys; sys.modules['opentelemetry.exporter'] = None\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "sys.modules['opentelemetry.proto.collector.trace.v1.trace_service_pb2'] = type(sys)('x')\n"
        "x = sys.modules['opentelemetry.proto.collector.trace.v1.trace_service_pb2']\n"
        "x.ExportTraceServiceRequest = x.ExportTraceServiceResponse = None\n"
        "from pathlib import Path; from test_export import small_run; from tuneloop.core.layout import RunFolder\n"
        "small_run(RunFolder(Path(sys.argv[1])))"
    )
    env = {**os.environ, "OTEL_TRACES_EXPORTER": "otlp"}
    p = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert p.stderr == (
        "traces are asked for but opentelemetry.exporter.otlp.proto.http is missing: pip install 'tuneloop[otel]'\n"
    )


@pytest.mark.soak
def test_a_real_run_is_one_tree(warm_home: Path, collector: Received) -> None:
    run = RunFolder(warm_home / "runs" / "traced")
    env = {**os.environ, "FT_FILE_PATH": str(warm_home), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    argv = [sys.executable, "-m", "tuneloop.cli.main", "run", *DEFAULT, "--run-id", run.id, "--json"]
    p = subprocess.run(argv, env=env, cwd=warm_home.parent, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-2000:]
    nodes = [
        "research",
        "engineer_data",
        "write_config",
        "validate",
        "build_data",
        "smoke_run",
        "train",
        "evaluate",
        "critique",
    ]
    tree = collector.tree()
    assert tree["run"] == "" and tree["experiment 1"] == tree["prepare"] == tree["finish"] == "run"
    assert {name: tree[name] for name in nodes} == dict.fromkeys(nodes, "experiment 1")
    # The last `job evaluate` is the sealed test's.
    assert tree["job evaluate"] == "finish" and tree["job train"] == "train" and tree["job dry_run"] == "validate"
    found = collector.all
    assert {s.trace_id for s in found} == {trace_id(run).to_bytes(16, "big")}
    jobs = sum(1 for p in run.root.rglob("jobs/*/exit.json"))
    assert len([s for s in found if s.name.startswith("job ")]) == jobs >= 7
    (train,) = [s for s in found if s.name == "job train"]
    told = json.loads((run.experiment(1).jobs / "train.1" / "exit.json").read_text())
    assert (train.end_time_unix_nano - train.start_time_unix_nano) / 1e9 == pytest.approx(told["seconds"], abs=2)
    times = json.loads(run.report_json.read_text())["budget"]["times"]
    (spent,) = [t for t in times if t["node"] == "train"]
    assert spent["jobs"] == pytest.approx(told["seconds"], abs=0.01)
    (node,) = [s for s in found if s.name == "train"]
    assert (node.end_time_unix_nano - node.start_time_unix_nano) / 1e9 == pytest.approx(spent["seconds"], abs=0.5)
    # The one experiment is best and last: its weights stay, its scratch went.
    assert list(run.experiment(1).model.glob("*.safetensors"))
    assert not (run.experiment(1).work / "smoke_run_model").exists()
    assert not list(run.root.rglob("*.part"))
