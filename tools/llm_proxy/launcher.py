"""Opens a job's endpoint before the job starts, and starts the proxy again after a kill."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.budget import Limits
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import read_field, write_json
from tuneloop.core.job import Command
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import exclusive, is_locked, try_lock
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.detached import start_detached
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.llm_proxy.access import Access, EndpointConfig, upstreams
from tuneloop.tools.runs.manifest import read_spec

FORWARD, HANDED = ENGINES / "forward.py", ENGINES / "handed_socket.py"
READY_SECONDS = 20.0


def proxy_folder(run: RunFolder, settings: Settings) -> Path:
    """The folder of the run's proxy."""
    return settings.home.proxies / run.id


def with_endpoint(
    run: RunFolder, settings: Settings, jobs: Path, name: str, command: Command, access: Access
) -> Command:
    """The command with an endpoint: the proxy listens, and a forwarder inside maps its socket to a port.

    Limits include what earlier attempts of the job have used. Raises InfrastructureError when the proxy does not come up.
    """
    folder = proxy_folder(run, settings) / endpoint_name(run, jobs, name)
    access = access.within(run_limits(run, jobs))
    token = open_endpoint(run, settings, folder, jobs=jobs, name=name, access=access)
    variables = {
        "STRONG_MODEL_POOL": json.dumps(access.strong),
        "WEAK_MODEL_POOL": json.dumps(access.weak),
        "FT_API_MAX_WORKERS": str(access.workers),
        "OPENAI_API_KEY": token,
    }
    socket_ = folder / "in" / "socket"
    return command.model_copy(
        update={
            "argv": (command.argv[0], "-I", str(FORWARD), str(socket_), *command.argv),
            "env": {**command.env, **variables},
            "read": (*command.read, str(FORWARD), str(HANDED), str(socket_.parent)),
            "endpoint": str(socket_),
            "worker": "",
        }
    )


def run_limits(run: RunFolder, jobs: Path) -> Limits:
    """What the run may spend; unlimited outside of runs, and for the sealed test, which ends every run."""
    if not run.spec.is_file() or jobs.is_relative_to(run.final):
        return Limits()
    return current_limits(run, read_spec(run))


def endpoint_name(run: RunFolder, jobs: Path, name: str) -> str:
    """`experiments-003-build_data`."""
    return "-".join((*jobs.parent.relative_to(run.root).parts, name))


def open_endpoint(run: RunFolder, settings: Settings, folder: Path, *, jobs: Path, name: str, access: Access) -> str:
    """Write `endpoint.json`, start the proxy if needed, wait until it listens; returns the endpoint's token."""
    make_private(settings.home.proxies)
    make_private(folder.parent)
    with exclusive(folder.parent / "start.lock"):
        (folder / "in").mkdir(parents=True, exist_ok=True)
        (folder / "in").chmod(0o755)
        token = known_token(folder) or secrets.token_urlsafe(24)
        config = EndpointConfig(token=token, jobs=jobs, name=name, access=access)
        write_json(folder / "endpoint.json", config.model_dump(mode="json"))
        start_proxy(folder.parent, run, settings)
        deadline = time.monotonic() + READY_SECONDS
        while not listens(folder / "in"):
            if time.monotonic() > deadline or not is_locked(folder.parent / "lock"):
                raise InfrastructureError(
                    f"{folder}: the model proxy does not listen; its log: {folder.parent / 'log.txt'}"
                )
            pause(0.02)
    return token


def keep_running(run: RunFolder, settings: Settings) -> None:
    """Start the proxy again if it was killed while an endpoint is open; costs a look at a file.

    A process without a provider's address, which only looks at the run, does not start it.
    """
    folder = proxy_folder(run, settings)
    if not (folder / "log.txt").is_file() or is_locked(folder / "lock") or not any(folder.glob("[!.]*/in/socket")):
        return
    if not (settings.api_key or settings.api_base or settings.judge_api_base or settings.eval_api_base):
        return
    with exclusive(folder / "start.lock"):
        start_proxy(folder, run, settings)


def start_proxy(folder: Path, run: RunFolder, settings: Settings) -> None:
    """Start the run's proxy unless it runs. Raises InfrastructureError."""
    config = {
        "upstreams": {name: upstream.model_dump() for name, upstream in upstreams(settings).items()},
        "ledger": str(run.ledger),
        "answers": str((settings.home.cache if settings.enable_cache else folder) / "answers"),
    }
    with try_lock(folder / "lock") as lock:
        if lock is not None:
            start_detached(
                "tuneloop.tools.llm_proxy.server",
                str(folder),
                told=json.dumps(config).encode(),
                log=folder / "log.txt",
                lock=lock,
            )


def make_private(folder: Path) -> None:
    """Make a folder that no other user may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def known_token(folder: Path) -> str:
    """The token of an earlier attempt, "" without one."""
    try:
        return str(read_field(folder / "endpoint.json", "token", str))
    except (OSError, ValueError, KeyError):
        return ""


def listens(folder: Path) -> bool:
    """Whether a server accepts connections at the socket in `folder`."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{handle}/socket")
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
