"""`make platforms`: `make run` and `make test` in a Debian 13 of its own, the landlock sandbox in containers, the image.

Debian's packages come by debootstrap into a folder, which becomes the root of everything below it by bubblewrap: unlike
a chroot it lets jobs make user namespaces. What pip is configured with here is there too. Needs root, `debootstrap` and
`bwrap`; takes an hour. Each step's log and `platforms.json` lie in `build/platforms`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.dockerd import any_daemon  # noqa: E402 - run as a script

OUT = ROOT / "build" / "platforms"
SUITE, PACKAGES = "trixie", "ca-certificates,git,make,procps,python3,python3-venv"
INSIDE = "/opt/tuneloop"
GIVEN = re.compile(r"(PIP|UV|HF)_.*|.*_PROXY|SSL_CERT_FILE", re.I)
PLACES = (
    "/etc/resolv.conf",
    "/etc/pip.conf",
    "/etc/xdg/pip",
    str(Path.home() / ".config/pip"),
    str(Path.home() / ".pip"),
)


def say(text: str) -> None:
    """One line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def missing() -> str:
    """What this machine lacks."""
    absent = [name for name in ("debootstrap", "bwrap", "git") if shutil.which(name) is None]
    return "root" if os.geteuid() else ", ".join(absent)


def configured_places() -> set[str]:
    """Folders and files that pip is configured with: indexes, wheels, constraints, certificates."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    words = [word.removesuffix("/simple") for word in re.findall(r"(?:file://)?(/[^\s'\"]+)", told.stdout)]
    return {word for word in (*words, *PLACES, os.environ.get("SSL_CERT_FILE", "")) if word and Path(word).exists()}


def system(root: Path) -> None:
    """Debian and a clone of what is committed; a Debian that is there already is taken, the clone is always new."""
    if not (root / "complete").is_file():
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)], check=True)
        (root / "complete").touch()
        bundle = "/etc/ssl/certs/ca-certificates.crt"  # an authority of one's own, as images for this place have it
        if Path(bundle).is_file():
            shutil.copy(bundle, f"{root}{bundle}")
    clone = root / INSIDE.lstrip("/")
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)


def inside(root: Path, command: str) -> list[str]:
    """The command's words, in that Debian, with this machine's network and what pip needs."""
    binds = [word for place in sorted(configured_places()) for word in ("--ro-bind", place, place)]
    env = {name: value for name, value in os.environ.items() if GIVEN.fullmatch(name)}
    env |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "FT_FILE_PATH": "/var/lib/tuneloop"}
    sets = [word for name, value in env.items() for word in ("--setenv", name, value)]
    mounts = (
        "--bind",
        str(root),
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--bind",
        "/proc",
        "/proc",
        "--bind",
        "/sys",
        "/sys",
        "--perms",
        "1777",
        "--tmpfs",
        "/tmp",
    )
    ends = ("--die-with-parent", "--clearenv", *sets, "--chdir", INSIDE, "/bin/sh", "-c", command)
    return ["bwrap", *mounts, *binds, *ends]


def step(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Run one step into its log."""
    began, log = time.monotonic(), OUT / f"{name.replace(' ', '-')}.log"
    with log.open("wb") as out:
        status = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
    done = {"step": name, "status": status, "seconds": round(time.monotonic() - began), "log": str(log)}
    say("  ".join(f"{key} {value}" for key, value in done.items()))
    return done


def image(root: Path) -> int:
    """The orchestrator's image upon that Debian, by Docker: `doctor` in it finds a sandbox that works. The exit status."""
    base, made = f"tuneloop-platforms-{SUITE}", "tuneloop-platforms"
    with any_daemon() as url:
        env = {**os.environ, "DOCKER_HOST": url, "DOCKER_BUILDKIT": "0"}
        skipped = (f"--exclude=.{name}/*" for name in (INSIDE, "/var/lib/tuneloop", "/var/cache", "/root", "/tmp"))
        with subprocess.Popen(["tar", "-C", str(root), *skipped, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(["docker", "import", "-", base], stdin=tar.stdout, env=env, check=True)
        build = ["docker", "build", "--network", "host", "--build-arg", f"BASE={base}", "-t", made, "."]
        subprocess.run(build, cwd=root / INSIDE.lstrip("/"), env=env, check=True)
        doctor = ["docker", "run", "--rm", "--network", "host", made, "doctor"]
        told = subprocess.run(doctor, env=env, capture_output=True, text=True)
        say(told.stdout + told.stderr)
        return int("landlock" not in told.stdout)


def gained(root: Path) -> str:
    """What the run there has proved; "" for nothing."""
    for report in (root / "var/lib/tuneloop/runs").glob("*/report.json"):
        told = json.loads(report.read_bytes())
        if told["claim"] and told["claim"]["claimed"]:
            return f"{told['baseline']['test']['value']} -> {told['best']['test']['value']}"
    return ""


def main() -> int:
    """All steps; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("/var/tmp/tuneloop-platforms") / SUITE)
    parser.add_argument("--only", choices=("run", "test", "container", "image"), help="one step alone")
    parser.add_argument("--image", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.image:
        return image(given.root)
    if lacks := missing():
        say(f"make platforms needs {lacks}")
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    system(given.root)
    contained = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "tests/sandboxes/test_landlock_in_container.py"]
    steps = {
        "run": inside(given.root, "python3 --version && rm -rf /var/lib/tuneloop && make run"),
        "test": inside(given.root, "make test"),
        "container": contained,
        "image": [sys.executable, __file__, "--image", "--root", str(given.root)],
    }
    done = [step(name, words) for name, words in steps.items() if given.only in (None, name)]
    for one in done:
        if one["step"] == "run":
            one["gain"] = gained(given.root)
            one["status"] = one["status"] or int(not one["gain"])
            say(f"run: {one['gain'] or 'no gain was proved'}")
    (OUT / "platforms.json").write_text(json.dumps(done, indent=1))
    return int(any(one["status"] for one in done))


if __name__ == "__main__":
    sys.exit(main())
