"""What can be wrong with a daemon is one line with the cure; images are made here or not at all."""

import json
import os
import socketserver
import threading
from pathlib import Path

import pytest

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.sandboxes.container import host_image
from tuneloop.sandboxes.docker_api import DockerApi, RefusedError, UnreachableError
from tuneloop.sandboxes.docker_daemon import (
    cached_daemon,
    check_compatible,
    disk_hint,
    find_daemon,
    probe_docker,
    ready_image,
    socket_hint,
    start_gpu_probe,
)


def problem(url: str) -> str:
    with pytest.raises(InvalidRequestError) as e:
        cached_daemon(url)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_absent(tmp_path):
    assert "apt install docker.io" in problem(f"unix://{tmp_path}/none.sock")


def test_denied():
    assert "usermod -aG docker" in socket_hint(PermissionError(13, "Permission denied"))


def test_dead(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{tmp_path}/left.sock")
    assert "systemctl start docker" in problem(f"unix://{tmp_path}/left.sock")


@pytest.mark.parametrize("url", ["tcp://10.0.0.1:2376", "ssh://user@host"])
def test_remote(url):
    assert "another machine" in problem(url)


def test_old_versions_and_virtual_machines():
    with pytest.raises(InvalidRequestError, match=r"Docker 19.03.1 is too old; right is 20.10"):
        check_compatible("unix:///x", "19.03.1", "1.40", {})
    with pytest.raises(InvalidRequestError, match="virtual machine"):
        check_compatible("unix:///x", "27.0", "1.46", {"OperatingSystem": "Docker Desktop"})
    check_compatible("unix:///x", "27.0", "1.46", {"OperatingSystem": "Ubuntu 24.04"})


class Babble(socketserver.StreamRequestHandler):
    """Something that listens and is no Docker."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"220 mail ready\r\n")


@pytest.fixture
def stranger(tmp_path):
    with socketserver.ThreadingUnixStreamServer(f"{tmp_path}/s.sock", Babble) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{tmp_path}/s.sock"
        server.shutdown()


def test_other_servers_are_no_daemon(stranger):
    assert "does not answer" in problem(f"unix://{stranger}")
    with pytest.raises(UnreachableError):
        DockerApi(stranger, "1.41").state("x")


def test_the_image_is_made_when_it_is_missing_and_nothing_is_pulled(docker_host):
    access = find_daemon()
    name = ready_image(access)
    assert name == host_image()[0]
    assert access.daemon.has_image(name)
    assert not access.daemon.has_image("tuneloop-host:nonesuch")
    with pytest.raises(RefusedError) as e:
        access.daemon.create("tuneloop-test-no-image", {"Image": "tuneloop-host:nonesuch"})
    assert e.value.status == 404


def test_an_image_that_cannot_be_made_is_the_worlds_error(docker_host, tmp_path, monkeypatch):
    access = find_daemon()
    monkeypatch.setattr("tuneloop.sandboxes.docker_daemon.host_image", lambda: ("tuneloop-host:broken", b"no archive"))
    with pytest.raises(InfrastructureError, match="cannot make one"):
        ready_image(access)
    assert "docker system df" in disk_hint(Exception("write /x: no space left on device"))


def test_a_gpu_that_the_daemon_cannot_give_is_told(docker_host):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("here it may well give one")
    told = start_gpu_probe(find_daemon())
    assert told is not None
    assert "nvidia-container-toolkit" in told
    left = find_daemon().daemon.ask("GET", "/containers/json?all=1")
    assert not [one for one in left if "tuneloop-gpu" in json.dumps(one["Names"])]


def test_the_probe_says_nothing_where_all_is_well(docker_host):
    probe_docker.cache_clear()
    assert probe_docker() is None
    assert Path(find_daemon().socket).is_socket()
