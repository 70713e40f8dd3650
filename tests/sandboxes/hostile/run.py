"""What the hostile job starts: each attack in a process of its own. `run.py AIMS NAME...`; standard library only."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.dont_write_bytecode = True

SECONDS = 5


def main(place: str, names: list[str]) -> None:
    """Try each; what stopped it is said in the log."""
    corpus = importlib.import_module("hostile.corpus")
    for aim in corpus.aims(Path(place).read_text()):
        if aim.name not in names:
            continue
        aim.work.mkdir(parents=True, exist_ok=True)
        if len(names) == 1:
            attempt(corpus.CORPUS[aim.name], aim)
            return
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            try:
                attempt(corpus.CORPUS[aim.name], aim)
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)


def attempt(attack: Any, aim: Any) -> None:
    """Whatever happens, the next one has its turn."""
    try:
        attack.code(aim)
    except BaseException as e:  # noqa: BLE001 - an attack that fails says why
        print(f"{aim.name}: {e!r}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
