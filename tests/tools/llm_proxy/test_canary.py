"""A job that searches everywhere finds the token of its own endpoint, and never the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.llm_proxy.conftest import CANARY, JobEndpoint, Provider, error, tree_holds
from tests.tools.llm_proxy.test_kills import SANDBOXES, job
from tuneloop.sandboxes.jobs import launch, wait

LOOK = """
import json, os, sys, urllib.error, urllib.request
from pathlib import Path
found = {"environment": dict(os.environ), "argv": sys.orig_argv, "files": {}, "errors": []}
places = [os.getcwd()] + (["/tmp", "/run", "/etc", "/proc"] if sys.argv[1] == "1" else ["/proc/self"])
places += [part for part in sys.orig_argv if part.startswith("/") and "/in" in part]
for place in places:
    for root, folders, files in os.walk(place):
        folders[:] = [f for f in folders if f not in ("sys", "task", "net", "map_files")] if root.startswith("/proc") else folders
        for name in files:
            if root.startswith("/proc") and name not in ("environ", "cmdline", "mounts"):
                continue
            try:
                found["files"][f"{root}/{name}"] = open(f"{root}/{name}", "rb").read(100_000).decode("latin-1")
            except OSError as e:
                found["errors"].append(f"{root}/{name} {e}")
address = os.environ["OPENAI_BASE_URL"]
for path, body in (("/models", None), ("/chat/completions", b"{"), ("/chat/completions", b'{"model": "x"}'),
                   ("/chat/completions", b'{"model": "strong", "messages": []}'), ("/env", None)):
    try:
        head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        found["errors"].append(urllib.request.urlopen(urllib.request.Request(address + path, body, head)).read().decode())
    except urllib.error.HTTPError as e:
        found["errors"].append(str(e.headers) + e.read().decode())
print(json.dumps(found))
json.dump(["ok"], open("answers.json", "w"))
"""


@pytest.mark.parametrize("kind", sorted(SANDBOXES))
@pytest.mark.usefixtures("docker_host")
def test_job_never_sees_the_key(endpoint: JobEndpoint, provider: Provider, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    provider.next = [error(404, f"{CANARY} at {provider.url}")]
    sandbox = SANDBOXES[kind]
    folder = launch(sandbox, endpoint.jobs, "build_data", job(endpoint, int(kind != "process"), script))
    assert wait(sandbox, folder).ok, (folder / "log.txt").read_text()
    log = (folder / "log.txt").read_text()
    assert endpoint.token in log, "it did look"
    assert '"model_not_allowed' in log.replace("\\", "")
    assert CANARY not in log
    assert provider.url not in log
    assert tree_holds(endpoint.settings.home.root, CANARY) == []
    assert endpoint.token not in "".join(p.read_text() for p in (endpoint.run.ledger, endpoint.proxy / "log.txt"))


def test_endpoint_is_the_only_way_out(endpoint: JobEndpoint, provider: Provider, tmp_path: Path) -> None:
    """In bubblewrap the provider itself cannot be reached, nor another job's endpoint."""
    script = tmp_path / "out.py"
    port = provider.url.split(":")[2].split("/")[0]
    script.write_text(f"""
import json, os, socket, urllib.request
reached = []
for address in (("127.0.0.1", {port}), ("10.0.0.1", 80), ("169.254.169.254", 80)):
    try:
        socket.create_connection(address, 1); reached.append(address)
    except OSError: pass
other = {str(endpoint.folder.with_name("other") / "in" / "socket")!r}
reached += [other] if os.path.exists(other) or os.path.exists({str(endpoint.folder / "endpoint.json")!r}) else []
head = {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}}
models = urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/models", None, head)).read()
json.dump([reached, len(models)], open("answers.json", "w"))
""")
    (endpoint.folder.with_name("other") / "in").mkdir(parents=True)
    sandbox = SANDBOXES["bubblewrap"]
    folder = launch(sandbox, endpoint.jobs, "build_data", job(endpoint, 1, script))
    assert wait(sandbox, folder).ok, (folder / "log.txt").read_text()
    reached, models = json.loads((endpoint.run.experiment(1).work / "build" / "answers.json").read_text())
    assert (reached, models > 50) == ([], True)


@pytest.mark.usefixtures("docker_host")
def test_exit_status(endpoint: JobEndpoint, tmp_path: Path) -> None:
    script = tmp_path / "exit.py"
    script.write_text("import sys; sys.exit(7)")
    for kind, sandbox in SANDBOXES.items():
        folder = launch(sandbox, endpoint.jobs, f"exit_{kind}", job(endpoint, 1, script))
        assert wait(sandbox, folder).code == 7
