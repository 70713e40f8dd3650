"""The real hub client against a small server that speaks the hub's protocol on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.small_disk import files_up_to
from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.files import read_json
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import fetch_hub, is_hub_id

SHA = "a" * 40
PICKLED = {"config.json": b"{}", "pytorch_model.bin": b"pickle", "optimizer.pt": b"pickle"}
FILES = {"config.json": b"{}", "model.safetensors": b"x" * 5000, "evil.py": b"boom", "pytorch_model.bin": b"pickle"}


class Hub(BaseHTTPRequestHandler):
    """`org/good` and `org/pickled` are there, `org/gated` wants a licence, everything else is not."""

    def log_message(self, *_: object) -> None: ...

    def reply(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if "/org/gated" in path:
            return self.reply(403, X_Error_Code="GatedRepo", X_Error_Message="accept the licence")
        if path.startswith("/api/models/org/huge"):
            siblings = [{"rfilename": "model.safetensors", "size": 1 << 60}, {"rfilename": "x.bin", "size": 1 << 61}]
            return self.reply(200, json.dumps({"id": "org/huge", "sha": SHA, "siblings": siblings}).encode())
        for name, files in {"org/good": FILES, "org/pickled": PICKLED}.items():
            if path.startswith(f"/api/models/{name}"):
                siblings = [{"rfilename": file, "size": len(data)} for file, data in files.items()]
                tree = [
                    {"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                    for n, d in files.items()
                ]
                body = tree if "/tree/" in path else {"id": name, "sha": SHA, "siblings": siblings}
                return self.reply(200, json.dumps(body).encode(), Content_Type="application/json")
            prefix = f"/{name}/resolve/{SHA}/"
            if path.startswith(prefix):
                data = files[path.removeprefix(prefix)]
                return self.reply(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', X_Repo_Commit=SHA)
        return self.reply(404, X_Error_Code="RepoNotFound", X_Error_Message="not found")

    do_HEAD = do_GET


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    yield Settings(FT_FILE_PATH=tmp_path, HF_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()


def test_a_model_is_whole_and_holds_no_code_and_no_pickle(tmp_path: Path, settings: Settings) -> None:
    folder = fetch_hub("org/good", "model", tmp_path / "models" / "org" / "good", settings)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    names = {p.name for p in folder.iterdir() if p.is_file()}
    assert names == {"config.json", "model.safetensors", "manifest.json"}
    assert read_json(folder / "manifest.json")["source"] == "org/good"


def test_pickled_weights_are_taken_only_where_there_are_no_others(tmp_path: Path, settings: Settings) -> None:
    folder = fetch_hub("org/pickled", "model", tmp_path / "models" / "org" / "pickled", settings)
    names = {p.name for p in folder.iterdir() if p.is_file()}
    assert names == {"config.json", "pytorch_model.bin", "manifest.json"}


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [("org/gated", SetupError, "licence accepted"), ("org/absent", SetupError, "not on the hub")],
)
def test_what_cannot_be_had(tmp_path: Path, settings: Settings, name: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        fetch_hub(name, "model", tmp_path / "m", settings)
    assert not (tmp_path / "m").exists()


def test_what_does_not_fit_is_not_begun(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(WorldError, match=r"model org/huge needs 1152921504\.6 GB and .* are free in .*tuneloop clean"):
        fetch_hub("org/huge", "model", tmp_path / "models" / "huge", settings)
    assert [p.name for p in (tmp_path / "models").iterdir()] == [".huge.lock"]


def test_a_disk_that_fills_up_meanwhile_leaves_nothing(tmp_path: Path, settings: Settings) -> None:
    with files_up_to(1000), pytest.raises(WorldError, match="File too large; nothing half-made is left"):
        fetch_hub("org/good", "model", tmp_path / "models" / "good", settings)
    assert [p.name for p in (tmp_path / "models").iterdir()] == [".good.lock"]


def test_no_hub_at_all_is_the_worlds_fault(tmp_path: Path) -> None:
    nowhere = Settings(FT_FILE_PATH=tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    with pytest.raises(WorldError, match="check the network or HF_ENDPOINT"):
        fetch_hub("org/good", "model", tmp_path / "m", nowhere)


@pytest.mark.parametrize(("name", "yes"), [("a/b", True), ("Qwen/Qwen2.5-7B", True), ("a", False), ("a/b/c", False)])
def test_ids(name: str, yes: bool) -> None:
    assert is_hub_id(name) is yes
