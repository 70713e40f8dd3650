"""Finds the Docker or Podman daemon, says what is wrong with it, and keeps it tidy: images and what was left over."""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.locks import is_locked
from tuneloop.sandboxes.container import FOLDER, OWNER, WALLS, owner
from tuneloop.sandboxes.dockerd import Daemon, Refused, Unreachable
from tuneloop.sandboxes.image import host_image
from tuneloop.sandboxes.owner import job_user

DEFAULT = "unix:///var/run/docker.sock"
OLDEST = (1, 41)  # Docker 20.10
SECONDS = 60
PEER = struct.Struct("3i")  # struct ucred
PROBLEMS = (OSError, DockerException, RequestException)


@dataclass(frozen=True)
class Access:
    """How the daemon is reached, and as whom its containers run so that files belong to who should have them."""

    socket: str
    api: str
    podman: bool
    user: tuple[int, int]

    @property
    def daemon(self) -> Daemon:
        """For one question at a time."""
        return Daemon(self.socket, self.api)


def find_daemon() -> Access:
    """The daemon that DOCKER_HOST names, or the system's. Raises SetupError with the cure when it is of no use."""
    return known_daemon(os.environ.get("DOCKER_HOST") or DEFAULT)


@cache
def known_daemon(url: str) -> Access:
    """Asked once; a refusal is not remembered."""
    place = local_socket(url)
    try:
        with closing(docker.DockerClient(base_url=url, version="auto", timeout=SECONDS)) as client:
            version, info = client.version(), client.info()
            api = str(client.api.api_version)
    except PROBLEMS as e:
        raise SetupError(f"{url}: the Docker daemon does not answer: {one_line(e)}; `systemctl restart docker`") from e
    podman = any(part.get("Name") == "Podman Engine" for part in version.get("Components") or ())
    check_fit(url, str(version.get("Version", "?")), api, info)
    rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
    return Access(place, api, podman, (0, 0) if rootless and os.geteuid() else job_user())


def local_socket(url: str) -> str:
    """The path behind `unix://…`, where a daemon of this machine listens. Raises SetupError."""
    scheme, _, place = url.partition("://")
    if scheme != "unix":
        raise SetupError(
            f"DOCKER_HOST={url}: a daemon on another machine does not have this machine's files; "
            "right is unix:///var/run/docker.sock, or --sandbox bubblewrap"
        )
    line = socket.socket(socket.AF_UNIX)
    with closing(line):
        line.settimeout(SECONDS)
        try:
            line.connect(place)
            peer = PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0]
        except OSError as e:
            raise SetupError(f"{place}: {e.strerror or e}; {cure(e)}") from e
    if peer == 0:
        raise SetupError(
            f"{place}: the Docker daemon lives outside of this container and has other files and processes; "
            "right is to start tuneloop beside the daemon, or --sandbox bubblewrap"
        )
    return place


def cure(problem: OSError) -> str:
    """What helps against a socket that cannot be used."""
    if isinstance(problem, FileNotFoundError):
        return (
            "right is Docker Engine 20.10 or newer (Debian, Ubuntu: `apt install docker.io`), "
            "DOCKER_HOST for a daemon elsewhere, or --sandbox bubblewrap"
        )
    if isinstance(problem, PermissionError):
        return "right is `sudo usermod -aG docker $USER` and a new login, rootless Docker, or --sandbox bubblewrap"
    return "no daemon listens; right is `systemctl start docker`, or --sandbox bubblewrap"


def check_fit(url: str, version: str, api: str, info: dict[str, object]) -> None:
    """Old daemons and daemons in a virtual machine are told apart here. Raises SetupError."""
    if tuple(map(int, api.split("."))) < OLDEST:
        raise SetupError(f"{url}: Docker {version} is too old; right is 20.10 or newer, or --sandbox bubblewrap")
    if info.get("OSType", "linux") != "linux" or "Docker Desktop" in str(info.get("OperatingSystem")):
        raise SetupError(
            f"{url}: Docker Desktop runs containers in a virtual machine, out of sight of tuneloop; "
            "right is Docker Engine, or --sandbox bubblewrap"
        )


def ready_image(access: Access) -> str:
    """The image of jobs, made now if it is not there: a few links, nothing is fetched. Raises WorldError."""
    name, data = host_image()
    try:
        if not access.daemon.has_image(name):
            repository, tag = name.split(":")
            with closing(docker.APIClient(base_url=f"unix://{access.socket}", version=access.api)) as client:
                image = json.loads(client.import_image_from_data(data).splitlines()[-1])["status"]
                client.tag(image, repository, tag)  # in a step of its own: Podman's import gives no tag
    except (*PROBLEMS, Refused, Unreachable, LookupError, ValueError) as e:
        raise WorldError(f"Docker has no image for jobs and cannot make one: {one_line(e)}{room(e)}") from e
    return name


def room(problem: Exception) -> str:
    """What helps against a full disk, "" against anything else."""
    full = "no space left" in str(problem).lower()
    return "; right is room for Docker (`docker system df` shows what takes it)" if full else ""


def one_line(problem: Exception) -> str:
    """The daemon's own words where there are any."""
    text = problem.explanation if isinstance(problem, APIError) and problem.explanation else str(problem)
    return " ".join(str(text).split())


@cache
def probe_docker() -> str | None:
    """Why Docker cannot be used here, with the cure; None when it works. Makes the image of jobs."""
    try:
        ready_image(find_daemon())
    except (SetupError, WorldError) as e:
        return str(e)
    return None


@cache
def probe_gpu() -> str | None:
    """Why containers get no GPU although this machine has one, with the cure; None when they do, or there is none."""
    return try_gpu(find_daemon()) if Path("/dev/nvidiactl").exists() else None


def try_gpu(access: Access) -> str | None:
    """Start a container that asks for every GPU: nothing else tells whether the daemon can give them."""
    request = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    name = f"tuneloop-gpu-{os.getpid()}"
    body = {"Image": ready_image(access), "Cmd": ["/none"], "HostConfig": {**WALLS, "DeviceRequests": request}}
    try:
        access.daemon.create(name, body)
        access.daemon.start(name)
    except (Refused, Unreachable) as e:
        if "/none" in str(e):  # it had the GPUs and missed the program, which we never gave it
            return None
        return (
            f"Docker gives containers no GPU: {one_line(e)}; right is the nvidia-container-toolkit package, "
            "`nvidia-ctk runtime configure --runtime=docker` and a restart of Docker"
        )
    finally:
        remove(access, name)
    return None


def sweep(access: Access) -> list[str]:
    """Remove our containers whose job is over or whose folder is gone; their ids. Raises WorldError."""
    try:
        with closing(docker.APIClient(base_url=f"unix://{access.socket}", version=access.api)) as client:
            ours = client.containers(all=True, filters={"label": f"{OWNER}={owner()}"})
    except PROBLEMS as e:
        raise WorldError(f"the Docker daemon does not answer: {one_line(e)}") from e
    return [remove(access, str(one["Id"])) for one in ours if left_over(Path(one["Labels"][FOLDER]))]


def left_over(folder: Path) -> bool:
    """Whether nobody will ever ask for the container of the job in `folder`."""
    over = not (folder / "command.json").exists() or (folder / "exit.json").exists()
    return over and not is_locked(folder / "lock")


def remove(access: Access, name: str) -> str:
    """End one of them; one that somebody else removes is no error."""
    with suppress(Refused, Unreachable):
        access.daemon.remove(name)
    return name
