"""An engine as an image: what was built from the lock, on a base system of its own.

The name of an image says what is in it: engine, Dockerfile and base. It is given when the engine has passed the check of
`verify.py` inside; `image.json` in the engine's folder then tells the docker sandbox to use it.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.files import digest, write_json
from tuneloop.core.job import Command, Limits
from tuneloop.sandboxes.docker import IMAGE, DockerSandbox
from tuneloop.sandboxes.images import build_image, has_image, import_base, need_image
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.engines.blueprint import BLUEPRINTS
from tuneloop.tools.engines.build import Progress
from tuneloop.tools.engines.engine import Engine
from tuneloop.tools.engines.verify import differences, inspect
from tuneloop.tools.paths import ENGINES

DOCKERFILE = ENGINES / "Dockerfile"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,ca-certificates,libgomp1,libstdc++6"
BASE = f"tuneloop-base:{SUITE}"
LEFT_OUT = ("__pycache__", "site-packages", "test", "idlelib", "tkinter")  # of the interpreter's own folder
HOUR = 3600.0


def engine_image(engine: Engine, base: str, progress: Progress) -> str:
    """The image of a built engine, found or made now; its name. Raises SetupError, WorldError."""
    base = base or debian(progress)
    need_image(base, f"`docker pull {base}`, or no --base, which makes one from Debian's packages")
    tag = f"tuneloop-{engine.name}:{digest(engine.identity, str(engine.folder), DOCKERFILE.read_bytes(), base)}"
    if not has_image(tag):
        progress(f"{engine.name}: image", 0, 0)
        with tempfile.TemporaryDirectory(prefix="tuneloop-image-", dir=engine.folder.parent) as work:
            context = Path(work) / "context.tar"
            write_context(engine, context)
            labels = {"tuneloop.engine": engine.name, "tuneloop.identity": engine.identity}
            build_image(context, tag, {"BASE": base}, labels, lambda image: check(engine, image))
    write_json(engine.folder / IMAGE, {"image": tag, "base": base, "identity": engine.identity})
    return tag


def write_context(engine: Engine, place: Path) -> None:
    """Dockerfile, engine and interpreter as one tar file. Raises WorldError on a full disk."""
    try:
        with tarfile.open(place, "w") as tar:
            tar.add(DOCKERFILE, "Dockerfile")
            for path in map(Path, engine.readable):
                if not path.is_relative_to("/usr"):
                    tar.add(path, str(path).lstrip("/"), filter=None if path == engine.folder else interpreter_only)
    except OSError as e:
        raise WorldError(f"{place.parent}: no context for the image: {e.strerror}; right is room on that disk") from e


def interpreter_only(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The standard library without what an engine brings itself."""
    return None if any(part in LEFT_OUT for part in Path(entry.name).parts) else entry


def check(engine: Engine, image: str) -> None:
    """Import inside what jobs import; the same torch and packages as outside. Raises WorldError."""
    found = inspect(engine.python, BLUEPRINTS[engine.name].imports, engine.env, DockerSandbox(image))
    problems = [*found.problems, *differences(engine, found)]
    if problems:
        raise WorldError(f"engine {engine.name} does not work in its image: {'; '.join(problems)}")


def debian(progress: Progress) -> str:
    """A base system from Debian's packages. Raises SetupError where debootstrap cannot make one, WorldError."""
    if has_image(BASE):
        return BASE
    program = shutil.which("debootstrap")
    if program is None:
        raise SetupError(f"no image {BASE}: right is --base IMAGE, or `apt install debootstrap` and root to make one")
    progress(f"{BASE}: Debian's packages", 0, 0)
    with tempfile.TemporaryDirectory(prefix="tuneloop-base-") as work:
        argv = (program, "--variant=minbase", f"--include={PACKAGES}", SUITE, f"{work}/root")
        command = Command(argv=argv, cwd=work, write=(work,), network=True, limits=Limits(seconds=HOUR))
        job = launch(ProcessSandbox(), Path(work) / "jobs", "base", command)
        done = wait(ProcessSandbox(), job)
        if not done.ok:
            raise WorldError(f"{BASE} was not made: {log_tail(job, 1)}")
        with tarfile.open(f"{work}/root.tar", "w") as tar:
            tar.add(f"{work}/root", ".", filter=without_caches)
        import_base(Path(work) / "root.tar", BASE)
    return BASE


def without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A base system without packages' archives and manuals."""
    name = entry.name.removeprefix("./")
    return (
        None if name.startswith(("var/cache/apt/", "var/lib/apt/lists/", "usr/share/doc/", "usr/share/man/")) else entry
    )
