"""A mirror inside a company: reached through HTTPS_PROXY only, with a certificate of its own authority."""

from __future__ import annotations

import contextlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from huggingface_hub import close_session

from tests.hub.server import LocalHub
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.fetch import fetch_repository
from tuneloop.tools.hub.store import MANIFEST

HOST = "hub.example"  # a name that leads nowhere: only a proxy can answer for it


class Tunnel(socketserver.StreamRequestHandler):
    """CONNECT, then TLS as the mirror speaks it; what is inside goes to the local hub."""

    context: ssl.SSLContext
    hub: tuple[str, int]

    def handle(self) -> None:
        asked = self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        assert asked.startswith(f"CONNECT {HOST}:443 ".encode())
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with (
            contextlib.suppress(OSError),
            self.context.wrap_socket(self.connection, server_side=True) as inside,
            socket.create_connection(self.hub) as behind,
        ):
            back = threading.Thread(target=copy, args=(behind, inside), daemon=True)
            back.start()
            copy(inside, behind)
            back.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    """Until one of them ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate for the host that only itself vouches for, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is missing")
    made = tmp_path / "own authority.pem"
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}")
    names = ("-addext", f"subjectAltName=DNS:{HOST}", "-keyout", str(made), "-out", str(tmp_path / "cert"))
    subprocess.run(("openssl", *words, *names), check=True, capture_output=True)
    made.write_text(made.read_text() + (tmp_path / "cert").read_text())
    return made


@pytest.fixture
def settings(hub: LocalHub, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    address = urlsplit(hub.endpoint)
    known = {"context": context, "hub": (address.hostname, address.port)}
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Here", (Tunnel,), known)) as proxy:
        proxy.daemon_threads = True
        serving = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        serving.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        hub.endpoint = f"https://{HOST}"
        close_session()  # the library's own client keeps proxies and authorities
        try:
            yield Settings(FT_FILE_PATH=tmp_path, HF_ENDPOINT=hub.endpoint)
        finally:
            close_session()
            proxy.shutdown()
            serving.join()


def test_a_mirror_behind_a_proxy_with_its_own_authority_is_used(
    settings: Settings, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    folder = fetch_repository("example/small", "model", settings.home.root / "m", settings)
    assert (folder / MANIFEST).is_file()


def test_an_authority_that_is_not_named_is_one_line_with_the_cure(settings: Settings) -> None:
    with pytest.raises(InfrastructureError, match="is not trusted: set SSL_CERT_FILE"):
        fetch_repository("example/small", "model", settings.home.root / "m", settings)
