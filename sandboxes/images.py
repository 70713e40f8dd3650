"""Builds images from a context, keeps what was verified, leaves nothing half-made; nothing is ever pulled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

import docker
from docker.errors import DockerException

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.sandboxes.daemon import PROBLEMS, Access, find_daemon, one_line, room
from tuneloop.sandboxes.dockerd import Refused, Unreachable

SECONDS = 1800
PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
NAME = re.compile(rf"(?:{PART}(?::\d+)?/)?{PART}(?:/{PART})*(?::\w[\w.-]*)?(?:@sha256:[0-9a-f]{{64}})?")


def build_image(
    context: Path, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str], verify: Callable[[str], None]
) -> str:
    """Build the tar file `context`, show the nameless image to `verify`, then give it its name; the image's id.

    Raises WorldError with the daemon's last words, and what `verify` raises; no image is left then.
    """
    access = find_daemon()
    image = ""
    try:
        with closing(client_of(access)) as client, context.open("rb") as f:
            lines = client.build(
                fileobj=f,
                custom_context=True,
                rm=True,
                forcerm=True,
                decode=True,
                network_mode="none",
                buildargs=dict(arguments),
                labels=dict(labels),
            )
            for line in lines:
                if "error" in line:
                    raise DockerException(line["error"])
                image = line.get("aux", {}).get("ID", image)
            verify(image)
            repository, name = tag.split(":")
            client.tag(image, repository, name)
    except BaseException as e:
        remove_image(access, image)
        if isinstance(e, PROBLEMS):
            raise WorldError(f"image {tag} was not built: {one_line(e)}{room(e)}") from e
        raise
    return image


def import_base(tar: Path, tag: str) -> None:
    """An image of one layer from a file system in a tar file. Raises WorldError."""
    repository, name = tag.split(":")
    try:
        with closing(client_of(find_daemon())) as client:
            client.import_image_from_file(str(tar), repository=repository, tag=name)
    except PROBLEMS as e:
        raise WorldError(f"image {tag} was not made: {one_line(e)}{room(e)}") from e


def has_image(image: str) -> bool:
    """Whether it lies there. Raises SetupError, WorldError."""
    if not NAME.fullmatch(image):
        raise SetupError(f"{image!r} is no name of an image; right is one like debian:bookworm")
    try:
        return find_daemon().daemon.has_image(image)
    except (Refused, Unreachable) as e:
        raise WorldError(f"the Docker daemon does not answer: {e}") from e


def need_image(image: str, cure: str) -> None:
    """Raises SetupError with the cure when it is missing."""
    if not has_image(image):
        raise SetupError(f"no image {image} is here, and nothing is pulled unasked; right is {cure}")


def remove_image(access: Access, image: str) -> None:
    """One that is gone, or was never made, is no error."""
    if image:
        with suppress(Refused, Unreachable):
            access.daemon.ask("DELETE", f"/images/{image}?force=1")


def client_of(access: Access) -> docker.APIClient:
    """With patience: a layer of gigabytes takes minutes."""
    return docker.APIClient(base_url=f"unix://{access.socket}", version=access.api, timeout=SECONDS)
