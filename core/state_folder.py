"""A folder of this machine's own for what a network file system cannot hold: locks, checkpoints, the machine's name."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.file_systems import network_kind
from tuneloop.core.files import absolute_path, read_text, write_atomic

VARIABLE = "TUNELOOP_STATE_DIR"
DEFAULT = f"/var/tmp/tuneloop-{os.getuid()}"  # noqa: S108 - checked; homes of users lie on networks, too


def name_state_folder(folder: Path | None) -> None:
    """Set by the owner, for this process and those that it starts. Raises InvalidRequestError for one that is not local."""
    if folder is not None:
        os.environ[VARIABLE] = str(absolute_path(folder))
        state_folder()


def inherited() -> dict[str, str]:
    """The variable that names it, for processes which inherit nothing else."""
    return {VARIABLE: os.environ[VARIABLE]} if os.environ.get(VARIABLE) else {}


def named_state_folder() -> Path | None:
    """The folder that the owner named; None: nobody did."""
    return state_folder() if os.environ.get(VARIABLE) else None


def state_folder() -> Path:
    """The folder, which only its owner may enter. Raises InvalidRequestError when there can be none."""
    named = os.environ.get(VARIABLE)
    folder = absolute_path(named or DEFAULT)
    cure = f"set {VARIABLE} to a local folder that is yours alone"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        raise InvalidRequestError(f"{folder} cannot be made ({e.strerror}): {cure}") from e
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o170022 != 0o040000:
        raise InvalidRequestError(f"{folder} is no folder of yours that only you may write: {cure}")
    if kind := network_kind(folder):
        raise InvalidRequestError(f"{folder} lies on a network file system ({kind}): {cure}")
    return folder


def machine_name() -> str:
    """Who shares this state folder: the host's name and a number, since containers share names of hosts."""
    file = state_folder() / "machine"
    if not file.is_file():
        write_atomic(file, secrets.token_hex(4), keep=True)
    return f"{socket.gethostname()[:100].replace('/', '_')}-{read_text(file)}"
