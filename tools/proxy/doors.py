"""A job's door on the outside: opens it before the job starts, and starts the proxy again should it be killed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any

from tuneloop.core.bridge import pause
from tuneloop.core.errors import WorldError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import Command
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Limits
from tuneloop.core.locks import exclusive, is_locked, locked
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.detached import start_detached
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.proxy.access import Access, upstreams
from tuneloop.tools.runs.manifest import read_spec

FORWARD = ENGINES / "forward.py"
READY_SECONDS = 20.0


def place_of(run: RunFolder, settings: Settings) -> Path:
    """The proxy's folder."""
    return settings.home.proxies / run.id


def through_door(
    run: RunFolder, settings: Settings, jobs: Path, name: str, command: Command, access: Access
) -> Command:
    """The command with a door to models: the proxy listens, and a forwarder inside brings its socket to a port.

    Its limits go on from what earlier attempts of the job have used. Raises WorldError when the proxy does not come up.
    """
    door = place_of(run, settings) / door_name(run, jobs, name)
    access = access.within(allowed(run, jobs))
    token = open_door(run, settings, door, {"jobs": str(jobs), "name": name, "access": access.model_dump()})
    told = {
        "STRONG_MODEL_POOL": json.dumps(access.strong),
        "WEAK_MODEL_POOL": json.dumps(access.weak),
        "FT_API_MAX_WORKERS": str(access.workers),
    }
    socket_ = door / "in" / "socket"
    return command.model_copy(
        update={
            "argv": (command.argv[0], "-I", str(FORWARD), str(socket_), *command.argv),
            "env": {**command.env, **told, "OPENAI_API_KEY": token},
            "read": (*command.read, str(FORWARD), str(socket_.parent)),
            "worker": "",
        }
    )


def allowed(run: RunFolder, jobs: Path) -> Limits:
    """What the run may spend; none where there is no run, and for the sealed test, which ends every run."""
    if not run.spec.is_file() or jobs.is_relative_to(run.final):
        return Limits()
    return limits(run, read_spec(run))


def door_name(run: RunFolder, jobs: Path, name: str) -> str:
    """`experiments-003-build_data`."""
    return "-".join((*jobs.parent.relative_to(run.root).parts, name))


def open_door(run: RunFolder, settings: Settings, door: Path, plate: dict[str, Any]) -> str:
    """Write `door.json`, have a proxy that listens there, and return the token that opens it."""
    closed(settings.home.proxies)
    closed(door.parent)
    with exclusive(door.parent / "start.lock"):
        (door / "in").mkdir(parents=True, exist_ok=True)
        (door / "in").chmod(0o755)
        token = known_token(door) or secrets.token_urlsafe(24)
        write_json(door / "door.json", {"token": token, **plate})
        ensure(door.parent, run, settings)
        deadline = time.monotonic() + READY_SECONDS
        while not listens(door / "in"):
            if time.monotonic() > deadline or not is_locked(door.parent / "lock"):
                raise WorldError(f"{door}: the model proxy does not listen; its log: {door.parent / 'log.txt'}")
            pause(0.02)
    return token


def keep_open(run: RunFolder, settings: Settings) -> None:
    """Start the proxy again if it was killed while a door of it is open; costs a look at a file.

    Somebody who was not told where models are, and only looks at the run, leaves that to who was.
    """
    place = place_of(run, settings)
    if not (place / "log.txt").is_file() or is_locked(place / "lock") or not any(place.glob("[!.]*/in/socket")):
        return
    if not (settings.api_key or settings.api_base or settings.judge_api_base or settings.eval_api_base):
        return
    with exclusive(place / "start.lock"):
        ensure(place, run, settings)


def ensure(place: Path, run: RunFolder, settings: Settings) -> None:
    """A proxy of this run, started unless it lives. Raises WorldError."""
    told = {
        "upstreams": {name: upstream.model_dump() for name, upstream in upstreams(settings).items()},
        "ledger": str(run.ledger),
        "answers": str((settings.home.cache if settings.enable_cache else place) / "answers"),
    }
    with locked(place / "lock") as lock:
        if lock is not None:
            start_detached(
                "tuneloop.tools.proxy.serve",
                str(place),
                told=json.dumps(told).encode(),
                log=place / "log.txt",
                lock=lock,
            )


def closed(folder: Path) -> None:
    """A folder that no other user may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def known_token(door: Path) -> str:
    """The token of an earlier attempt, "" when there was none."""
    try:
        return str(read_json(door / "door.json")["token"])
    except (OSError, ValueError, KeyError):
        return ""


def listens(folder: Path) -> bool:
    """Whether somebody answers at the socket in `folder`."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(f"/proc/self/fd/{handle}/socket")
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
