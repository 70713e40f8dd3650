"""landlock where it is for: in a container with Docker's default profile, started by root and by an ordinary user."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "tuneloop-landlock-trial"
FOLDERS = ("dev", "etc", "proc", "root", "sys", "tmp", "usr", "var/tmp")
LINKS = ("bin", "lib", "lib64", "sbin")
FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group")
TESTS = ("tests/sandboxes/test_landlock.py", "tests/sandboxes/test_contract_confinement.py")
CHOICE = (
    "from tuneloop.sandboxes.choose import open_sandbox; found = open_sandbox('auto'); print(found.kind, found.user)"
)
INSIDE = """
"$0" -c "$1" && exec "$0" -m pytest -q -p no:cacheprovider --basetemp=/tmp/t -k "landlock and not warm" $2
"""


def docker(url: str, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", *words], input=data, env={**os.environ, "DOCKER_HOST": url}, capture_output=True)


@pytest.fixture(scope="module")
def image(docker_host: str) -> Iterator[str]:
    """Empty folders: programs, Python and this checkout are mounted."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(folder)
        for name in filter(lambda name: Path("/", name).is_symlink(), LINKS):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, str(Path("/", name).readlink())
            tar.addfile(link)
    made = docker(docker_host, "import", "-", IMAGE, data=buffer.getvalue())
    assert made.returncode == 0, made.stderr
    yield docker_host
    docker(docker_host, "rmi", IMAGE)


@pytest.mark.soak
@pytest.mark.parametrize(("user", "jobs"), [("0:0", "(10001, 10001)"), ("10001:10001", "None")])
def test_auto_is_landlock_and_holds(image: str, user: str, jobs: str) -> None:
    places = {"/usr", sys.base_prefix, sys.prefix, str(ROOT), *filter(os.path.exists, FILES)}
    mounts = [word for place in sorted(places) for word in ("-v", f"{place}:{place}:ro")]
    env = [word for name in ("PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=1", "HOME=/tmp") for word in ("-e", name)]
    words = ("--rm", "--network", "none", "--user", user, "--workdir", str(ROOT), *env, *mounts, IMAGE)
    done = docker(image, "run", *words, "/bin/sh", "-c", INSIDE, sys.executable, CHOICE, " ".join(TESTS))
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:] + done.stderr.decode()[-1000:]
    assert said.splitlines()[0] == f"landlock {jobs}"
    assert " passed" in said
