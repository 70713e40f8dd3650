"""The process that reads bytes of strangers: what shuts it in holds it, and without it the same attempts get through."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tuneloop.sandboxes import confined_process
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.confined_process import ConfinedProcess, reader_sandbox
from tuneloop.sandboxes.landlock import probe_landlock

PROBE = """\
import json, os, socket, sys
from pathlib import Path

def tried(do):
    try:
        do()
    except OSError:
        return False
    return True

def main(folder, secret, parent):
    made = Path(folder, "made")
    found = {
        "reads its folder": tried(lambda: Path(folder, "rows").read_text()),
        "runs itself": tried(lambda: os.waitpid(os.fork() or os._exit(0), 0)),
        "reads another": tried(lambda: Path(secret).read_text()),
        "lists another": tried(lambda: os.listdir(Path(secret).parent)),
        "writes": tried(lambda: made.write_text("x")),
        "writes beside": tried(lambda: Path(secret).write_text("changed")),
        "reads a parent": tried(lambda: Path(f"/proc/{parent}/environ").read_bytes()),
        "signals a parent": tried(lambda: os.kill(int(parent), 0)),
        "connects": tried(lambda: socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", "9"))), 1)),
        "makes a socket": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0))),
    }
    print(json.dumps(found), flush=True)
    sys.stdin.read()
"""
FINE = {"reads its folder", "runs itself"}
PLAIN = FINE | {
    "reads another",
    "lists another",
    "writes",
    "writes beside",
    "reads a parent",
    "signals a parent",
    "makes a socket",
}
HELD_ELSEWHERE = {"makes a socket"}  # bubblewrap: in a network of its own


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock", ""])
def test_it_reads_its_folders_and_does_nothing_else(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"bubblewrap": probe_bubblewrap, "landlock": probe_landlock}.get(kind, lambda: None)()
    if problem:
        pytest.skip(problem)
    folder, code, secret = (tmp_path / name for name in ("folder", "code", "closed/secret"))
    for path in (folder, code, secret.parent):
        path.mkdir()
    (folder / "rows").write_text("rows")
    (code / "probe.py").write_text(PROBE)
    secret.write_text("secret")
    monkeypatch.setattr(confined_process, "ROOT", code)
    monkeypatch.setattr(confined_process, "reader_sandbox", lambda: (kind, "" if kind else "none"))
    parent = str(os.getpid())
    process = ConfinedProcess("probe", str(folder), str(secret), parent, read=(folder, code))
    did = {name for name, done in json.loads(process.line(20, 10_000)[0]).items() if done}
    process.end()
    assert did == {"bubblewrap": FINE | HELD_ELSEWHERE, "landlock": FINE, "": PLAIN}[kind]
    assert secret.read_text() == ("secret" if kind else "changed")


def test_what_works_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for bubblewrap, landlock, taken in ((None, None, "bubblewrap"), ("no", None, "landlock"), ("no", "nor", "")):
        reader_sandbox.cache_clear()
        monkeypatch.setattr(confined_process, "probe_bubblewrap", lambda said=bubblewrap: said)
        monkeypatch.setattr(confined_process, "probe_landlock", lambda said=landlock: said)
        assert reader_sandbox() == (taken, "" if taken else "no; nor landlock: nor")
    monkeypatch.setattr(sys, "platform", "darwin")
    reader_sandbox.cache_clear()
    assert reader_sandbox()[0] == ""
    reader_sandbox.cache_clear()
