"""What an engine is made of: lock files, stand-ins, and how one knows that it works."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest
from tuneloop.tools.jobs.machine import ENGINES

# Reads lock files: exact pins, each with the SHA-256 of every file of its release.

LINE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)((?: --hash=sha256:[0-9a-f]{64})*)$")


@dataclass(frozen=True)
class Pin:
    """One package of a lock; `hashes` are SHA-256 in hexadecimal, none where the lock says why."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> list[Pin]:
    """The pins in the file's order. Raises ValueError on a line that is no exact pin."""
    text = re.sub(r"\s*\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [_pin(line, path) for line in text.splitlines() if line and line[0] != "#"]


def _pin(line: str, path: Path) -> Pin:
    match = LINE.match(line)
    if match is None:
        raise ValueError(f"{path}: {line[:80]!r} is no exact pin; right is name==version with --hash=sha256:… or none")
    return Pin(match[1], match[2], tuple(match[3].replace(" --hash=sha256:", " ").split()))


PYTHONS = tuple((3, minor) for minor in range(11, 15))  # what every lock has wheels for: `locks/wheels.py`
PYTHON_RANGE = "{}.{} to {}.{}".format(*PYTHONS[0], *PYTHONS[-1])
BUILDERS = ENGINES / "build.txt"  # what builds packages that are published as source only, with hashes like a lock
GB = 1 << 30


@dataclass(frozen=True)
class Blueprint:
    """`folder` holds locks, `torch.txt` and `*_stub/`; `module` is the engine's package, `imports` what verifying imports.

    `accepts`: package → lowest version and first version too high, for environments that a user brings along.
    `writes`: scripts of `folder` that run once in the finished engine, and the file in it that each one writes.
    `optional`: built only where a benchmark asks for it; the others are what every run works with.
    """

    name: str
    folder: Path
    module: str
    imports: tuple[str, ...]
    accepts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    room: int = 3 * GB
    writes: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False

    @property
    def device(self) -> str:
        """What torch is for: TUNELOOP_DEVICE, else cuda where an NVIDIA driver is loaded, else cpu; any: one lock without torch."""
        if (self.folder / "lock-any.txt").is_file() and not self.torch.is_file():
            return "any"
        if named := os.environ.get("TUNELOOP_DEVICE"):  # jobs run elsewhere
            return named
        return "cuda" if Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists() else "cpu"

    @property
    def lock(self) -> Path:
        """The lock file, for all machines where there is one, else for this: every package with hashes, but torch."""
        whole = self.folder / "lock-any.txt"
        return whole if whole.is_file() else self.folder / f"lock-{self.device}.txt"

    @property
    def torch(self) -> Path:
        """Torch by version: its builds differ by device and index."""
        return self.folder / "torch.txt"

    @property
    def pins(self) -> dict[str, str]:
        """Package → version, in the lock's order, torch last. Raises ValueError on a line that is no exact pin."""
        files = [path for path in (self.lock, self.torch) if path.is_file()]
        return {pin.name: pin.version for path in files for pin in read_lock(path)}

    @property
    def stubs(self) -> list[Path]:
        """Files copied into the environment, below the `*_stub` folders."""
        return sorted(p for p in self.folder.glob("*_stub/**/*") if p.is_file() and "__pycache__" not in p.parts)


def engine_identity(blueprint: Blueprint) -> str:
    """Hash of pins, interpreter, platform and stand-ins; names the folder. What pip brought goes into the manifest.

    Of pins, not of the lock's text: more hashes of the same releases (a wheel for another platform) change no engine.
    """
    pins = [f"{name}=={version}" for name, version in blueprint.pins.items()]
    tag = f"{sys.implementation.name} {interpreter()[0]} {sysconfig.get_platform()}"
    stubs = [part for p in blueprint.stubs for part in (str(p.relative_to(blueprint.folder)), p.read_bytes())]
    return digest(blueprint.device, *pins, tag, *stubs)


def interpreter() -> tuple[str, Path]:
    """Name and path of a Python that the locks are for: ours, else the newest on PATH. Raises InvalidRequestError."""
    if sys.version_info[:2] in PYTHONS:
        return f"python{sys.version_info[0]}.{sys.version_info[1]}", Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    for major, minor in reversed(PYTHONS):
        if found := shutil.which(name := f"python{major}.{minor}"):
            return name, Path(found).resolve()
    raise InvalidRequestError(
        f"engines need Python {PYTHON_RANGE}, and this is {platform.python_version()}: put one of those on PATH, "
        "or bring uv's: `uv python install 3.13`, then `uv tool install --python 3.13 tuneloop`"
    )


ENGINE_BLUEPRINTS = {
    "llamafactory": Blueprint(
        name="llamafactory",
        folder=ENGINES / "llamafactory",
        module="llamafactory",
        imports=(
            "llamafactory.cli",
            "llamafactory.launcher",
            "llamafactory.train.tuner",
            "transformers.models.qwen2.modeling_qwen2",
            "transformers.models.llama.modeling_llama",
            "trl",
        ),
        accepts={"llamafactory": ("0.9.4", "0.10"), "transformers": ("4.55", "5.7")},
        writes={"snapshot.py": "parameters.json"},
    ),
    "opencompass": Blueprint(
        name="opencompass",
        folder=ENGINES / "opencompass",
        module="opencompass",
        imports=(
            "opencompass.cli.main",
            "opencompass.datasets",
            "opencompass.models",
            "opencompass.tasks",
            "opencompass.partitioners",
            "opencompass.runners",
            "opencompass.summarizers",
            "math_verify",
            "matplotlib.pyplot",
            "peft",
            "rdkit.Chem.AllChem",
            "transformers.models.qwen2.modeling_qwen2",
            "transformers.models.llama.modeling_llama",
        ),
        accepts={"opencompass": ("0.5.4", "0.6"), "transformers": ("5", "6")},
    ),
    "trl": Blueprint(
        name="trl",
        folder=ENGINES / "trl",
        module="trl",
        imports=(
            "trl.trainer.grpo_trainer",
            "peft",
            "transformers.models.qwen2.modeling_qwen2",
            "transformers.models.llama.modeling_llama",
        ),
        optional=True,
    ),
    "reasoning_gym": Blueprint(
        name="reasoning_gym",
        folder=ENGINES / "reasoning_gym",
        module="reasoning_gym",
        imports=("reasoning_gym",),
        room=GB,
        optional=True,
    ),
}
USUAL = tuple(name for name, blueprint in ENGINE_BLUEPRINTS.items() if not blueprint.optional)  # of every run
