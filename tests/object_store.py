"""Object storages for tests: a folder at `file://`, and moto's server, a stand-in for S3, at `s3://`."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.waiting import until
from tuneloop.tools.hub.object_storage import Storage

SERVE = """
import sys, time, logging; sys.path.append(sys.argv[1]); logging.disable()
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False); server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
BUCKETS = itertools.count()
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret-at-all",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Store:
    """`url` of an empty place; `server`: of moto, "" at `file://`."""

    url: str
    server: str = ""

    def put(self, key: str, data: bytes) -> None:
        """As it is named: no library tidies the key."""
        at = Storage(self.url)
        if self.server:
            bucket, _, prefix = at.root.partition("/")
            at.files.call_s3("put_object", Bucket=bucket, Key=f"{prefix}/{key}", Body=data)
        else:
            at.files.makedirs(f"{at.root}/{key}".rpartition("/")[0], exist_ok=True)
            at.files.pipe_file(f"{at.root}/{key}", data)

    def objects(self, below: str = "") -> dict[str, tuple[int, str]]:
        """Size and mark of every object."""
        at = Storage(self.url + below)
        return {f.path: (f.size, f.revision) for f in at.listing()} if at.files.exists(at.root) else {}

    def get(self, key: str) -> bytes:
        """An object's bytes."""
        return b"".join(Storage(self.url).read(key))


@contextmanager
def serving_s3(packages: Path) -> Iterator[str]:
    """The address of moto's server."""
    argv = [sys.executable, "-c", SERVE, str(packages)]  # ends with its standard input
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"


def ask(url: str, body: str = "") -> Any:
    """A request to moto's own interface."""
    asked = urllib.request.Request(url, data=body.encode(), method="POST", headers={"Content-Type": "text/plain"})
    with urllib.request.urlopen(asked, timeout=10) as told:
        return json.loads(told.read())


def use_s3(server: str, packages: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty bucket of the server, which this process's environment leads to."""
    if str(packages) not in sys.path:
        sys.path.append(str(packages))
    monkeypatch.setenv("PYTHONPATH", str(packages))  # for processes that tests start; ours is found first there too
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    for name, value in ACCOUNT.items():
        monkeypatch.setenv(name, value)
    bucket = f"lab-{next(BUCKETS)}"
    Storage(f"s3://{bucket}").files.mkdir(bucket)
    return Store(f"s3://{bucket}/kept", server)


def forget_clients() -> None:
    """What comes asks with the environment of now."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def killed_when(ready: Any, code: str, *argv: str) -> None:
    """Run Python in a process of its own and `kill -9` it as soon as `ready()`."""
    worker = subprocess.Popen([sys.executable, "-c", code, *argv], env=os.environ)
    try:
        until(lambda: worker.poll() is not None or ready(), 60, 0.002)
        assert worker.poll() is None, "it was over before it could be killed"
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
