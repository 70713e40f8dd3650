"""Servers are built in several threads: experiments side by side open theirs at once, in a process that built none before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BUILD = """
import sys, threading
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.main import OF_A_RUN, build_named_server
from tuneloop.mcp_servers.scope import Scope

failed, gate = [], threading.Barrier(8)

def build(number):
    gate.wait()
    try:
        for name in (*OF_A_RUN[number % 4:], *OF_A_RUN[:number % 4]):
            build_named_server(name, Scope(None, Settings(FT_FILE_PATH=sys.argv[1])))
    except BaseException as e:
        failed.append(repr(e))

threads = [threading.Thread(target=build, args=(number,)) for number in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(failed)
"""


def test_eight_threads_build_all_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]", done.stdout[-500:]
