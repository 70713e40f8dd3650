"""Builds images from a context, keeps what was verified, leaves nothing half-made; nothing is ever pulled."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.locks import is_locked
from tuneloop.sandboxes.container import FOLDER, HARDENING, OWNER, host_image, owner_label
from tuneloop.sandboxes.docker_api import DockerApi, RefusedError, UnreachableError
from tuneloop.sandboxes.job_user import job_user

# Finds the Docker or Podman daemon, says what is wrong with it, and keeps it tidy: images and what was left over.

DEFAULT = "unix:///var/run/docker.sock"
OLDEST = (1, 41)  # Docker 20.10
SWEEP_TIMEOUT = 60
PEER = struct.Struct("3i")  # struct ucred
PROBLEMS = (RefusedError, UnreachableError)


@dataclass(frozen=True)
class DaemonAccess:
    """How the daemon is reached, and as whom its containers run so that files belong to who should have them."""

    socket: str
    api: str
    podman: bool
    user: tuple[int, int]

    @property
    def daemon(self) -> DockerApi:
        """For one question at a time."""
        return DockerApi(self.socket, self.api)


def find_daemon() -> DaemonAccess:
    """The daemon that DOCKER_HOST names, or the system's. Raises InvalidRequestError with the cure when it is of no use."""
    return cached_daemon(os.environ.get("DOCKER_HOST") or DEFAULT)


@cache
def cached_daemon(url: str) -> DaemonAccess:
    """Asked once; a refusal is not remembered."""
    place = local_socket(url)
    try:
        version = DockerApi(place).ask("GET", "/version")
        api = str(version["ApiVersion"])
        info = DockerApi(place, api).ask("GET", "/info")
    except (*PROBLEMS, LookupError, TypeError) as e:
        raise InvalidRequestError(
            f"{url}: the Docker daemon does not answer: {error_line(e)}; `systemctl restart docker`"
        ) from e
    podman = any(part.get("Name") == "Podman Engine" for part in version.get("Components") or ())
    check_compatible(url, str(version.get("Version", "?")), api, info)
    rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
    return DaemonAccess(place, api, podman, (0, 0) if rootless and os.geteuid() else job_user())


def local_socket(url: str) -> str:
    """The path behind `unix://…`, where a daemon of this machine listens. Raises InvalidRequestError."""
    scheme, _, place = url.partition("://")
    if scheme != "unix":
        raise InvalidRequestError(
            f"DOCKER_HOST={url}: a daemon on another machine does not have this machine's files; "
            "right is unix:///var/run/docker.sock, or --sandbox bubblewrap"
        )
    line = socket.socket(socket.AF_UNIX)
    with closing(line):
        line.settimeout(SWEEP_TIMEOUT)
        try:
            line.connect(place)
            peer = PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0]
        except OSError as e:
            raise InvalidRequestError(f"{place}: {e.strerror or e}; {socket_hint(e)}") from e
    if peer == 0:
        raise InvalidRequestError(
            f"{place}: the Docker daemon lives outside of this container and has other files and processes; "
            "right is to start tuneloop beside the daemon, or --sandbox bubblewrap"
        )
    return place


def socket_hint(problem: OSError) -> str:
    """What helps against a socket that cannot be used."""
    if isinstance(problem, FileNotFoundError):
        return (
            "right is Docker Engine 20.10 or newer (Debian, Ubuntu: `apt install docker.io`), "
            "DOCKER_HOST for a daemon elsewhere, or --sandbox bubblewrap"
        )
    if isinstance(problem, PermissionError):
        return "right is `sudo usermod -aG docker $USER` and a new login, rootless Docker, or --sandbox bubblewrap"
    return "no daemon listens; right is `systemctl start docker`, or --sandbox bubblewrap"


def check_compatible(url: str, version: str, api: str, info: dict[str, object]) -> None:
    """Old daemons and daemons in a virtual machine are told apart here. Raises InvalidRequestError."""
    if tuple(map(int, api.split("."))) < OLDEST:
        raise InvalidRequestError(
            f"{url}: Docker {version} is too old; right is 20.10 or newer, or --sandbox bubblewrap"
        )
    if info.get("OSType", "linux") != "linux" or "Docker Desktop" in str(info.get("OperatingSystem")):
        raise InvalidRequestError(
            f"{url}: Docker Desktop runs containers in a virtual machine, out of sight of tuneloop; "
            "right is Docker Engine, or --sandbox bubblewrap"
        )


def ready_image(access: DaemonAccess) -> str:
    """The image of jobs, made now if it is not there: a few links, nothing is fetched. Raises InfrastructureError."""
    name, data = host_image()
    try:
        if not access.daemon.has_image(name):
            image = access.daemon.send_tar("/images/create?fromSrc=-", io.BytesIO(data))[-1]["status"]
            tag_image(access, image, name)  # in a step of its own: Podman's import gives no tag
    except (*PROBLEMS, LookupError) as e:
        raise InfrastructureError(
            f"Docker has no image for jobs and cannot make one: {error_line(e)}{disk_hint(e)}"
        ) from e
    return name


def tag_image(access: DaemonAccess, image: str, tag: str) -> None:
    """Give it a name. Raises Refused, Unreachable."""
    repository, name = tag.split(":")
    access.daemon.ask("POST", f"/images/{image}/tag?{urlencode({'repo': repository, 'tag': name})}")


def disk_hint(problem: Exception) -> str:
    """What helps against a full disk, "" against anything else."""
    full = "no space left" in str(problem).lower()
    return "; right is room for Docker (`docker system df` shows what takes it)" if full else ""


