"""An engine as an image: what was built from the lock, on a base system of its own.

The name of an image says what is in it: engine, Dockerfile and base. It is given when the engine has passed the check of
`verify.py` inside; `image.json` in the engine's folder then tells the docker sandbox to use it.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, write_json
from tuneloop.core.job import Command, Limits
from tuneloop.sandboxes.docker import IMAGE, DockerSandbox
from tuneloop.sandboxes.docker_daemon import build_image, has_image, import_base_image, need_image
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.engines.build import Progress
from tuneloop.tools.engines.engine import Engine, inspect_python, package_differences
from tuneloop.tools.jobs.machine import ENGINES

DOCKERFILE = ENGINES / "Dockerfile"
SUITES = {"python3.11": "bookworm", "python3.13": "trixie"}  # whose own Python it is
PACKAGES = "python3,python3-venv,ca-certificates,libgomp1,libstdc++6"
BASE = "tuneloop-base:"
LEFT_OUT = ("__pycache__", "site-packages", "test", "idlelib", "tkinter")  # of the interpreter's own folder
HOUR = 3600.0


def engine_image(engine: Engine, base: str, progress: Progress) -> str:
    """The image of a built engine, found or made now; its name. Raises InvalidRequestError, InfrastructureError."""
    base = base or debian_base(suite_of(engine), progress)
    need_image(base, f"`docker pull {base}`, or no --base, which makes one from Debian's packages")
    tag = f"tuneloop-{engine.name}:{digest(engine.identity, str(engine.folder), DOCKERFILE.read_bytes(), base)}"
    if not has_image(tag):
        progress(f"{engine.name}: image", 0, 0)
        with tempfile.TemporaryDirectory(prefix="tuneloop-image-", dir=engine.folder.parent) as work:
            context = Path(work) / "context.tar"
            write_context(engine, context)
            labels = {"tuneloop.engine": engine.name, "tuneloop.identity": engine.identity}
            build_image(context, tag, {"BASE": base}, labels, lambda image: check_image(engine, image))
    write_json(engine.folder / IMAGE, {"image": tag, "base": base, "identity": engine.identity})
    return tag


def write_context(engine: Engine, place: Path) -> None:
    """Dockerfile, engine and interpreter as one tar file. Raises InfrastructureError on a full disk."""
    try:
        with tarfile.open(place, "w") as tar:
            tar.add(DOCKERFILE, "Dockerfile")
            for path in map(Path, engine.readable):
                if not path.is_relative_to("/usr"):
                    tar.add(path, str(path).lstrip("/"), filter=None if path == engine.folder else skip_site_packages)
    except OSError as e:
        raise InfrastructureError(
            f"{place.parent}: no context for the image: {e.strerror}; right is room on that disk"
        ) from e


def skip_site_packages(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The standard library without what an engine brings itself."""
    return None if any(part in LEFT_OUT for part in Path(entry.name).parts) else entry


def check_image(engine: Engine, image: str) -> None:
    """Import inside what jobs import; the same torch and packages as outside. Raises InfrastructureError."""
    found = inspect_python(engine.python, ENGINE_BLUEPRINTS[engine.name].imports, engine.env, DockerSandbox(image))
    problems = [*found.problems, *package_differences(engine, found)]
    if problems:
        raise InfrastructureError(f"engine {engine.name} does not work in its image: {'; '.join(problems)}")


def suite_of(engine: Engine) -> str:
    """The Debian an engine fits into: the one whose Python it uses, or any, where it brings its own. Raises InvalidRequestError."""
    python = engine.python.resolve()
    if not python.is_relative_to("/usr"):
        return SUITES["python3.11"]
    if python.name not in SUITES:
        raise InvalidRequestError(f"no Debian has {python} of its own: right is --base IMAGE, one that has it")
    return SUITES[python.name]


def debian_base(suite: str, progress: Progress) -> str:
    """A base system from Debian's packages. Raises InvalidRequestError where debootstrap cannot make one, InfrastructureError."""
    base = BASE + suite
    if has_image(base):
        return base
    program = shutil.which("debootstrap")
    if program is None:
        raise InvalidRequestError(
            f"no image {base}: right is --base IMAGE, or `apt install debootstrap` and root to make one"
        )
    progress(f"{base}: Debian's packages", 0, 0)
    with tempfile.TemporaryDirectory(prefix="tuneloop-base-") as work:
        argv = (program, "--variant=minbase", f"--include={PACKAGES}", suite, f"{work}/root")
        command = Command(argv=argv, cwd=work, write=(work,), network=True, limits=Limits(seconds=HOUR))
        job = launch(ProcessSandbox(), Path(work) / "jobs", "base", command)
        done = wait(ProcessSandbox(), job)
        if not done.ok:
            raise InfrastructureError(f"{base} was not made: {log_tail(job, 1)}")
        with tarfile.open(f"{work}/root.tar", "w") as tar:
            tar.add(f"{work}/root", ".", filter=skip_caches)
        import_base_image(Path(work) / "root.tar", base)
    return base


def skip_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A base system without packages' archives and manuals."""
    name = entry.name.removeprefix("./")
    return (
        None if name.startswith(("var/cache/apt/", "var/lib/apt/lists/", "usr/share/doc/", "usr/share/man/")) else entry
    )
