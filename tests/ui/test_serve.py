"""`tuneloop ui` is started: its link, and what it refuses."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

from click.testing import CliRunner

from tests.conftest import COMMAND
from tests.waiting import until
from tuneloop.cli.main import cli


def test_link_works_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    env = {**os.environ, "FT_FILE_PATH": str(tmp_path)}
    with said.open("wb") as out:
        p = subprocess.Popen([*COMMAND, "ui", "--port", "0"], env=env, stdout=out, stderr=out)
    try:
        until(lambda: "token=" in said.read_text(), 60)
        link = re.search(r"http://127\.0\.0\.1:(\d+)(/login\?token=\S+)", said.read_text())
        assert link
        asked = http.client.HTTPConnection("127.0.0.1", int(link[1]), timeout=30)
        asked.request("GET", link[2])
        entered = asked.getresponse()
        entered.read()
        asked.request("GET", "/", headers={"Cookie": (entered.getheader("set-cookie") or "").partition(";")[0]})
        assert b"No run yet" in asked.getresponse().read()
    finally:
        p.send_signal(signal.SIGINT)
    assert p.wait(30) in (0, -signal.SIGINT, 130)
    assert "Traceback" not in said.read_text()


def test_wrong_folder_and_taken_port_are_one_line(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["ui", "--log-dir", str(tmp_path / "nowhere")])
    assert refused.exit_code == 2 and "is no folder" in refused.output
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = CliRunner().invoke(cli, ["ui", "--log-dir", str(tmp_path), "--port", str(port)])
    assert refused.exit_code == 2 and f"cannot listen at 127.0.0.1:{port}" in refused.output
    assert len(refused.output.strip().splitlines()) == 1