def error_line(problem: Exception) -> str:
    """The daemon's own words, in one line."""
    return " ".join(str(problem).split())


@cache
def probe_docker() -> str | None:
    """Why Docker cannot be used here, with the cure; None when it works. Makes the image of jobs."""
    try:
        ready_image(find_daemon())
    except (InvalidRequestError, InfrastructureError) as e:
        return str(e)
    return None


@cache
def probe_gpu() -> str | None:
    """Why containers get no GPU although this machine has one, with the cure; None when they do, or there is none."""
    return start_gpu_probe(find_daemon()) if Path("/dev/nvidiactl").exists() else None


def start_gpu_probe(access: DaemonAccess) -> str | None:
    """Start a container that asks for every GPU: nothing else tells whether the daemon can give them."""
    request = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    name = f"tuneloop-gpu-{os.getpid()}"
    body = {"Image": ready_image(access), "Cmd": ["/none"], "HostConfig": {**HARDENING, "DeviceRequests": request}}
    try:
        access.daemon.create(name, body)
        access.daemon.start(name)
    except (RefusedError, UnreachableError) as e:
        if "/none" in str(e):  # it had the GPUs and missed the program, which we never gave it
            return None
        return (
            f"Docker gives containers no GPU: {error_line(e)}; right is the nvidia-container-toolkit package, "
            "`nvidia-ctk runtime configure --runtime=docker` and a restart of Docker"
        )
    finally:
        remove_container(access, name)
    return None


def remove_orphans(access: DaemonAccess) -> list[str]:
    """Remove our containers whose job is over or whose folder is gone; their ids. Raises InfrastructureError."""
    try:
        filters = json.dumps({"label": [f"{OWNER}={owner_label()}"]})
        ours = access.daemon.ask("GET", f"/containers/json?{urlencode({'all': 1, 'filters': filters})}")
    except PROBLEMS as e:
        raise InfrastructureError(f"the Docker daemon does not answer: {error_line(e)}") from e
    return [remove_container(access, str(one["Id"])) for one in ours if is_orphan(Path(one["Labels"][FOLDER]))]


def is_orphan(folder: Path) -> bool:
    """Whether the container of the job in `folder` is orphaned."""
    over = not (folder / "command.json").exists() or (folder / "exit.json").exists()
    return over and not is_locked(folder / "lock")


def remove_container(access: DaemonAccess, name: str) -> str:
    """End one of them; a concurrent removal is not an error."""
    with suppress(RefusedError, UnreachableError):
        access.daemon.remove(name)
    return name


SECONDS = 1800
PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
NAME = re.compile(rf"(?:{PART}(?::\d+)?/)?{PART}(?:/{PART})*(?::\w[\w.-]*)?(?:@sha256:[0-9a-f]{{64}})?")


def build_image(
    context: Path, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str], verify: Callable[[str], None]
) -> str:
    """Build the tar file `context`, show the nameless image to `verify`, then give it its name; the image's id.

    Raises InfrastructureError with the daemon's last words, and what `verify` raises; no image is left then.
    """
    access = find_daemon()
    asked = {"rm": 1, "forcerm": 1, "networkmode": "none"}
    told = {"buildargs": json.dumps(dict(arguments)), "labels": json.dumps(dict(labels))}
    image = ""
    try:
        with context.open("rb") as tar:
            rows = patient(access).send_tar(f"/build?{urlencode({**asked, **told})}", tar)
        image = next((row["aux"]["ID"] for row in reversed(rows) if "ID" in row.get("aux", {})), "")
        if not image:
            raise UnreachableError(f"{access.socket}: the daemon went away while it built")
        verify(image)
        tag_image(access, image, tag)
    except BaseException as e:
        remove_image(access, image)
        if isinstance(e, PROBLEMS):
            raise InfrastructureError(f"image {tag} was not built: {error_line(e)}{disk_hint(e)}") from e
        raise
    return image


def import_base_image(tar: Path, tag: str) -> None:
    """An image of one layer from a file system in a tar file. Raises InfrastructureError."""
    repository, name = tag.split(":")
    try:
        with tar.open("rb") as f:
            asked = urlencode({"fromSrc": "-", "repo": repository, "tag": name})
            patient(find_daemon()).send_tar(f"/images/create?{asked}", f)
    except PROBLEMS as e:
        raise InfrastructureError(f"image {tag} was not made: {error_line(e)}{disk_hint(e)}") from e


def has_image(image: str) -> bool:
    """Whether it lies there. Raises InvalidRequestError, InfrastructureError."""
    if not NAME.fullmatch(image):
        raise InvalidRequestError(f"{image!r} is no name of an image; right is one like debian:bookworm")
    try:
        return find_daemon().daemon.has_image(image)
    except (RefusedError, UnreachableError) as e:
        raise InfrastructureError(f"the Docker daemon does not answer: {e}") from e


def need_image(image: str, cure: str) -> None:
    """Raises InvalidRequestError with the cure when it is missing."""
    if not has_image(image):
        raise InvalidRequestError(f"no image {image} is here, and nothing is pulled unasked; right is {cure}")


def remove_image(access: DaemonAccess, image: str) -> None:
    """One that is gone, or was never made, is no error."""
    if image:
        with suppress(RefusedError, UnreachableError):
            access.daemon.ask("DELETE", f"/images/{image}?force=1")


def patient(access: DaemonAccess) -> DockerApi:
    """The daemon, with patience: a layer of gigabytes takes minutes."""
    return DockerApi(access.socket, access.api, SECONDS)
