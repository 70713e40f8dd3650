"""The page in a real Chromium: nothing foreign is asked for, it follows the run, and another site cannot steer."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import COMMAND, ROOT
from tests.crash.damage import make_home
from tests.locked import install_lock
from tests.tools.matrix.made import result_tree
from tests.waiting import until
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.layout import Home

pytestmark = pytest.mark.slow
PAGES = (
    "/",
    "/new",
    "/compare?run=done&run=open",
    "/runs/open",
    "/runs/done",
    "/runs/done/report",
    "/runs/done/experiments/2",
    "/matrices",
    "/matrices/sums/report",
    "/matrices/sums/item?id=v10",
)
SHOTS = ROOT / "build" / "ui"


@pytest.fixture(scope="module")
def playwright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Playwright is; Debian's Chromium is installed where that may be."""
    if shutil.which("chromium") is None:
        if os.geteuid() or not shutil.which("apt-get"):
            pytest.skip("no Chromium: apt-get install chromium")
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
            if subprocess.run(install, capture_output=True, check=False).returncode:
                pytest.skip("no Chromium: apt-get could not install it")
    return install_lock("browser", tmp_path_factory.mktemp("playwright"))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Home]]:
    """The link that `tuneloop ui` prints, and its home."""
    home = Home(tmp_path / "home")
    monkeypatch.setenv("FT_FILE_PATH", str(home.root))
    make_home(home.root)
    result_tree(home.results)
    said = tmp_path / "said.txt"
    with said.open("wb") as out:
        p = subprocess.Popen([*COMMAND, "ui", "--port", "0"], stdout=out, stderr=out)
    until(lambda: "token=" in said.read_text(), 60)
    found = re.search(r"http://\S+/login\?token=\S+", said.read_text())
    assert found
    yield found[0], home
    p.send_signal(signal.SIGINT)
    p.wait(30)


def test_page_in_a_browser(playwright: Path, served: tuple[str, Home]) -> None:
    link, home = served
    SHOTS.mkdir(parents=True, exist_ok=True)
    base = link.partition("/login")[0]
    words = (sys.executable, "-P", str(Path(__file__).with_name("browser.py")))
    given = (base, link, str(home.run("open").events), str(SHOTS), *PAGES)
    env = {**os.environ, "PYTHONPATH": str(playwright)}
    done = subprocess.run([*words, *given], env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["said"] == [], "errors, or requests to elsewhere"
    assert max(seen["light"].values()) <= 0 and max(seen["dark"].values()) <= 0, "pages fit their window"
    assert seen["reached"][0] == "To the content" and "text" in seen["reached"]
    assert seen["attack"] in (401, 403)
    said = [line.text for line in read_conversation(home.run("open").conversation) if line.who == "user"]
    assert "limit num_train_epochs<=7" in said and "finish" not in said, "nothing of another site"
    assert "limit num_train_epochs<=7" in seen["sent"]
    assert len(list(SHOTS.glob("*.png"))) >= 2 * len(PAGES)
