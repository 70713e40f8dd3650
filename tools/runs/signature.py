"""Which runs this home has made: its key signs `run.yaml` and `setup.json`; runs of others are shown, not carried on."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import json_text, read_bytes, read_json, remove_partial_writes, write_atomic, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import Setup

# A run's folder decides what jobs read and what is trained; who sends you one must not decide that. The key is the
# proof that this home wrote the two files that say so. It grants nothing: no signed file can take a sandbox away.

KEY_BYTES = 32


def home_of(run: RunFolder) -> Home:
    """The home that the run lies in."""
    return Home(run.root.parent.parent)


def read_key(home: Home) -> bytes | None:
    """The home's key; None when there is none yet. Raises InvalidRequestError when others could read or write it."""
    try:
        handle = os.open(home.key, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise InvalidRequestError(f"{home.key}: cannot be read ({e.strerror}); right is a file of your own") from e
    with os.fdopen(handle, "rb") as f:
        found = os.fstat(f.fileno())
        key = f.read(KEY_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise InvalidRequestError(f"{home.key}: others can read it; right is: chmod 600, and a file of your own")
    if len(key) != KEY_BYTES:
        raise InvalidRequestError(f"{home.key}: is damaged; remove it, then say --trust-folder for each run to resume")
    return key


def make_key(home: Home) -> bytes:
    """The home's key, made if missing; of several who make it at once one wins."""
    if (known := read_key(home)) is not None:
        remove_partial_writes(home.key)  # of one who was killed when the key was there already
        return known
    home.root.mkdir(parents=True, exist_ok=True)
    write_atomic(home.key, secrets.token_bytes(KEY_BYTES), mode=0o600, keep=True)
    return make_key(home)


def signature(key: bytes, *parts: bytes) -> str:
    """HMAC-SHA256 over the parts, their order and borders."""
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def signatures(key: bytes, spec: bytes, setup: bytes | None) -> dict[str, str]:
    """By file; the setup's holds for this spec alone."""
    of_setup = {} if setup is None else {"setup.json": signature(key, b"setup.json", spec, setup)}
    return {"run.yaml": signature(key, b"run.yaml", spec), **of_setup}


def write_signed_spec(run: RunFolder, text: str) -> None:
    """`run.yaml`, after its signature: a kill in between leaves no run at all."""
    write_json(run.signature, signatures(make_key(home_of(run)), text.encode(), None))
    write_atomic(run.spec, text)


def write_setup(run: RunFolder, setup: Setup) -> None:
    """`setup.json`, signed."""
    write_signed_setup(run, json_text(setup.model_dump(mode="json")))


def write_signed_setup(run: RunFolder, text: str) -> None:
    """`setup.json`, after its signature: a kill in between leaves a run that is prepared again."""
    write_json(run.signature, signatures(make_key(home_of(run)), read_bytes(run.spec), text.encode()))
    write_atomic(run.setup, text)


def is_signed(run: RunFolder) -> bool:
    """Whether this home wrote the run's `run.yaml`, and its `setup.json` where there is one."""
    key = read_key(home_of(run))
    try:
        known = read_json(run.signature)
        spec = read_bytes(run.spec)
        setup = read_bytes(run.setup) if run.setup.exists() else None
    except (OSError, ValueError):
        return False
    if key is None or not isinstance(known, dict):
        return False
    wanted = signatures(key, spec, setup)
    return all(hmac.compare_digest(str(known.get(name, "")).encode(), mac.encode()) for name, mac in wanted.items())


def check_signed(run: RunFolder) -> None:
    """Raises InvalidRequestError for a run that this home did not make, or that was changed since."""
    if not is_signed(run):
        raise InvalidRequestError(
            f"run {run.id} was not made by this home, or its run.yaml or setup.json was changed: it can be looked at "
            f"only; where you know who made it: tuneloop resume {run.id} --trust-folder"
        )


def trust_folder(run: RunFolder) -> None:
    """Sign a run from elsewhere, on its owner's word. Raises InvalidRequestError when a link leads out of its folder.

    A job that may write below the folder would otherwise write where the link leads.
    """
    for link in links_out(run.root):
        raise InvalidRequestError(f"{link}: leads out of the run's folder; remove it, then trust the folder")
    setup = read_bytes(run.setup) if run.setup.exists() else None
    write_json(run.signature, signatures(make_key(home_of(run)), read_bytes(run.spec), setup))


OF_JOBS = frozenset(
    {"work", "data", "model", "datasets", "candidate", "best"}
)  # what jobs write is read as a stranger's


def check_no_links_out(run: RunFolder) -> None:
    """Raises InvalidRequestError when a file or folder that we write is a link that leads out of the run's folder.

    A run of ours may have been in other hands: what is signed does not change by that.
    """
    for link in links_out(run.root, skip=OF_JOBS):
        raise InvalidRequestError(
            f"{link}: leads out of the run's folder, where nothing of it belongs; put back what was there"
        )


def links_out(root: Path, skip: Collection[str] = ()) -> Iterator[Path]:
    """Links below a run's folder that lead out of it, but those to its data sets, which are only read.

    `skip`: names of folders that are not looked into.
    """
    real = os.path.realpath(root)
    if root.is_symlink() and not skip:
        yield root
    for folder, names, files in os.walk(root):
        for path in (Path(folder) / name for name in (*names, *files)):
            inside = path.is_relative_to(root / "datasets") and path != root / "datasets"
            if path.is_symlink() and not inside and not Path(os.path.realpath(path)).is_relative_to(real):
                yield path
        names[:] = [name for name in names if name not in skip]
