"""Start a process of our own that outlives us and knows a secret: told through a pipe, never in argv, environment or file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tuneloop.core.errors import WorldError
from tuneloop.sandboxes.local import ROOT

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main(*sys.argv[2:])"
START_SECONDS = 60.0


def start_detached(module: str, *words: str, told: bytes, log: Path, lock: int) -> None:
    """Call `main(*words, LOCK)` of one of our modules in a new session, with `told` on its standard input.

    It inherits the locked descriptor, and detaches by forking when it is ready; its parent's end is waited for here.
    Raises WorldError when it does not come up.
    """
    argv = [sys.executable, "-I", "-c", BOOT.format(module=module), str(ROOT), *words, str(lock)]
    try:
        with log.open("ab") as out:
            begun = os.fstat(out.fileno()).st_size
            done = subprocess.run(
                argv,
                input=told,
                stdout=out,
                stderr=out,
                env={},
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
                timeout=START_SECONDS,
                check=False,
            )
    except (OSError, subprocess.SubprocessError) as e:
        raise WorldError(f"{module} cannot be started: {type(e).__name__}") from None
    if done.returncode != 0:
        said = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
        raise WorldError(f"{module} did not start: {said[-1] if said else 'no reason given'}")
