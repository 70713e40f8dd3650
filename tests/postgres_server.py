"""A real PostgreSQL server of an unprivileged user, on a socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BIN = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=Path()).parent
needs_postgres = pytest.mark.skipif(not (BIN / "initdb").is_file(), reason="no PostgreSQL server is installed")


@contextmanager
def postgres_server() -> Iterator[tuple[str, list[str]]]:
    """Its address and the command that controls it."""
    user = "postgres" if os.geteuid() == 0 else None
    root = Path(tempfile.mkdtemp(prefix="tlpg", dir="/tmp"))
    if user:
        shutil.chown(root, user)
    quiet = {"user": user, "check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run(
        [BIN / "initdb", "-D", root / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
        **quiet,  # type: ignore[call-overload]
    )  # fmt: skip
    options = f"-c listen_addresses= -c unix_socket_directories={root} -c fsync=off"
    control = [str(BIN / "pg_ctl"), "-D", str(root / "data"), "-w", "-l", str(root / "log"), "-o", options]
    subprocess.run([*control, "start"], **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgresql://postgres:secret@/postgres?host={root}", control
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **{**quiet, "check": False})  # type: ignore[call-overload]
        shutil.rmtree(root)
