"""What is installed and shipped: audited honestly, listed, and built to the same bytes; the tools are the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
LOCK = ROOT / "locks" / "build.txt"
NOWHERE = "http://127.0.0.1:9/v1/query"
PACKAGES = 9
FLAW = {
    "id": "OSV-2026-1",
    "summary": "it falls over",
    "affected": [
        {
            "package": {"name": "hatchling", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}


@pytest.fixture(scope="module")
def tools() -> Path:
    """The interpreter of the tools' own environment."""
    python = ROOT / ".venv" / "audit" / "bin" / "python"
    subprocess.run(["make", ".venv/audit/installed"], cwd=ROOT, check=True, capture_output=True)
    return python


@contextmanager
def advisories(answer: Callable[[str], Any]) -> Iterator[str]:
    """A source that speaks OSV's protocol: `answer` maps a package's name to a reply, None to a failure."""

    class Source(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert asked["package"]["ecosystem"] == "PyPI"
            assert asked["version"]
            reply = answer(asked["package"]["name"])
            self.send_response(500 if reply is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Source) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def audit(tools: Path, url: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    argv = [str(tools), str(ROOT / "locks" / "audit.py"), "--osv-url", url, str(LOCK)]
    return subprocess.run(argv, env=env, capture_output=True, text=True)


def test_an_audit_that_could_not_ask_is_no_pass(tools: Path) -> None:
    p = audit(tools, NOWHERE)
    assert p.returncode == 3
    assert f"0 of {PACKAGES} packages asked about" in p.stdout
    assert "no pass" in p.stderr


def test_an_audit_that_could_not_ask_about_everything_is_no_pass(tools: Path) -> None:
    with advisories(lambda name: None if name == "pluggy" else {}) as url:
        assert audit(tools, url).returncode == 3


def test_an_audit_passes_when_everything_was_asked_about(tools: Path) -> None:
    asked: list[str] = []
    with advisories(lambda name: asked.append(name) or {}) as url:  # type: ignore[func-returns-value]
        p = audit(tools, url)
    assert p.returncode == 0, p.stdout + p.stderr
    assert len(set(asked)) == PACKAGES
    assert f"{PACKAGES} of {PACKAGES} packages asked about, 0 advisories" in p.stdout


def test_an_advisory_is_named_with_its_cure(tools: Path) -> None:
    with advisories(lambda name: {"vulns": [FLAW]} if name == "hatchling" else {}) as url:
        p = audit(tools, url)
    assert p.returncode == 1
    assert "hatchling 1.33.0: OSV-2026-1, fixed in 99.0" in p.stdout


def test_the_list_of_what_it_is_made_of(tools: Path, tmp_path: Path) -> None:
    script = "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import sbom\n"
    script += "sbom.write(Path(sys.argv[2]), Path(sys.argv[3]))"
    lock = ROOT / "engines" / "llamafactory" / "lock-cpu.txt"
    for name in ("one", "two"):
        argv = [str(tools), "-c", script, str(ROOT / "locks"), str(lock), str(tmp_path / name)]
        subprocess.run(argv, check=True, capture_output=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    found = json.loads((tmp_path / "one").read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert "serialNumber" not in found
    assert "timestamp" not in found["metadata"]
    by_name = {c["name"]: c for c in found["components"]}
    assert by_name["torch"]["purl"] == "pkg:pypi/torch@2.13.0"
    hashes = by_name["transformers"]["externalReferences"][0]["hashes"]
    assert {h["alg"] for h in hashes} == {"SHA-256"}
    assert all(f"--hash=sha256:{h['content']}" in lock.read_text() for h in hashes)


def fit_everywhere(*locks: Path, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "locks" / "wheels.py"), *map(str, locks)]
    env = {**{name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}, **env}
    return subprocess.run(argv, env=env, capture_output=True, text=True)


def test_every_pin_has_wheels_for_every_platform() -> None:
    p = fit_everywhere()
    assert p.returncode == 0, p.stdout + p.stderr
    told = p.stdout.splitlines()
    assert all(line.endswith(" 0 gaps") for line in told)
    locks = [*ROOT.glob("locks/*.txt"), *ROOT.glob("engines/*/lock-*.txt"), *ROOT.glob("engines/*/torch.txt")]
    assert {str(lock) for lock in locks} <= {line.split(": ")[0] for line in told}


def test_a_pin_that_does_not_fit_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("six==1.17.0\ntree-sitter-languages==1.10.2\nnumpy==2.5.0\nsix==0.0.0.1\n")
    p = fit_everywhere(lock)
    assert p.returncode == 1
    assert "tree-sitter-languages 1.10.2 has no wheel for Python 3.13 on aarch64" in p.stdout
    assert "tree-sitter-languages 1.10.2 has no wheel for Python 3.12 on x86_64" not in p.stdout
    assert "numpy 2.5.0 has no wheel for Python 3.11 on x86_64" in p.stdout, "it wants a newer Python"
    assert "six 0.0.0.1 has no source for Python 3.14" in p.stdout
    assert fit_everywhere(lock, PIP_INDEX_URL="http://127.0.0.1:9/simple").returncode == 3


def build(source: Path, out: Path, umask: int) -> bytes:
    """The wheel's bytes, built by the locked builder in the environment at hand."""
    argv = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(source)]
    subprocess.run(argv, check=True, capture_output=True, preexec_fn=lambda: os.umask(umask) and None)
    (wheel,) = out.glob("*.whl")
    return wheel.read_bytes()


def test_wheel_is_reproducible(tmp_path: Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    copy = tmp_path / "elsewhere" / "named otherwise"
    for name in files.rstrip("\0").split("\0"):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / name
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_file():
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
    wheel = build(ROOT, tmp_path / "here", 0o022)
    assert build(copy, tmp_path / "there", 0o077) == wheel
    with zipfile.ZipFile(tmp_path / "here" / next((tmp_path / "here").glob("*.whl")).name) as z:
        names = z.namelist()
    stray = [n for n in names if not n.startswith(("tuneloop/", "tuneloop-")) or "tests" in Path(n).parts]
    model = "tuneloop/tools/embedded/tiny_model/"  # weights, checked by hash before they are used
    page = ("tuneloop/ui/static/", "tuneloop/ui/templates/")
    kinds = {Path(n).suffix for n in names if n.startswith("tuneloop/") and not n.startswith((model, *page))}
    assert {Path(n).suffix for n in names if n.startswith(page)} == {".css", ".html", ".js", ".svg"}, (
        "the page is shipped"
    )
    assert stray == []
    assert kinds <= {".py", ".md", ".yaml", ".txt", ".typed", ".json", ""}, "a kind of file that nobody meant to ship"
    assert not [n for n in names if "__pycache__" in n or Path(n).name.startswith(".")]
