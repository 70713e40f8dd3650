"""The official MCP conformance suite, pinned, against the real servers over HTTP; each check's verdict is read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED_HOME
from tests.foreign import Foreign
from tests.mcp_servers.test_http import serving
from tuneloop.mcp_servers.main import SERVERS
from tuneloop.tools.engines import Engine

HERE = Path(__file__).with_name("conformance")
OLD, NEW = "2025-11-25", "2026-07-28"
# Checks that succeed, by specification and scenario: a scenario that is skipped, or checks less than the pinned suite
# does, is seen. `caching` reads a resource where the server has one.
SCENARIOS: dict[tuple[str, str], int] = {
    (OLD, "server-initialize"): 3,
    (OLD, "server-session-lifecycle"): 3,
    (OLD, "ping"): 2,
    (OLD, "tools-list"): 3,
    (OLD, "server-sse-multiple-streams"): 2,
    (OLD, "dns-rebinding-protection"): 2,
    (OLD, "resources-list"): 2,
    (OLD, "prompts-list"): 2,
    (NEW, "server-stateless"): 23,
    (NEW, "tools-list"): 4,
    (NEW, "server-sse-multiple-streams"): 1,
    (NEW, "dns-rebinding-protection"): 2,
    (NEW, "caching"): 7,
    (NEW, "resources-list"): 2,
    (NEW, "prompts-list"): 2,
    (NEW, "sep-2164-resource-not-found"): 4,
    (NEW, "http-header-validation"): 14,
}
MORE = {("params", "caching"): 1}
# Checks of those scenarios that fail; expected-failures.yaml says why.
FAILED = {
    "server-stateless": {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"},
}


@dataclass(frozen=True)
class Ran:
    """The suite's end on one server under one specification; `checks` by scenario."""

    server: str
    spec: str
    status: int
    output: str
    checks: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def suite(foreign: Foreign) -> tuple[str, ...]:
    """The suite's command."""
    return foreign.script("conformance/dist/index.js")


def run_suite(suite: tuple[str, ...], name: str, port: int, spec: str, out: Path, *more: str) -> Ran:
    """All scenarios of a specification, or those that `more` chooses."""
    asked = (
        "--url",
        f"http://127.0.0.1:{port}/mcp",
        "--spec-version",
        spec,
        "-o",
        str(out),
        *(more or ("--suite", "all")),
    )
    argv = [*suite, "server", *asked, "--expected-failures", str(HERE / "expected-failures.yaml")]
    p = subprocess.run(argv, env={**os.environ, "NO_COLOR": "1"}, cwd=out, capture_output=True, text=True, timeout=300)
    told = {scenario_of(file.parent.name): json.loads(file.read_text()) for file in out.glob("*/checks.json")}
    return Ran(name, spec, p.returncode, p.stdout + p.stderr, told)


def scenario_of(folder: str) -> str:
    """`server-ping-2026-11-21T21-10-14-732Z` is what `ping` left."""
    return re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder).removeprefix("server-")


@pytest.fixture(scope="module", params=SERVERS)
def ran(
    request: pytest.FixtureRequest,
    suite: tuple[str, ...],
    llamafactory: Engine,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Ran]:
    """By specification, the whole suite on one server."""
    with serving(SHARED_HOME, name=request.param) as port:
        outs = {spec: tmp_path_factory.mktemp(f"{request.param}-{spec}-") for spec in (OLD, NEW)}
        return {spec: run_suite(suite, request.param, port, spec, out) for spec, out in outs.items()}


@pytest.mark.parametrize(("spec", "scenario"), SCENARIOS)
def test_a_server_conforms(ran: dict[str, Ran], spec: str, scenario: str) -> None:
    found = ran[spec].checks[scenario]
    verdicts = Counter(check["status"] for check in found)
    failed = {c["id"]: c.get("errorMessage") for c in found if c["status"] in ("FAILURE", "WARNING")}
    assert failed.keys() == FAILED.get(scenario, set()), failed
    assert verdicts["SUCCESS"] == SCENARIOS[spec, scenario] + MORE.get((ran[spec].server, scenario), 0), verdicts


@pytest.mark.parametrize("spec", [OLD, NEW])
def test_all_other_failures_are_known(ran: dict[str, Ran], spec: str) -> None:
    """Those that want the suite's own tools, resources and prompts; the suite fails at others, and at needless lines."""
    assert ran[spec].status == 0, ran[spec].output[-2000:]
    assert len(ran[spec].checks) >= 33
    assert "Baseline check passed" in ran[spec].output


@pytest.mark.slow
def test_the_suite_sees_a_server_without_guard(suite: tuple[str, ...], tmp_path: Path) -> None:
    """Its verdicts are no formality: a bare server answers a foreign host, and fails."""
    code = "from fastmcp import FastMCP; import sys; FastMCP('bare').run('http', port=int(sys.argv[1]))"
    with serving(tmp_path, argv=(sys.executable, "-c", code)) as port:
        found = run_suite(suite, "bare", port, NEW, tmp_path, "--scenario", "dns-rebinding-protection")
    assert found.status == 1
    assert "FAILURE" in {check["status"] for check in found.checks["dns-rebinding-protection"]}
